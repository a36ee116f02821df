// Threads with a part each. Planted: each initialises the part of the next (-DFIXED: its own).
#include "section.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 4
#define LENGTH 65536
static double parts[THREADS][LENGTH] __attribute__((aligned(4096)));
static pthread_barrier_t barrier;

static void *work(void *argument)
{
   int me = (int)(long)argument;
#ifdef FIXED
   int first = me;
#else
   int first = (me + 1) % THREADS;
#endif
   for (int i = 0; i < LENGTH; i++)
      parts[first][i] = i;
   if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
      section_begin();
   pthread_barrier_wait(&barrier);
   double *mine = parts[me], sum = 0;
   for (int round = 0; round < 12; round++)
      for (int i = 0; i < LENGTH; i++)
         sum += mine[i] *= 1.0001;
   double *result = malloc(sizeof sum);
   *result = sum;
   return result;
}

int main(void)
{
   pthread_t threads[THREADS];
   pthread_barrier_init(&barrier, NULL, THREADS);
   for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   double sum = 0;
   for (int i = 0; i < THREADS; i++) {
      void *result;
      pthread_join(threads[i], &result);
      sum += *(double *)result;
      free(result);
   }
   section_end();
   printf("%g\n", sum);
   return 0;
}
