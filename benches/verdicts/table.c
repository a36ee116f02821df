// C, OpenMP: threads change random places of a table. Planted: one table of 96 MiB for all, which one thread fills
// (-DFIXED: each thread has a table of 24 MiB of its own, and fills it).
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
enum { THREADS = 4, STEP = 8, TIMES = 3000000 };
static const long length = 96l << 17;

static double *new_table(long count)
{
   double *table = malloc((size_t)count * sizeof *table);
   for (long i = 0; i < count; i += STEP)
      table[i] = 1;
   return table;
}

int main(void)
{
   double *all = NULL, sum = 0;
#ifndef FIXED
   all = new_table(length);
#endif
#pragma omp parallel num_threads(THREADS) reduction(+ : sum)
   {
      long count = all ? length : length / THREADS;
      double *table = all ? all : new_table(count);
      unsigned long random = 88172645463325252ul + (unsigned long)omp_get_thread_num();
      for (int i = 0; i < TIMES; i++) {
         random ^= random << 13;
         random ^= random >> 7;
         random ^= random << 17;
         sum += table[random % (unsigned long)count] += 0.5; // a lost addition does no harm here
      }
   }
   printf("%g\n", sum);
   return 0;
}
