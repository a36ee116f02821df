/* A program that looks for what the source `protect` could change: descriptors, stacks and actions of signals, `errno`,
 * signals that come meanwhile, stacks of its own making in memory that may be protected, jumps out of handlers, reads
 * into protected memory. Runs for SECONDS and prints what does not depend on time.   notice SECONDS */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 512, STACKS = 8, STACK = 64 * PAGE, CALLS = 4096, FILES = 16 * CALLS };

static volatile char *array, *buffers;
static volatile int over;
static volatile uint64_t alarms;
static sigjmp_buf back;
static const char *program;

static void fail(const char *what)
{
   printf("not ok notice: %s\n", what);
   fflush(stdout);
   _exit(1);
}

static char *memory(size_t bytes)
{
   char *new = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (new == MAP_FAILED)
      fail("mmap");
   memset(new, 0, bytes);
   return new;
}

static void on_alarm(int signal)
{
   (void)signal;
   alarms++;
   array[alarms % PAGES * PAGE]++;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
   (void)signal, (void)context;
   if (info->si_addr != (void *)16)
      fail("a fault that is not the program's");
   siglongjmp(back, 1);
}

/* Changes to another stack: what is kept lies on the old one. */
void change(void **from, void *to);
__asm__("change:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	" mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
	" pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");

static __thread void *home_stack, *stacks[STACKS];
static __thread int present;
static __thread uint64_t turns[STACKS];

static uint64_t deep(int depth)
{
   volatile char room[PAGE];
   room[depth % PAGE] = (char)depth;
   return depth ? deep(depth - 1) + (uint64_t)room[depth % PAGE] : 0;
}

static void routine(void)
{
   for (;;) {
      if (deep(40) != 820)
	 fail("a stack of its own making lost something");
      turns[present]++;
      change(&stacks[present], home_stack);
   }
}

static void make_stacks(char *all)
{
   for (int i = 0; i < STACKS; i++) {
      /* The address to return to, which a function finds behind a multiple of 16 bytes. */
      void **top = (void **)(all + (i + 1) * STACK) - 2;
      *top = (void *)routine;
      stacks[i] = top - 6;
   }
}

static void visit(int stack)
{
   present = stack;
   change(&home_stack, stacks[stack]);
}

/* Makes no call: whatever its stacks meet is met by a fault. */
static void *work(void *data)
{
   make_stacks(data);
   while (!over)
      for (int i = 0; i < STACKS; i++)
	 for (int page = 0; page < PAGES; page++) {
	    array[page * PAGE + 8 + i]++;
	    if (page % 64 == 0)
	       visit(i);
	 }
   return turns[STACKS - 1] == 0 ? data : NULL;
}

static void look_at_signals(void)
{
   stack_t stack;
   if (sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE))
      fail("a stack for signals that it has not");
   struct sigaction now;
   for (int signal = 1; signal < 32; signal++)
      if (signal != SIGALRM && signal != SIGSEGV && sigaction(signal, NULL, &now) == 0 &&
          now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)
	 fail("a handler that it has not");
   if (sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_sigaction != on_fault)
      fail("its handler is another one");
   sigset_t mask;
   sigprocmask(SIG_BLOCK, NULL, &mask);
   for (int signal = 1; signal < 32; signal++)
      if (sigismember(&mask, signal))
	 fail("a signal is blocked");
}

static void look_at_files(void)
{
   static int ends[2];
   int file = open(program, O_RDONLY);
   if (file != 3 || pipe(ends) != 0 || ends[0] != 4)
      fail("other numbers of descriptors");
   char *from = (char *)buffers, *to = (char *)buffers + 100 * PAGE;
   to[PAGE] = 1;
   /* Round the C library's own functions, and through them. */
   if (syscall(SYS_read, file, to, 3 * PAGE) != 3 * PAGE || write(ends[1], from, 2 * PAGE) != 2 * PAGE ||
       read(ends[0], to, 2 * PAGE) != 2 * PAGE || memcmp(from + 4000, to + 4000, 8) != 0)
      fail("a call into its memory");
   errno = 77;
   array[300 * PAGE]++;
   if (errno != 77)
      fail("errno");
   close(file), close(ends[0]), close(ends[1]);
}

int main(int argc, char **argv)
{
   program = argv[0];
   double seconds = argc == 2 ? atof(argv[1]) : 1;
   array = memory(PAGES * PAGE), buffers = memory(PAGES * PAGE);
   /* Without a stack for signals, as here, SA_ONSTACK means nothing; but else there is no window (apart.c, queued). */
   struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
   struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
   sigaction(SIGALRM, &alarm, NULL), sigaction(SIGSEGV, &fault, NULL);
   pthread_t thread;
   sigset_t set;
   sigemptyset(&set), sigaddset(&set, SIGALRM);
   /* Its signal comes to the first thread. */
   pthread_sigmask(SIG_BLOCK, &set, NULL);
   pthread_create(&thread, NULL, work, memory(STACKS * STACK));
   pthread_sigmask(SIG_UNBLOCK, &set, NULL);
   make_stacks(memory(STACKS * STACK));
   struct itimerval every = {{0, 3000}, {0, 3000}};
   setitimer(ITIMER_REAL, &every, NULL);
   struct timespec now, begin;
   clock_gettime(CLOCK_MONOTONIC, &begin);
   uint64_t rounds = 0, jumps = 0;
   double past = 0;
   do {
      for (int page = 0; page < PAGES; page++)
	 array[page * PAGE + 64]++;
      visit((int)(rounds % STACKS));
      if (rounds % CALLS == 0) {
	 look_at_signals();
	 /* After reading and writing a thread is left alone for a second. */
	 if (rounds % FILES == 0 && past > seconds / 2)
	    look_at_files();
	 if (sigsetjmp(back, 1) == 0)
	    *(volatile char *)16 = 1;
	 else
	    jumps++;
      }
      rounds++;
      clock_gettime(CLOCK_MONOTONIC, &now);
      past = (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9;
   } while (past < seconds);
   over = 1;
   void *idle;
   pthread_join(thread, &idle);
   for (int page = 0; page < PAGES; page++)
      if (array[page * PAGE + 64] != (char)rounds)
	 fail("a store is lost");
   if (jumps != (rounds + CALLS - 1) / CALLS || alarms == 0 || idle != NULL || turns[0] == 0)
      fail("a fault, an alarm or a stack is missing");
   puts("ok notice");
   return 0;
}
