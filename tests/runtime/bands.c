/* A program with OpenMP that knows nothing of Homing: the first thread, on CPU 0, fills an array, then each thread
 * works on a band of it, in three parallel regions an iteration, for ROUNDS iterations at least, and until at least
 * ENOUGH pages are on the nodes of their threads (the kernel says so), five minutes at most.
 *
 *   bands PAGES ROUNDS ENOUGH     PAGES of each thread
 */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 64 };

static volatile char *array;
static long pages, threads;
static unsigned nodes[MOST];

static void bind_to(int cpu)
{
   cpu_set_t cpus;
   CPU_ZERO(&cpus);
   CPU_SET(cpu, &cpus);
   if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
      perror("sched_setaffinity"), exit(1);
}

static long at_home(void)
{
   long home = 0;
   for (long page = 0; page < threads * pages; page++) {
      void *address = (void *)(array + page * PAGE);
      int status = -1;
      if (syscall(SYS_move_pages, 0, 1UL, &address, NULL, &status, 0) == 0 && status >= 0)
         home += (unsigned)status == nodes[page / pages];
   }
   return home;
}

static void work(int times)
{
   long begin = omp_get_thread_num() * pages * PAGE, end = begin + pages * PAGE;
   for (int i = 0; i < times; i++)
      for (long at = begin; at < end; at += 64)
         array[at]++;
}

int main(int argc, char **argv)
{
   if (argc != 4)
      return fputs("usage: bands PAGES ROUNDS ENOUGH\n", stderr), 2;
   pages = atol(argv[1]);
   long rounds = atol(argv[2]), enough = atol(argv[3]), home = 0, round = 0;
   threads = omp_get_max_threads();
   bind_to(0);
   array = mmap(NULL, threads * pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   memset((void *)array, 0, threads * pages * PAGE);
#pragma omp parallel
   {
      bind_to(omp_get_thread_num());
      syscall(SYS_getcpu, NULL, &nodes[omp_get_thread_num()], NULL);
   }
   time_t end = time(NULL) + 300;
   for (; round < rounds || (home < enough && time(NULL) < end); round++) {
#pragma omp parallel
      work(1);
      for (int inner = 0; inner < 2 + round % 3; inner++) {
#pragma omp parallel
         work(1);
      }
#pragma omp parallel for schedule(dynamic)
      for (int i = 0; i < 64; i++)
         array[i * 64]++;
      if (round % 10 == 0)
         home = at_home();
   }
   printf("bands: %ld rounds, %ld of %ld pages at home\n", round, home, threads * pages);
   return home < enough;
}
