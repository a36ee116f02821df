// All threads look things up in a table. Planted: one thread has made it, and nobody writes it any more (-DFIXED: each
// thread has a copy).
#include "section.h"
#include <omp.h>
#include <stdio.h>
#define SIZE (1 << 18)
#ifdef FIXED
#define COPIES 4
#else
#define COPIES 1
#endif
static double tables[COPIES][SIZE];

static void make(double *table)
{
   for (int i = 0; i < SIZE; i++)
      table[i] = i * 0.5;
}

int main(void)
{
#ifdef FIXED
#pragma omp parallel num_threads(COPIES)
   make(tables[omp_get_thread_num()]);
#else
   make(tables[0]);
#endif
   double sum = 0;
   section_begin();
#pragma omp parallel num_threads(4) reduction(+ : sum)
   {
      double *table = tables[omp_get_thread_num() % COPIES];
#pragma omp for schedule(static)
      for (int i = 0; i < 1200000; i++) {
         unsigned at = (i + 1) * 2654435761u;
         sum += table[(at ^ at >> 15) % SIZE];
      }
   }
   section_end();
   printf("%g\n", sum);
   return 0;
}
