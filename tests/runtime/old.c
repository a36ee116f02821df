/* Parallel regions as compilers before GCC 4.9 made them: iterations of two regions, one of them a loop. It prints the
 * sum of what all threads did.
 *
 *   old ROUNDS
 */
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

extern void GOMP_parallel_start(void (*)(void *), void *, unsigned);
extern void GOMP_parallel_loop_static_start(void (*)(void *), void *, unsigned, long, long, long, long);
extern void GOMP_parallel_end(void);
extern bool GOMP_loop_static_next(long *, long *);
extern void GOMP_loop_end_nowait(void);

static long sum;

static void count(void *data)
{
   __atomic_fetch_add((long *)data, omp_get_num_threads() > 0, __ATOMIC_RELAXED);
   if (omp_get_thread_num() > 0)
      __atomic_fetch_sub((long *)data, 1, __ATOMIC_RELAXED);
}

static void loop(void *data)
{
   long from, to;
   while (GOMP_loop_static_next(&from, &to))
      for (long i = from; i < to; i++)
         __atomic_fetch_add((long *)data, i, __ATOMIC_RELAXED);
   GOMP_loop_end_nowait();
}

int main(int argc, char **argv)
{
   for (long round = argc > 1 ? atol(argv[1]) : 50; round > 0; round--) {
      GOMP_parallel_start(count, &sum, 0);
      count(&sum);
      GOMP_parallel_end();
      GOMP_parallel_loop_static_start(loop, &sum, 0, 0, 100, 1, 0);
      loop(&sum);
      GOMP_parallel_end();
   }
   printf("%ld\n", sum);
   return 0;
}
