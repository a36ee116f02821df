/* A program that takes SIGSYS, as the runtimes of some languages do, while windows begin, and then makes calls: none of
 * them may come back as a signal.   handles TURNS */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256 };

static void on_call(int signal)
{
   (void)signal;
   _exit(1);
}

int main(int argc, char **argv)
{
   long turns = argc == 2 ? atol(argv[1]) : 0;
   volatile char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (memory == MAP_FAILED)
      return perror("mmap"), 1;
   for (long i = 0; i < turns; i++)
      memory[i % PAGES * PAGE]++;
   signal(SIGSYS, on_call);
   for (int i = 0; i < 2000; i++) {
      memory[i % PAGES * PAGE]++;
      getppid();
   }
   puts("ok handles");
   return 0;
}
