/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Heat that spreads over a square plate with a hot upper edge: Jacobi's method on two grids, OpenMP over rows.
 * The program of docs/tutorial.md. One thread fills the grids, and all threads use them: the fault that the tutorial
 * finds. With -DFIRST_TOUCH each thread fills the rows that it computes later.
 *
 *    cc -O2 -g -fopenmp heat.c -o heat
 *    cc -O2 -g -fopenmp -DFIRST_TOUCH heat.c -o heat-fixed
 *    ./heat [SIZE [STEPS]]
 */
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 2400, STEPS = 30 };

static double *new_grid(long n)
{
   double *grid = malloc((size_t)(n * n) * sizeof *grid);
   if (grid == NULL) {
      fprintf(stderr, "heat: no memory for a grid of %ld x %ld\n", n, n);
      exit(1);
   }
   return grid;
}

/* The upper edge is at 100 degrees, the rest of the plate at 0. */
static void fill(double *now, double *next, long n)
{
#ifdef FIRST_TOUCH
#pragma omp parallel for schedule(static)
#endif
   for (long row = 0; row < n; row++)
      for (long column = 0; column < n; column++)
         now[row * n + column] = next[row * n + column] = row == 0 ? 100.0 : 0.0;
}

/* One step of time: each inner point becomes the mean of its four neighbours. */
static void step(const double *now, double *next, long n)
{
#pragma omp parallel for schedule(static)
   for (long row = 1; row < n - 1; row++) {
      const double *here = now + row * n;
      for (long column = 1; column < n - 1; column++)
         next[row * n + column] =
            0.25 * (here[column - n] + here[column + n] + here[column - 1] + here[column + 1]);
   }
}

static double mean(const double *grid, long n)
{
   double sum = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
   for (long row = 0; row < n; row++)
      for (long column = 0; column < n; column++) sum += grid[row * n + column];
   return sum / (double)(n * n);
}

int main(int count, char **words)
{
   long n = count > 1 ? atol(words[1]) : SIZE, steps = count > 2 ? atol(words[2]) : STEPS;
   if (n < 3 || n > 100000 || steps < 1) {
      fprintf(stderr, "usage: heat [SIZE [STEPS]], SIZE from 3 to 100000, STEPS from 1\n");
      return 2;
   }
   double *now = new_grid(n), *next = new_grid(n);
   fill(now, next, n);
   for (long i = 0; i < steps; i++) {
      step(now, next, n);
      double *swap = now;
      now = next;
      next = swap;
   }
   printf("%ld x %ld points, %ld steps: mean temperature %.6f\n", n, n, steps, mean(now, n));
   free(now);
   free(next);
   return 0;
}
