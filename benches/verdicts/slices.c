// C, POSIX threads: each thread works on its slice of one array of 96 MiB. Planted: the main thread fills the array
// (-DFIXED: each thread fills its slice; the main thread only allocates). -DLATE: the main thread has computed for
// long before.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { THREADS = 4, STEP = 8, ROUNDS = 12 };
static const long length = 96l << 17;
static double *data;

static void fill(long from, long to)
{
   for (long i = from; i < to; i += STEP)
      data[i] = (double)i;
}

static void *work(void *number)
{
   long me = (long)number, from = me * length / THREADS, to = (me + 1) * length / THREADS;
#ifdef FIXED
   fill(from, to);
#endif
   for (int round = 0; round < ROUNDS; round++)
      for (long i = from; i < to; i += STEP)
         data[i] = data[i] * 0.5 + round;
   return NULL;
}

int main(void)
{
   pthread_t threads[THREADS];
#ifdef LATE
   static volatile long counter;
   for (long i = 0; i < 40000000; i++)
      counter += i;
#endif
   data = malloc((size_t)length * sizeof *data);
#ifndef FIXED
   fill(0, length);
#endif
   for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
   printf("%g\n", data[length / 2]);
   return 0;
}
