/* Two threads that never meet: each adds to its half of an array for as many milliseconds as it is told. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { N = 4096 };
static volatile long data[2][N];
static long milliseconds;

static long now(void)
{
   struct timespec time;
   clock_gettime(CLOCK_MONOTONIC, &time);
   return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void *work(void *argument)
{
   intptr_t mine = (intptr_t)argument;
   for (long end = now() + milliseconds; now() < end;)
      for (long i = 0; i < N; i++)
         data[mine][i] += 1;
   return NULL;
}

int main(int count, char **words)
{
   pthread_t threads[2];
   milliseconds = count > 1 ? atol(words[1]) : 1000;
   for (intptr_t i = 0; i < 2; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
   return 0;
}
