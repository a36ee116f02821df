/* A program with OpenMP that knows nothing of Homing: the first thread, on CPU 0, fills an array and static data, then
 * each thread works on a band of both, in three parallel regions an iteration, for ROUNDS iterations at least, and
 * until at least ENOUGH pages of the array are on the nodes of their threads (the kernel says so), five minutes at
 * most. With `again` threads then go to other nodes, and all of that comes once more.
 *
 *   bands PAGES ROUNDS ENOUGH [again]     PAGES of each thread
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

enum { PAGE = 4096, MOST = 64, FIELD = 512 };

static volatile char *array;
static volatile char field[FIELD * PAGE];
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
   long part = FIELD / threads * PAGE;
   for (long at = omp_get_thread_num() * part; at < (omp_get_thread_num() + 1) * part; at += 64)
      field[at]++;
}

/* Binds threads to the CPUs in turn, from one on. */
static void place(long from)
{
#pragma omp parallel
   {
      bind_to((omp_get_thread_num() + from) % threads);
      syscall(SYS_getcpu, NULL, &nodes[omp_get_thread_num()], NULL);
   }
}

/* Iterations: how many, and how many pages are at home then. */
static long iterate(long rounds, long enough, long *home)
{
   long round = 0;
   time_t end = time(NULL) + 300;
   for (*home = 0; round < rounds || (*home < enough && time(NULL) < end); round++) {
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
         *home = at_home();
   }
   return round;
}

int main(int argc, char **argv)
{
   if (argc != 4 && argc != 5)
      return fputs("usage: bands PAGES ROUNDS ENOUGH [again]\n", stderr), 2;
   pages = atol(argv[1]);
   long rounds = atol(argv[2]), enough = atol(argv[3]), home;
   threads = omp_get_max_threads();
   bind_to(0);
   array = mmap(NULL, threads * pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   memset((void *)array, 0, threads * pages * PAGE);
   memset((void *)field, 0, sizeof field);
   place(0);
   long done = iterate(rounds, enough, &home);
   if (argc == 5 && home >= enough) {
      printf("bands: %ld of %ld pages at home after %ld rounds\n", home, threads * pages, done);
      place(threads / 2);
      done += iterate(rounds, enough, &home);
   }
   printf("bands: %ld rounds, %ld of %ld pages at home\n", done, home, threads * pages);
   return home < enough;
}
