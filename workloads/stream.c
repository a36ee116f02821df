/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * stream: copy, scale, add and triad over three arrays, after McCalpin's STREAM.
 *
 * Every page is private to one thread (and first touched by it): the best case for first touch, and a measure of the
 * recorder's cost on plain sweeps.
 *
 * References to the arrays: 3 n for the start, 10 n for each iteration, 3 n for the check; as 8-byte accesses, when the
 * compiler does not make vectors of them.
 *
 * Check: every element against the same operations on one element (they are the same bits: no order matters).
 */
#include "common.h"

static const struct workload workload = {
   .name = "stream",
   .about = "copy, scale, add and triad over private bands",
   .size_is = "elements of each array",
   .iterations_is = "rounds of the four loops",
   .size = 100000, .min_size = 1, .max_size = 1L << 32,
   .iterations = 10,
};

/* A round multiplies a by SCALAR - SCALAR (1 + SCALAR) = -SCALAR^2. */
static const double SCALAR = 0.75;

/* Called by all threads. */
static void run_round(double *a, double *b, double *c, long n)
{
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++)
      c[i] = a[i];
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++)
      b[i] = SCALAR * c[i];
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++)
      c[i] = a[i] + b[i];
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++)
      a[i] = b[i] - SCALAR * c[i];
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size, wrong = 0;
   double *a = new_pages((size_t)n, sizeof *a), *b = new_pages((size_t)n, sizeof *b);
   double *c = new_pages((size_t)n, sizeof *c);
   double initial = 1 + (double)(o.seed % 1024);

   double start = section_begin();
#pragma omp parallel
   {
#pragma omp for schedule(static)
      for (long i = 0; i < n; i++) {
         a[i] = initial;
         b[i] = 0;
         c[i] = 0;
      }
      for (long round = 0; round < o.iterations; round++) {
         run_round(a, b, c, n);
#pragma omp master
         end_iteration();
      }
   }
   double seconds = section_end(start);

   double one[3] = {initial, 0, 0}; /* the same on one element */
   for (long round = 0; round < o.iterations; round++) {
      one[2] = one[0];
      one[1] = SCALAR * one[2];
      one[2] = one[0] + one[1];
      one[0] = one[1] - SCALAR * one[2];
   }
#pragma omp parallel for schedule(static) reduction(+ : wrong)
   for (long i = 0; i < n; i++)
      wrong += a[i] != one[0] || b[i] != one[1] || c[i] != one[2];
   double last = a[n - 1];
   free(a);
   free(b);
   free(c);
   return report(&workload, &o, seconds, wrong == 0, "a=%.10g wrong=%ld", last, wrong);
}
