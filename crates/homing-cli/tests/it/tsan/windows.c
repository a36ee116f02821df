/* The main thread makes two arrays, one by a loop and one by memset. Then two threads in turns: each writes its row of
 * a table, waits for the other, reads the other's row, and waits again. Between rounds the first allocates, and maps a
 * page for a moment, and the second reads some of the arrays. Works for as many milliseconds as it is told, then prints
 * where the table is, how long a row is, the number of rounds, and where the arrays are. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <string.h>
#include <time.h>

enum { N = 1000, BLOCK = 12344, PAGES = 200 };
static volatile long table[2][N];
static pthread_barrier_t barrier;
static int done;
static void *volatile block;
static long milliseconds;
static long made[PAGES][512] __attribute__((aligned(4096)));
static char filled[PAGES][4096] __attribute__((aligned(4096)));
/* A short loop's array on both sides of a page's end. */
enum { ACROSS = 12 };
static char two_pages[2][4096] __attribute__((aligned(4096)));

static long now(void)
{
   struct timespec time;
   clock_gettime(CLOCK_MONOTONIC, &time);
   return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* As in include/homing.h. */
void homing_mark(const char *name) __attribute__((weak));

static void between_rounds(long end)
{
   if (homing_mark)
      homing_mark("round");
   block = malloc(BLOCK);
   free(block);
   volatile long *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   page[0] = 1;
   munmap((void *)page, 4096);
   __atomic_store_n(&done, now() >= end, __ATOMIC_RELEASE);
}

static void *work(void *argument)
{
   intptr_t mine = (intptr_t)argument;
   long round = 0, end = now() + milliseconds;
   for (int more = 1; more; round++) {
      for (long i = 0; i < N; i++)
         table[mine][i] = round;
      pthread_barrier_wait(&barrier);
      for (long i = 0; i < N; i++)
         (void)table[1 - mine][i];
      pthread_barrier_wait(&barrier);
      if (mine == 0)
         between_rounds(end);
      else
         for (int page = round % 10; page < PAGES; page += 10)
            (void)*(volatile long *)&made[page][round % 512], (void)*(volatile char *)&filled[page][round % 4096];
      (void)*(volatile char *)&two_pages[mine][round % 4096];
      pthread_barrier_wait(&barrier);
      more = !__atomic_load_n(&done, __ATOMIC_ACQUIRE);
   }
   return (void *)round;
}

static void make(void)
{
   for (int page = 0; page < PAGES; page++)
      for (int i = 0; i < 512; i++)
         made[page][i] = page + i;
   memset(filled, PAGES, sizeof filled);
   long *across = (long *)two_pages[1] - ACROSS;
   for (int i = 0; i < 2 * ACROSS; i++)
      across[i] = i;
}

int main(int argc, char **argv)
{
   make();
   pthread_t threads[2];
   void *rounds[2];
   milliseconds = argc > 1 ? atol(argv[1]) : 1000;
   pthread_barrier_init(&barrier, NULL, 2);
   for (intptr_t i = 0; i < 2; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   for (int i = 0; i < 2; i++)
      pthread_join(threads[i], &rounds[i]);
   printf("%lu %d %ld ", (unsigned long)table, N, (long)rounds[0]);
   printf("%lu %lu %lu\n", (unsigned long)made, (unsigned long)filled, (unsigned long)two_pages);
   return rounds[0] != rounds[1];
}
