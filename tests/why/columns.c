// A matrix with a block of columns for each thread. Planted: a row of it fills a page, in which every thread has a
// part.
#include <stdio.h>
#define ROWS 320
#define COLS 512
static double matrix[ROWS][COLS] __attribute__((aligned(4096)));

int main(void)
{
   for (int round = 0; round < 12; round++) {
#pragma omp parallel for schedule(static)
      for (int block = 0; block < 8; block++)
         for (int i = 0; i < ROWS; i++)
            for (int j = block * COLS / 8; j < (block + 1) * COLS / 8; j++)
               matrix[i][j] = matrix[i][j] * 0.5 + round;
   }
   printf("%g\n", matrix[3][5]);
   return 0;
}
