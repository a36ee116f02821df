// Threads that draw numbers. Planted: from one counter, one at a time (-DFIXED: a thousand at a time).
#include <pthread.h>
#include <stdio.h>
#define THREADS 4
#define DRAWS 100000
#ifdef FIXED
#define BATCH 1000
#else
#define BATCH 1
#endif
static long ticket __attribute__((aligned(64)));

static void *work(void *unused)
{
   long sum = 0;
   (void)unused;
   for (int i = 0; i < DRAWS; i += BATCH) {
      long first = __atomic_fetch_add(&ticket, BATCH, __ATOMIC_RELAXED);
      for (volatile int j = 0; j < BATCH; j++)
         sum += first + j;
   }
   return (void *)sum;
}

int main(void)
{
   pthread_t threads[THREADS];
   for (int i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, work, NULL);
   for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
   printf("%ld\n", ticket);
   return 0;
}
