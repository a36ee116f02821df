// Rows of 1 KiB, every fourth of a thread's. Planted: four rows of four threads share each page (-DFIXED: each thread
// has rows that follow one another).
#include "section.h"
#include <omp.h>
#include <stdio.h>
#define ROWS 1024
#define LENGTH 128
static double table[ROWS][LENGTH] __attribute__((aligned(4096)));

int main(void)
{
#pragma omp parallel
   {
      int me = omp_get_thread_num(), threads = omp_get_num_threads();
#ifdef FIXED
      int first = me * ROWS / threads, end = (me + 1) * ROWS / threads, step = 1;
#else
      int first = me, end = ROWS, step = threads;
#endif
      for (int i = first; i < end; i += step)
         for (int j = 0; j < LENGTH; j++)
            table[i][j] = i;
#pragma omp barrier
#pragma omp single
      section_begin();
      for (int round = 0; round < 12; round++)
         for (int i = first; i < end; i += step)
            for (int j = 0; j < LENGTH; j++)
               table[i][j] = table[i][j] * 0.5 + round;
   }
   section_end();
   printf("%g\n", table[17][5]);
   return 0;
}
