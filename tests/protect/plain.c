/* A program that knows nothing of Homing, without OpenMP: main, on CPU 0, fills an array; then thread i, on CPU i,
 * works on its own band of it. Waits until at least ENOUGH pages are on the nodes of their threads (the kernel says
 * so), five minutes at most, and checks what was counted.
 *
 *   plain THREADS PAGES ENOUGH     PAGES each
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 64 };

static unsigned long threads, pages, rounds[MOST];
static unsigned nodes[MOST];
static volatile int over;
static volatile char *array;

static void bind_to(unsigned long cpu)
{
   cpu_set_t cpus;
   CPU_ZERO(&cpus);
   CPU_SET(cpu, &cpus);
   if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
      perror("sched_setaffinity"), exit(1);
}

static void *work(void *data)
{
   unsigned long thread = (unsigned long)(uintptr_t)data;
   bind_to(thread);
   syscall(SYS_getcpu, NULL, &nodes[thread], NULL);
   for (; !over; rounds[thread]++)
      for (unsigned long at = thread * pages * PAGE; at < (thread + 1) * pages * PAGE; at += 64)
         ++*(volatile uint64_t *)(array + at);
   return NULL;
}

static unsigned long at_home(void)
{
   unsigned long home = 0;
   for (unsigned long page = 0; page < threads * pages; page++) {
      void *address = (void *)(array + page * PAGE);
      int status = -1;
      if (syscall(SYS_move_pages, 0, 1UL, &address, NULL, &status, 0) == 0 && status >= 0)
         home += (unsigned)status == nodes[page / pages];
   }
   return home;
}

int main(int argc, char **argv)
{
   if (argc != 4)
      return fputs("usage: plain THREADS PAGES ENOUGH\n", stderr), 2;
   threads = strtoul(argv[1], NULL, 10), pages = strtoul(argv[2], NULL, 10);
   unsigned long enough = strtoul(argv[3], NULL, 10), home = 0;
   pthread_t thread[MOST];
   bind_to(0);
   size_t bytes = threads * pages * PAGE;
   array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   memset((void *)array, 0, bytes);
   for (unsigned long i = 0; i < threads; i++)
      pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i);
   time_t end = time(NULL) + 300;
   while (time(NULL) < end && home < enough) {
      usleep(300000);
      home = at_home();
   }
   over = 1;
   for (unsigned long i = 0; i < threads; i++)
      pthread_join(thread[i], NULL);
   for (size_t at = 0; at < bytes; at += 64)
      if (*(uint64_t *)(array + at) != rounds[at / (pages * PAGE)])
         return printf("not ok plain: a wrong count at %zu\n", at), 1;
   printf("%s plain: at home are %lu of %lu pages\n", home < enough ? "not ok" : "ok", home, threads * pages);
   return home < enough;
}
