/* A library with BYTES of thread-local memory of the kind that must be there when the program begins. */
__thread char memory[BYTES] __attribute__((tls_model("initial-exec")));

char *of_this_thread(void)
{
   return memory;
}
