// C, OpenMP: four phases, in each of which a thread works on the next quarter of 96 MiB. Planted: every quarter has
// each thread as its user for a quarter of the run (-DFIXED: each thread stays with its quarter).
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
enum { THREADS = 4, STEP = 8, ROUNDS = 8 };
static const long length = 24l << 17; // of a quarter

int main(void)
{
   double *data = malloc(THREADS * length * sizeof *data);
#pragma omp parallel num_threads(THREADS)
   for (int phase = 0; phase < 4; phase++) {
#ifdef FIXED
      double *own = data + omp_get_thread_num() * length;
#else
      double *own = data + (omp_get_thread_num() + phase) % THREADS * length;
#endif
      for (int round = 0; round < ROUNDS; round++)
         for (long i = 0; i < length; i += STEP)
            own[i] = (phase ? own[i] * 0.5 : 0) + round;
#pragma omp barrier
   }
   printf("%g\n", data[length / 2]);
   return 0;
}
