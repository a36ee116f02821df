/* A program that brings its own pages home by libhoming: main, on CPU 0, fills three arrays; then thread i, on CPU i,
 * works on its own band of all. The first array is an area, the second is not, the third is one that stays. Waits
 * until at least ENOUGH pages of
 * the first are on the nodes of their threads (the kernel says so), ten minutes at most.
 *
 *   home THREADS PAGES ENOUGH     PAGES each
 */
#define _GNU_SOURCE
#include <homing/runtime.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 64 };

static unsigned long threads, pages;
static volatile int over;
enum { ARRAYS = 3 };
static volatile char *arrays[ARRAYS];

static void fail(const char *what)
{
   char why[1024];
   homing_reason(why, sizeof why);
   printf("not ok home: %s: status %d, %s: %s\n", what, homing_status(), homing_status_text(homing_status()), why);
   exit(1);
}

static void bind_to(unsigned long cpu)
{
   cpu_set_t cpus;
   CPU_ZERO(&cpus);
   CPU_SET(cpu, &cpus);
   if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
      perror("sched_setaffinity"), exit(1);
}

static unsigned node_here(void)
{
   unsigned cpu, node;
   syscall(SYS_getcpu, &cpu, &node, NULL);
   return node;
}

static unsigned nodes[MOST];

static void *work(void *data)
{
   unsigned long thread = (unsigned long)(uintptr_t)data;
   bind_to(thread);
   nodes[thread] = node_here();
   while (!over)
      for (int array = 0; array < ARRAYS; array++)
         for (unsigned long at = thread * pages * PAGE; at < (thread + 1) * pages * PAGE; at += 64)
            arrays[array][at]++;
   return NULL;
}

/* Pages of an array on the node of their thread. */
static unsigned long at_home(int array)
{
   unsigned long home = 0;
   for (unsigned long page = 0; page < threads * pages; page++) {
      void *address = (void *)(arrays[array] + page * PAGE);
      int status = -1;
      if (syscall(SYS_move_pages, 0, 1UL, &address, NULL, &status, 0) == 0 && status >= 0)
         home += (unsigned)status == nodes[page / pages];
   }
   return home;
}

/* A child has no manager, and says so. */
static void check_child(void)
{
   pid_t child = fork();
   if (child == 0)
      _exit(homing_status() != HOMING_FORKED || homing_stop() != HOMING_FORKED ||
            homing_area(arrays, 4, NULL) != HOMING_FORKED);
   int status;
   if (waitpid(child, &status, 0) != child || status != 0)
      fail("a child");
}

int main(int argc, char **argv)
{
   if (argc != 4)
      return fputs("usage: home THREADS PAGES ENOUGH\n", stderr), 2;
   threads = strtoul(argv[1], NULL, 10), pages = strtoul(argv[2], NULL, 10);
   unsigned long enough = strtoul(argv[3], NULL, 10), home = 0;
   pthread_t thread[MOST];
   bind_to(0);
   if (homing_start(NULL) != HOMING_OK)
      fail("homing_start");
   size_t bytes = threads * pages * PAGE;
   for (int array = 0; array < ARRAYS; array++) {
      arrays[array] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      memset((void *)arrays[array], 0, bytes);
   }
   if (homing_area((void *)arrays[0], bytes, "first") != HOMING_OK)
      fail("homing_area");
   if (homing_area_with((void *)arrays[2], bytes, "third", "stay = true") != HOMING_BAD_ARGUMENT ||
       homing_area_with((void *)arrays[2], bytes, "third", "stays = true") != HOMING_OK)
      fail("homing_area_with");
   for (unsigned long i = 0; i < threads; i++)
      pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i);
   time_t end = time(NULL) + 600;
   struct homing_statistics counts = {.size = sizeof counts};
   while (time(NULL) < end && home < enough && homing_status() == HOMING_OK) {
      usleep(200000);
      homing_iteration();
      home = at_home(0);
   }
   /* Threads of node 0 have their band of each array at home from the start. */
   unsigned long begun = 0;
   for (unsigned long i = 0; i < threads; i++)
      begun += nodes[i] == nodes[0] ? pages : 0;
   /* What came home is counted at the manager's next interval. One scan may reach the first array alone, and where
    * nothing is left to do the next comes after a minute or more. */
   unsigned long came = home < begun ? 0 : home - begun;
   struct homing_area_statistics first = {.size = sizeof first}, third = first;
   end = time(NULL) + 300;
   while (time(NULL) < end && (first.pages_migrated < came || third.samples_remote == 0)) {
      nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
      homing_area_statistics((void *)arrays[0], &first);
      homing_area_statistics((void *)arrays[2], &third);
   }
   if (homing_statistics(&counts) != HOMING_OK)
      fail("homing_statistics");
   char source[64];
   homing_source(source, sizeof source);
   printf("source %s; at home are %lu of %lu pages of the area, %lu of the other array\n", source, home,
          threads * pages, at_home(1));
   printf("samples: %lu local, %lu remote, %lu outside; moved %lu, failed %lu; scans %lu, missed %lu; iterations %lu\n",
          counts.samples_local, counts.samples_remote, counts.samples_outside, counts.pages_moved, counts.moves_failed,
          counts.scans, counts.scans_missed, counts.iterations);
   fflush(stdout);
   if (home < enough)
      fail("pages did not come home");
   if (homing_area_statistics((void *)arrays[1], &first) != HOMING_BAD_ARGUMENT ||
       homing_area_statistics((void *)arrays[0], &first) != HOMING_OK ||
       homing_area_statistics((void *)arrays[2], &third) != HOMING_OK)
      fail("homing_area_statistics");
   printf("first: %lu pages, %lu eligible, %lu moved; third: %lu pages, %lu samples, %lu moved\n", first.pages,
          first.pages_eligible, first.pages_migrated, third.pages, third.samples_local + third.samples_remote,
          third.pages_migrated);
   if (first.pages_migrated < came || first.pages_migrated > first.pages_eligible || third.pages == 0 ||
       third.samples_remote == 0 || third.pages_migrated > 0)
      fail("statistics of areas");
   /* Before the fork: what threads write to after it is copied, to their node. */
   unsigned long strayed = at_home(1), left = at_home(2);
   check_child();
   over = 1;
   for (unsigned long i = 0; i < threads; i++)
      pthread_join(thread[i], NULL);
   if (homing_stop() != HOMING_OK || homing_status() != HOMING_NOT_STARTED || homing_stop() != HOMING_NOT_STARTED)
      fail("homing_stop");
   homing_statistics(&counts);
   /* That source looks at areas alone. */
   if (counts.pages_moved < came || (counts.samples_outside == 0 && strcmp(source, "protect") != 0))
      fail("statistics");
   if (strayed > begun || left > begun)
      fail("pages outside of the area, or of one that stays, moved");
   puts("ok home");
   return 0;
}
