/* Two threads in turns: each writes its row of a table, waits for the other, reads the other's row, and waits again.
 * Prints where the table is, then works until its standard input ends, or for two minutes. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { N = 1000, LONGEST_S = 120 };
static volatile long table[2][N];
static pthread_barrier_t barrier;
static int told_to_end;

static void *work(void *argument)
{
   intptr_t mine = (intptr_t)argument;
   long round = 0;
   for (int more = 1; more; round++) {
      for (long i = 0; i < N; i++)
         table[mine][i] = round;
      pthread_barrier_wait(&barrier);
      for (long i = 0; i < N; i++)
         (void)table[1 - mine][i];
      pthread_barrier_wait(&barrier);
      if (mine == 0)
         usleep(1000);
      if (mine == 0 && __atomic_load_n(&told_to_end, __ATOMIC_ACQUIRE) == 1)
         __atomic_store_n(&told_to_end, 2, __ATOMIC_RELEASE);
      pthread_barrier_wait(&barrier);
      more = __atomic_load_n(&told_to_end, __ATOMIC_ACQUIRE) != 2;
   }
   return (void *)round;
}

int main(void)
{
   pthread_t threads[2];
   void *rounds[2];
   char byte;
   alarm(LONGEST_S);
   printf("%lu %d\n", (unsigned long)table, N), fflush(stdout);
   pthread_barrier_init(&barrier, NULL, 2);
   for (intptr_t i = 0; i < 2; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   while (read(0, &byte, 1) > 0) {
   }
   __atomic_store_n(&told_to_end, 1, __ATOMIC_RELEASE);
   for (int i = 0; i < 2; i++)
      pthread_join(threads[i], &rounds[i]);
   printf("%ld %ld\n", (long)rounds[0], (long)rounds[1]);
   return 0;
}
