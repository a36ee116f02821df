/* A library with OpenMP, which tests/runtime/opens.c opens for itself alone. */
#include <omp.h>

long inside(long rounds)
{
   long sum = 0;
   for (long round = 0; round < rounds; round++) {
#pragma omp parallel for reduction(+ : sum) schedule(dynamic)
      for (long i = 0; i < 100; i++)
         sum += i;
#pragma omp parallel
#pragma omp single
      sum++;
   }
   return sum;
}
