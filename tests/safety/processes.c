/* Makes children in every way, handles signals meanwhile, and says how all of that went: the same whatever is loaded.
 * In its environment LIBHOMING may name the library: then it is opened and started first.
 *
 *   processes
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile sig_atomic_t alarms, urgent, over;
static volatile int in_child;

static void on_alarm(int signal)
{
   (void)signal, alarms++;
}

static void on_urgent(int signal)
{
   (void)signal, urgent++;
}

static void *allocate(void *data)
{
   while (!over)
      free(malloc(200000));
   return data;
}

static int wait_for(pid_t child)
{
   int status;
   while (waitpid(child, &status, 0) != child)
      if (errno != EINTR)
         return perror("processes: waitpid"), -1;
   return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int vforked(int executes)
{
   pid_t child = vfork();
   if (child == 0 && executes)
      execlp("sh", "sh", "-c", "exit 4", (char *)NULL);
   if (child == 0)
      _exit(9);
   return wait_for(child);
}

static int in_clone(void *data)
{
   in_child = 1;
   return *(int *)data;
}

static int spawn(int (*how)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                            char *const[], char *const[]))
{
   char *words[] = {"sh", "-c", "exit 5", NULL};
   pid_t child;
   return how(&child, "sh", NULL, NULL, words, environ) == 0 ? wait_for(child) : -1;
}

static int start(const char *path)
{
   void *library = dlopen(path, RTLD_NOW);
   int (*begin)(const char *) = library ? (int (*)(const char *))dlsym(library, "homing_start") : NULL;
   if (!begin || begin(NULL) < 0)
      return fprintf(stderr, "processes: %s\n", library ? "homing_start" : dlerror()), 0;
   return 1;
}

int main(void)
{
   static char stack[65536] __attribute__((aligned(16)));
   struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
   struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, before;
   int number = 6, forked = 0, spawned = 0, status;
   pthread_t thread;
   const char *library = getenv("LIBHOMING");
   if (library && !start(library))
      return 1;
   pthread_create(&thread, NULL, allocate, NULL);
   sigaction(SIGALRM, &action, &before);
   printf("SIGALRM had %s handler\n", before.sa_handler == SIG_DFL ? "no" : "a");
   action.sa_handler = on_urgent;
   sigaction(SIGURG, &action, NULL);
   raise(SIGURG);
   printf("%d of 1 SIGURG\n", (int)urgent);
   setitimer(ITIMER_REAL, &often, NULL);
   for (int round = 0; round < 100; round++) {
      fflush(stdout);
      pid_t child = fork();
      if (child == 0) {
         free(malloc(300000)), free(calloc(1000, 1000));
         if (round % 2 == 0)
            _exit(3);
         fclose(stdout), exit(3);
      }
      forked += wait_for(child) == 3;
   }
   printf("%d of 100 forks\n", forked);
   printf("vfork and exec: %d\n", vforked(1));
   printf("vfork: %d\n", vforked(0));
   for (int round = 0; round < 10; round++)
      spawned += spawn(posix_spawnp) == 5;
   printf("%d of 10 spawned\n", spawned);
   pid_t child = clone(in_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &number);
   printf("clone: %d, memory %s\n", wait_for(child), in_child ? "shared" : "copied");
   status = system("exit 8");
   printf("system: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
   child = fork();
   if (child == 0)
      raise(SIGKILL);
   printf("killed: %d\n", wait_for(child) - 256);
   while (alarms < 5)
      usleep(1000);
   setitimer(ITIMER_REAL, &never, NULL);
   printf("SIGALRM came; %s\n", waitpid(-1, NULL, 0) == -1 && errno == ECHILD ? "no child is left" : "a child is left");
   over = 1;
   pthread_join(thread, NULL);
   fflush(stdout);
   execlp("sh", "sh", "-c", "echo executed; exit 7", (char *)NULL);
   return 1;
}
