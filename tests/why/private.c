// Each thread allocates, fills and uses memory of its own. Nothing is planted.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 4
#define LENGTH 65536

static void *work(void *argument)
{
   double *mine = malloc(LENGTH * sizeof *mine), sum = 0;
   for (int i = 0; i < LENGTH; i++)
      mine[i] = i + (long)argument;
   for (int round = 0; round < 12; round++)
      for (int i = 0; i < LENGTH; i++)
         sum += mine[i] *= 0.999;
   mine[0] = sum;
   return mine;
}

int main(void)
{
   pthread_t threads[THREADS];
   for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   for (int i = 0; i < THREADS; i++) {
      void *mine;
      pthread_join(threads[i], &mine);
      printf("%g\n", *(double *)mine);
   }
   return 0;
}
