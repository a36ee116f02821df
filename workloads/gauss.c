/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * gauss: Gaussian elimination with partial pivoting on an array of pointers to rows (the suite's p-gauss; Bolosky &
 * Scott 1991, section 4.1.2).
 *
 * Rows are dealt out cyclically: row i is written by thread i modulo threads in every step, while the pivot row of a
 * step is read by all threads and then never written again: read-shared in turn. A pivot swap moves a row to another
 * owner. The last columns stay in use longest.
 *
 * Check: the residual of the solution, with the matrix made anew from the seed.
 */
#include "common.h"

static const struct workload workload = {
   .name = "gauss",
   .about = "Gaussian elimination, rows dealt out cyclically",
   .size_is = "equations",
   .iterations_is = "systems solved, one after the other",
   .size = 240, .min_size = 2, .max_size = 20000,
   .iterations = 1,
};

/* Entry (i, j) of the system; column n is the right-hand side. */
static double entry(uint64_t seed, long n, long i, long j)
{
   return 2 * random_unit(seed, (uint64_t)(i * (n + 1) + j)) - 1;
}

static void swap_in_pivot(double **row, long n, long k)
{
   long best = k;
   for (long i = k + 1; i < n; i++)
      if (fabs(row[i][k]) > fabs(row[best][k]))
         best = i;
   double *pivot = row[best];
   row[best] = row[k];
   row[k] = pivot;
}

/* Subtracts a multiple of the pivot row from the others that this thread owns. */
static void eliminate(double **row, long n, long k, long thread, long threads)
{
   const double *pivot = row[k];
   long first = thread + (k + threads - thread) / threads * threads; /* the first owned row after k */
   for (long i = first; i < n; i += threads) {
      double *target = row[i];
      double factor = target[k] / pivot[k];
      target[k] = 0;
      for (long j = k + 1; j <= n; j++)
         target[j] -= factor * pivot[j];
   }
}

static void solve(double **row, long n, double *x, uint64_t seed)
{
#pragma omp parallel
   {
      long thread = omp_get_thread_num(), threads = omp_get_num_threads();
      for (long i = thread; i < n; i += threads)
         for (long j = 0; j <= n; j++)
            row[i][j] = entry(seed, n, i, j);
#pragma omp barrier
      for (long k = 0; k < n; k++) {
#pragma omp single
         swap_in_pivot(row, n, k);
         eliminate(row, n, k, thread, threads);
#pragma omp barrier
      }
   }
   for (long i = n - 1; i >= 0; i--) {
      double sum = row[i][n];
      for (long j = i + 1; j < n; j++)
         sum -= row[i][j] * x[j];
      x[i] = sum / row[i][i];
   }
}

/* The largest residual, relative to the size of what was added up. */
static double residual(const double *x, long n, uint64_t seed)
{
   double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
   for (long i = 0; i < n; i++) {
      double sum = -entry(seed, n, i, n), size = fabs(sum);
      for (long j = 0; j < n; j++) {
         double term = entry(seed, n, i, j) * x[j];
         sum += term;
         size += fabs(term);
      }
      worst = larger_error(worst, fabs(sum) / size);
   }
   return worst;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size;
   double **row = new_pages((size_t)n, sizeof *row);
   double **storage = new_pages((size_t)n, sizeof *storage);
   double *x = new_pages((size_t)n, sizeof *x);
   double seconds = 0, worst = 0;
   for (long i = 0; i < n; i++)
      storage[i] = malloc((size_t)(n + 1) * sizeof(double));
   for (long system = 0; system < o.iterations; system++) {
      uint64_t seed = random_bits(o.seed, (uint64_t)system);
      memcpy(row, storage, (size_t)n * sizeof *row);
      double start = section_begin();
      solve(row, n, x, seed);
      end_iteration();
      seconds += section_end(start);
      double relative = residual(x, n, seed);
      worst = larger_error(worst, relative);
   }
   double first = x[0];
   for (long i = 0; i < n; i++)
      free(storage[i]);
   free(storage);
   free(row);
   free(x);
   return report(&workload, &o, seconds, worst < 1e-9, "x0=%.10g residual=%.1e", first, worst);
}
