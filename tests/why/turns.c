// Boards that go from thread to thread. Planted: each thread works on a board for long, then the next one does.
#include <pthread.h>
#include <stdio.h>
#define THREADS 4
#define LENGTH 32768
static double boards[THREADS][LENGTH] __attribute__((aligned(4096)));
static pthread_barrier_t barrier;

static void *work(void *argument)
{
   int me = (int)(long)argument;
   for (int turn = 0; turn < THREADS; turn++) {
      double *board = boards[(me + turn) % THREADS];
      for (int round = 0; round < 12; round++)
         for (int i = 0; i < LENGTH; i++)
            board[i] = board[i] * 0.5 + turn;
      pthread_barrier_wait(&barrier);
   }
   return NULL;
}

int main(void)
{
   pthread_t threads[THREADS];
   pthread_barrier_init(&barrier, NULL, THREADS);
   for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
   printf("%g\n", boards[1][7]);
   return 0;
}
