/* Programs that do with threads, stacks, processes and mappings what few do: `odd NAME` ends as it should with status
 * 7, or by a signal. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { N = 20000, AS_EXPECTED = 7 };
extern char **environ;
static volatile long counted[N];

static void *fill(void *argument)
{
   for (int i = 0; i < N; i++)
      counted[i]++;
   return argument;
}

static int status_of(pid_t child)
{
   int status;
   return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *touch(void *at)
{
   counted[(uintptr_t)at % N]++;
   return at;
}

/* Many short threads. */
static int churn(void)
{
   pthread_t threads[10];
   for (uintptr_t i = 0; i < 1000; i += 10) {
      for (uintptr_t k = 0; k < 10; k++)
         pthread_create(&threads[k], NULL, touch, (void *)(i + k));
      for (int k = 0; k < 10; k++)
         pthread_join(threads[k], NULL);
   }
   return AS_EXPECTED;
}

static ucontext_t outside, inside[8];

static void coroutine(int self)
{
   for (int i = 0; i < 300; i++) {
      counted[self * 100 + i % 100]++;
      swapcontext(&inside[self], &outside);
   }
}

/* Threads of control on stacks of their own. */
static int contexts(void)
{
   for (int i = 0; i < 8; i++) {
      getcontext(&inside[i]);
      inside[i].uc_stack.ss_size = 1 << 16;
      inside[i].uc_stack.ss_sp = malloc(1 << 16);
      inside[i].uc_link = &outside;
      makecontext(&inside[i], (void (*)(void))coroutine, 1, i);
   }
   for (int round = 0; round < 301; round++)
      for (int i = 0; i < 8; i++)
         swapcontext(&outside, &inside[i]);
   return AS_EXPECTED;
}

static jmp_buf out;

static void descend(int depth)
{
   volatile char frame[500];
   frame[0] = (char)depth;
   if (depth == 0)
      longjmp(out, 1);
   descend(depth - 1);
   counted[0] += frame[0];
}

static int jumps(void)
{
   for (volatile int i = 0; i < 1000; i++)
      if (setjmp(out) == 0)
         descend(100);
   fill(NULL);
   return AS_EXPECTED;
}

static sigjmp_buf rescue;

static void rescued(int signal)
{
   counted[0] += signal;
   siglongjmp(rescue, 1);
}

static int dig(volatile char *above)
{
   volatile char frame[4096];
   frame[0] = above != NULL ? above[0] : 1;
   return dig(frame) + frame[0];
}

/* The stack overflows, and a handler on another one saves the program. */
static int overflow(void)
{
   static char other[1 << 16];
   const stack_t alternate = {.ss_sp = other, .ss_size = sizeof other};
   sigaltstack(&alternate, NULL);
   struct sigaction action = {.sa_handler = rescued, .sa_flags = SA_ONSTACK | SA_NODEFER};
   sigaction(SIGSEGV, &action, NULL);
   for (volatile int i = 0; i < 2; i++)
      if (sigsetjmp(rescue, 1) == 0)
         dig(NULL);
   fill(NULL);
   return AS_EXPECTED;
}

static int children(void)
{
   char *command[] = {"sh", "-c", "exit 5", NULL};
   for (int i = 0; i < 6; i++) {
      pid_t child = vfork();
      if (child == 0) {
         if (i % 2)
            execv("/bin/sh", command);
         _exit(5);
      }
      if (status_of(child) != 5 || posix_spawn(&child, "/bin/sh", NULL, NULL, command, environ) != 0 ||
          status_of(child) != 5)
         return 1;
      child = fork();
      if (child == 0) {
         fill(NULL);
         _exit(i);
      }
      if (status_of(child) != i)
         return 2;
      fill(NULL);
   }
   return AS_EXPECTED;
}

/* A child of a program with threads makes one itself. */
static int forks_with_threads(void)
{
   for (int i = 0; i < 5; i++) {
      pthread_t thread, other;
      pthread_create(&thread, NULL, fill, NULL);
      pid_t child = fork();
      if (child == 0) {
         pthread_create(&other, NULL, fill, NULL);
         pthread_join(other, NULL);
         _exit(i);
      }
      pthread_join(thread, NULL);
      if (status_of(child) != i)
         return 1;
   }
   return AS_EXPECTED;
}

