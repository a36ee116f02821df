// A grid that each thread sweeps a block of. Planted: the main thread initialises it (-DFIXED: the threads do).
#include "section.h"
#include <stdio.h>
#define ROWS 256
#define STEPS 5
#define COLS 512
static double grid[ROWS][COLS], next[ROWS][COLS];

static double sweep(double from[ROWS][COLS], double to[ROWS][COLS])
{
   double change = 0;
#pragma omp parallel for schedule(static) reduction(+ : change)
   for (int i = 1; i < ROWS - 1; i++)
      for (int j = 1; j < COLS - 1; j++) {
         to[i][j] = 0.25 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
         change += to[i][j] - from[i][j];
      }
   return change;
}

int main(void)
{
#ifdef FIXED
#pragma omp parallel for schedule(static)
#endif
   for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLS; j++)
         grid[i][j] = next[i][j] = i == 0;
   double change = 0;
   section_begin();
   for (int step = 0; step < STEPS; step++)
      change += sweep(grid, next) + sweep(next, grid);
   section_end();
   printf("%g\n", change);
   return 0;
}
