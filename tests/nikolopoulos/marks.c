/* Preloaded into a workload in the lab: when its iterations end, and what happens to it meanwhile. Workloads say where
 * their iterations end (workloads/common.h). At exit a line for each goes to a file: its number, the time in
 * nanoseconds since the machine started, and the pages that the kernel has migrated since then.
 *
 *   MARKS=FILE              where to; with MARKS_PROGRAM=NAME, of the process of that name alone
 *   MARKS_START=round-robin memory of the main thread is interleaved until the first thread of OpenMP begins
 *   MARKS_REBIND=N          when iteration N ends, each bound thread goes to the CPU half the machine away
 *   MARKS_SHARE=N:CPU,...   when iteration N ends, the program goes on with a thread on each of these CPUs
 *
 * With -DLIBRARY and libhoming it starts the library, as a program linked with it would.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef LIBRARY
#include <homing/runtime.h>
#endif

enum { MOST = 4096 };

static struct {
   int64_t ns;
   long migrated;
} ends[MOST];
static long iterations;
static int interleaved, mine;

static int64_t now(void)
{
   struct timespec t;
   clock_gettime(CLOCK_BOOTTIME, &t);
   return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long migrated(void)
{
   char line[256];
   long pages = -1;
   FILE *file = fopen("/proc/vmstat", "r");
   while (file && fgets(line, sizeof line, file))
      if (sscanf(line, "pgmigrate_success %ld", &pages) == 1)
         break;
   if (file)
      fclose(file);
   return pages;
}

static void set_policy(int mode, unsigned long nodes)
{
   if (syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL, nodes ? 8 * sizeof nodes : 0UL) != 0)
      perror("marks: set_mempolicy"), exit(1);
}

static void bind_to(pid_t thread, int cpu)
{
   cpu_set_t cpus;
   CPU_ZERO(&cpus);
   CPU_SET(cpu, &cpus);
   if (sched_setaffinity(thread, sizeof cpus, &cpus) != 0)
      perror("marks: sched_setaffinity"), exit(1);
}

/* The only CPU that a thread may use, or -1. */
static int bound_to(pid_t thread)
{
   cpu_set_t cpus;
   if (sched_getaffinity(thread, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) != 1)
      return -1;
   for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
      if (CPU_ISSET(cpu, &cpus))
         return cpu;
   return -1;
}

/* True for threads of an engine in this process. */
static int of_engine(const char *thread)
{
   char name[300], comm[32] = "";
   snprintf(name, sizeof name, "/proc/self/task/%s/comm", thread);
   FILE *file = fopen(name, "r");
   int known = file && fgets(comm, sizeof comm, file);
   if (file)
      fclose(file);
   return known && strncmp(comm, "homing", 6) == 0;
}

static void rebind(void)
{
   DIR *tasks = opendir("/proc/self/task");
   int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
   for (struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;) {
      pid_t thread = atoi(entry->d_name);
      int cpu = thread > 0 && !of_engine(entry->d_name) ? bound_to(thread) : -1;
      if (cpu >= 0)
         bind_to(thread, (cpu + cpus / 2) % cpus);
   }
   if (tasks)
      closedir(tasks);
}

/* Threads of the regions to come. */
static void share(const char *list)
{
   int cpus[64], count = 0;
   for (char *end; count < 64 && *list != '\0'; list = *end == ',' ? end + 1 : end)
      cpus[count++] = (int)strtol(list, &end, 10);
   void (*set)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads");
   if (!set)
      fprintf(stderr, "marks: no OpenMP\n"), exit(1);
   set(count);
   DIR *tasks = opendir("/proc/self/task");
   int next = 0;
   for (struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;)
      if (atoi(entry->d_name) > 0 && !of_engine(entry->d_name))
         bind_to(atoi(entry->d_name), cpus[next++ % count]);
   if (tasks)
      closedir(tasks);
}

static void iteration(void)
{
   const char *at = getenv("MARKS_REBIND"), *shared = getenv("MARKS_SHARE");
   if (iterations < MOST)
      ends[iterations].ns = now(), ends[iterations].migrated = migrated();
   iterations++;
   if (at && atol(at) == iterations)
      rebind();
   if (shared && atol(shared) == iterations)
      share(strchr(shared, ':') + 1);
}

/* The workloads call it (workloads/common.h). */
void workload_iteration(void)
{
   if (mine)
      iteration();
}

typedef int creates(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* The threads of OpenMP are the first that libgomp starts; by then the main thread has touched the data. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *data)
{
   static creates *create;
   Dl_info info;
   if (!create)
      create = (creates *)dlsym(RTLD_NEXT, "pthread_create");
   if (interleaved && dladdr((void *)start, &info) && strstr(info.dli_fname, "libgomp")) {
      interleaved = 0;
      set_policy(getenv("MARKS_AFTER") ? MPOL_DEFAULT : MPOL_LOCAL, 0);
   }
   return create(thread, attributes, start, data);
}

__attribute__((constructor)) static void begin(void)
{
   const char *program = getenv("MARKS_PROGRAM"), *start = getenv("MARKS_START");
   mine = getenv("MARKS") && program && strcmp(program, program_invocation_short_name) == 0;
   if (!mine)
      return;
#ifdef LIBRARY
   if (homing_start(getenv("MARKS_SETTINGS")) != HOMING_OK) {
      char why[1024];
      homing_reason(why, sizeof why);
      fprintf(stderr, "marks: homing_start: %s\n", why);
   }
#endif
   if (start && strcmp(start, "round-robin") == 0) {
      interleaved = 1;
      unsigned long nodes = 0;
      if (syscall(SYS_get_mempolicy, NULL, &nodes, 8 * sizeof nodes, NULL, MPOL_F_MEMS_ALLOWED) != 0)
         perror("marks: get_mempolicy"), exit(1);
      set_policy(MPOL_INTERLEAVE, nodes);
   }
}

__attribute__((destructor)) static void end(void)
{
   FILE *file = mine && iterations > 0 ? fopen(getenv("MARKS"), "w") : NULL;
   for (long i = 0; file && i < iterations && i < MOST; i++)
      fprintf(file, "%ld %lld %ld\n", i + 1, (long long)ends[i].ns, ends[i].migrated);
   if (file)
      fclose(file);
}