static void *fill_for_ever(void *argument)
{
   for (;;) {
      fill(NULL);
      pthread_testcancel();
   }
   return argument;
}

static int cancels(void)
{
   for (int i = 0; i < 20; i++) {
      pthread_t thread;
      pthread_create(&thread, NULL, fill_for_ever, NULL);
      usleep(1000);
      pthread_cancel(thread);
      pthread_join(thread, NULL);
   }
   return AS_EXPECTED;
}

static void *leave_late(void *argument)
{
   usleep(50000);
   fill(NULL);
   exit(AS_EXPECTED);
   return argument;
}

static int main_thread_leaves(void)
{
   pthread_t thread;
   pthread_create(&thread, NULL, leave_late, NULL);
   fill(NULL);
   pthread_exit(NULL);
}

static void *kill_all(void *argument)
{
   usleep(50000);
   kill(getpid(), SIGKILL);
   return argument;
}

static int killed(void)
{
   pthread_t thread;
   pthread_create(&thread, NULL, kill_all, NULL);
   for (;;)
      fill(NULL);
}

static int aborts(void)
{
   fill(NULL);
   abort();
}

static int replaces_itself(void)
{
   fill(NULL);
   execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
   return 1;
}

/* A large reservation of which little is used. */
static int reserves(void)
{
   const size_t bytes = 1UL << 32;
   char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
   if (at == MAP_FAILED)
      return 1;
   for (size_t i = 0; i < 100; i++)
      at[bytes / 100 * i] = 1;
   munmap(at, bytes);
   return AS_EXPECTED;
}

enum { PAGE = 4096, REPAIRED = 8 };
static volatile sig_atomic_t repaired;

static void repair(int signal, siginfo_t *info, void *context)
{
   (void)signal, (void)context;
   if (++repaired > REPAIRED)
      _exit(1);
   mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

/* A handler of faults that repairs and returns, as collectors of garbage have them. */
static int repairs(void)
{
   struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
   sigaction(SIGSEGV, &action, NULL);
   char *at = mmap(NULL, REPAIRED * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   memset(at, 1, REPAIRED * PAGE);
   mprotect(at, REPAIRED * PAGE, PROT_READ);
   int sum = 0;
   for (int i = 0; i < REPAIRED; i++)
      sum += ++at[i * PAGE];
   fill(NULL);
   return repaired == REPAIRED && sum == 2 * REPAIRED ? AS_EXPECTED : 1;
}

static int closes_streams(void)
{
   for (int i = 0; i < 64; i++)
      close(i);
   for (int i = 0; i < 20; i++)
      fill(NULL);
   return AS_EXPECTED;
}

/* Without /proc, and without rights where it is started by root. */
static int confined(void)
{
   fill(NULL);
   char empty[] = "/tmp/odd-XXXXXX";
   if (mkdtemp(empty) == NULL || chdir(empty) != 0 || rmdir(empty) != 0)
      return 1;
   if (geteuid() == 0 && (chroot(".") != 0 || setgid(65534) != 0 || setuid(65534) != 0))
      return 2;
   pthread_t thread;
   pthread_create(&thread, NULL, fill, NULL);
   pthread_join(thread, NULL);
   free(malloc(1 << 20));
   return AS_EXPECTED;
}

#define PROGRAM(name) {#name, name}
static const struct {
   const char *name;
   int (*run)(void);
} programs[] = {PROGRAM(churn),    PROGRAM(contexts), PROGRAM(jumps),          PROGRAM(overflow),
                PROGRAM(children), PROGRAM(cancels),  PROGRAM(reserves),       PROGRAM(forks_with_threads),
                PROGRAM(killed),   PROGRAM(aborts),   PROGRAM(closes_streams), PROGRAM(main_thread_leaves),
                PROGRAM(confined), PROGRAM(replaces_itself), PROGRAM(repairs)};

int main(int count, char **arguments)
{
   for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
      if (count == 1)
         puts(programs[i].name);
      else if (strcmp(arguments[1], programs[i].name) == 0)
         return programs[i].run();
   return count == 1 ? 0 : 2;
}
