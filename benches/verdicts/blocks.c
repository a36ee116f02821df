// C, OpenMP: 96 MiB for which the program asks huge pages (madvise); threads fill and use blocks of 256 KiB in turn.
// Planted: each huge page of 2 MiB has blocks of all threads (-DFIXED: each thread has whole huge pages).
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
enum { THREADS = 4, STEP = 8, ROUNDS = 12 };
static const long length = 96l << 17;
#ifdef FIXED
static const long block = 24l << 17;
#else
static const long block = 1l << 15;
#endif

int main(void)
{
   double *data = aligned_alloc(2 << 20, length * sizeof *data);
   if (!data || madvise(data, length * sizeof *data, MADV_HUGEPAGE) != 0)
      return 1;
#pragma omp parallel num_threads(THREADS)
   for (int round = 0; round < ROUNDS; round++)
      for (long from = omp_get_thread_num() * block; from < length; from += THREADS * block)
         for (long i = from; i < from + block; i += STEP)
            data[i] = (round ? data[i] * 0.5 : 0) + round;
   printf("%g\n", data[length / 2]);
   return 0;
}
