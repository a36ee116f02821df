/* What else a program can do to its recording: `behaviours NAME`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 10000 };
volatile long counted[N];
/* Otherwise the compiler leaves allocations out. */
static void *volatile kept;

static void fill(void)
{
   for (int i = 0; i < N; i++)
      counted[i] = i;
}

static void ends(void) { fill(); }

static void exits(void)
{
   fill();
   _exit(0);
}

static void crashes(void)
{
   fill();
   *(volatile int *)8 = 1;
}

static void killed(void)
{
   fill();
   kill(getpid(), SIGKILL);
}

/* The child's references are not recorded. */
static void forks(void)
{
   pid_t child = fork();
   if (child == 0) {
      fill();
      fill();
      _exit(0);
   }
   waitpid(child, NULL, 0);
   fill();
}

static void *sleeps(void *ready)
{
   fill();
   pthread_barrier_wait(ready);
   fill();
   return NULL;
}

/* 40 threads that all hold a stream at once. */
static void crowd(void)
{
   pthread_t threads[40];
   pthread_barrier_t ready;
   pthread_barrier_init(&ready, NULL, 40);
   for (int i = 0; i < 40; i++)
      pthread_create(&threads[i], NULL, sleeps, &ready);
   for (int i = 0; i < 40; i++)
      pthread_join(threads[i], NULL);
}

static void maps(void)
{
   char *at = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   memset(at, 1, 1 << 16);
   char *moved = mremap(at, 1 << 16, 1 << 18, MREMAP_MAYMOVE);
   moved[1 << 17] = 1;
   munmap(moved, 1 << 18);
   kept = malloc(1 << 20);
   memset(kept, 2, 1 << 20);
   free(kept);
}

static void *allocates(void *unused)
{
   kept = calloc(10, 10);
   kept = realloc(kept, 300);
   free(kept);
   void *p;
   if (posix_memalign(&p, 64, 128) == 0)
      free(p);
   return unused;
}

static void allocations(void)
{
   allocates(NULL);
   kept = malloc(1234);
   free(kept);
}

static volatile sig_atomic_t handled;
static volatile int seen_by_handler[16];

static void on_alarm(int signal)
{
   for (int i = 0; i < 16; i++)
      seen_by_handler[i] = signal;
   handled++;
}

static void handlers(void)
{
   signal(SIGUSR1, on_alarm);
   pid_t self = getpid(), child = fork();
   if (child == 0) {
      for (int i = 0; i < 1000; i++) {
         kill(self, SIGUSR1);
         usleep(20);
      }
      _exit(0);
   }
   while (waitpid(child, NULL, WNOHANG) == 0)
      fill();
   printf("%d", (int)handled);
}

static sigjmp_buf out;
static volatile int jumped, turns;

static void jump(int signal)
{
   (void)signal;
   jumped++;
   siglongjmp(out, 1);
}

/* Handlers that never return, on the thread's stack and on one of their own. */
static void jumps(void)
{
   static char other[65536];
   const stack_t alternate = {.ss_sp = other, .ss_size = sizeof other};
   sigaltstack(&alternate, NULL);
   for (int round = 0; round < 400; round++) {
      struct sigaction action = {.sa_handler = jump, .sa_flags = round % 2 ? SA_ONSTACK : 0}, before;
      sigaction(SIGALRM, &action, NULL);
      sigaction(SIGALRM, NULL, &before);
      if (before.sa_handler != jump || before.sa_flags & SA_SIGINFO)
         _exit(1);
      const struct itimerval soon = {.it_value = {.tv_usec = 200}};
      if (sigsetjmp(out, 1) == 0) {
         setitimer(ITIMER_REAL, &soon, NULL);
         for (;;)
            turns++;
      }
   }
   fill();
   printf("%d", jumped);
}

static const struct {
   const char *name;
   void (*run)(void);
} programs[] = {{"ends", ends},   {"exits", exits}, {"crashes", crashes}, {"killed", killed},           {"forks", forks},
                {"crowd", crowd}, {"maps", maps},   {"handlers", handlers}, {"allocations", allocations},
                {"jumps", jumps}};

int main(int count, char **arguments)
{
   for (size_t i = 0; count > 1 && i < sizeof programs / sizeof programs[0]; i++)
      if (strcmp(arguments[1], programs[i].name) == 0) {
         programs[i].run();
         return 0;
      }
   return 2;
}
