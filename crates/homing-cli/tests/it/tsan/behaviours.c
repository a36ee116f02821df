/* What else a program can do to its recording: `behaviours NAME`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
      if (fork() == 0)
         _exit(0);
      wait(NULL);
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

static volatile long stepped;

static void *once(void *unused)
{
   stepped = 1;
   return unused;
}

static void fill_early(int signal)
{
   (void)signal;
   fill();
}

/* A signal waits for each thread and reaches it before it has begun. */
static void early(void)
{
   signal(SIGALRM, fill_early);
   sigset_t none, alarms;
   sigemptyset(&none);
   sigemptyset(&alarms);
   sigaddset(&alarms, SIGALRM);
   pthread_sigmask(SIG_BLOCK, &alarms, NULL);
   pthread_attr_t open_to_all;
   pthread_attr_init(&open_to_all);
   pthread_attr_setsigmask_np(&open_to_all, &none);
   for (int i = 0; i < 30; i++) {
      pthread_t thread;
      kill(getpid(), SIGALRM);
      pthread_create(&thread, &open_to_all, once, NULL);
      pthread_join(thread, NULL);
   }
   fill();
}

/* Threads whose memory libc frees when they have ended. */
static void detached(void)
{
   pthread_attr_t detached;
   pthread_attr_init(&detached);
   pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
   pthread_attr_setstacksize(&detached, 16 << 20);
   for (int i = 0; i < 200; i++) {
      pthread_t thread;
      while (pthread_create(&thread, &detached, once, NULL) != 0)
         usleep(100);
   }
   usleep(100000);
   fill();
}

/* Closes all descriptors, as daemons do, puts others in their place, and writes a file: prints how much is in it. */
static void closes(void)
{
   struct rlimit most;
   getrlimit(RLIMIT_NOFILE, &most);
   fill();
   for (int i = 3; i < (int)most.rlim_cur && i < 10000; i++)
      close(i);
   close_range(3, ~0U, 0);
   closefrom(3);
   for (int i = 3; i < (int)most.rlim_cur && i < 5000; i++)
      dup2(2, i);
   int file = fileno(tmpfile());
   for (int i = 3; i < (int)most.rlim_cur && i < 5000; i++)
      dup2(file, i);
   for (int i = 0; i < 20; i++)
      fill();
   struct stat status;
   fstat(file, &status);
   printf("%ld", (long)status.st_size);
}

/* The same past libc. */
static void takes(void)
{
   fill();
   int file = fileno(tmpfile());
   for (int i = 3; i < 5000; i++)
      if (i != file)
         syscall(SYS_dup2, file, i);
   for (int i = 0; i < 20; i++)
      fill();
   struct stat status;
   fstat(file, &status);
   printf("%ld", (long)status.st_size);
}

__attribute__((noinline)) static void *gets_some(void)
{
   kept = malloc(24);
   return kept;
}

__attribute__((noinline)) static void *gets_more(void)
{
   kept = malloc(48);
   return kept;
}

static pthread_barrier_t both;

static void *gets(void *count)
{
   for (long i = 0; i < (long)count; i++) {
      free(gets_some());
      free(gets_more());
   }
   if ((long)count == 1)
      pthread_barrier_wait(&both);
   pthread_barrier_wait(&both);
   return NULL;
}

/* Call-sites that one thread is the first at, while others fill their segments. */
static void sites(void)
{
   pthread_barrier_init(&both, NULL, 2);
   pthread_t first, other;
   pthread_create(&first, NULL, gets, (void *)1L);
   pthread_barrier_wait(&both);
   pthread_create(&other, NULL, gets, (void *)30000L);
   pthread_join(first, NULL);
   pthread_join(other, NULL);
}

static const struct {
   const char *name;
   void (*run)(void);
} programs[] = {{"ends", ends},     {"exits", exits},       {"crashes", crashes},
                {"killed", killed}, {"forks", forks},       {"crowd", crowd},
                {"maps", maps},     {"handlers", handlers}, {"allocations", allocations},
                {"jumps", jumps},   {"early", early},       {"detached", detached},
                {"closes", closes}, {"takes", takes},       {"sites", sites}};

int main(int count, char **arguments)
{
   for (size_t i = 0; count > 1 && i < sizeof programs / sizeof programs[0]; i++)
      if (strcmp(arguments[1], programs[i].name) == 0) {
         programs[i].run();
         return 0;
      }
   return 2;
}
