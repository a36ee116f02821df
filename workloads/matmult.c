/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * matmult: C = A B, the straightforward way (Bolosky & Scott 1991, section 4.1.2).
 *
 * Bands of rows of A and C belong to one thread; B is read by all threads and never written after its start: what
 * replication is for.
 *
 * Check: Freivalds: A (B v) = C v for a random vector v. All numbers are small integers held in doubles, so the
 * comparison is exact; a wrong C passes with a probability below 1/2000.
 */
#include "common.h"

static const struct workload workload = {
   .name = "matmult",
   .about = "dense matrix product, bands of rows",
   .size_is = "rows and columns",
   .iterations_is = "products, each with the product before as its A (taken modulo 9)",
   .size = 160, .min_size = 1, .max_size = 20000,
   .iterations = 1,
};

static double small_integer(uint64_t seed, uint64_t index)
{
   return (double)(random_bits(seed, index) % 17) - 8;
}

/* The rows of C that the calling thread owns. */
static void multiply(const double *a, const double *b, double *c, long n)
{
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++) {
      for (long j = 0; j < n; j++)
         c[i * n + j] = 0;
      for (long k = 0; k < n; k++) {
         double factor = a[i * n + k];
         for (long j = 0; j < n; j++)
            c[i * n + j] += factor * b[k * n + j];
      }
   }
}

/* The next A: C with its entries brought back to -8 .. 8. */
static void reduce(const double *c, double *a, long n)
{
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++)
      for (long j = 0; j < n; j++)
         a[i * n + j] = (double)((long)c[i * n + j] % 9);
}

static void times_vector(const double *m, const double *v, double *out, long n)
{
#pragma omp parallel for schedule(static)
   for (long i = 0; i < n; i++) {
      double sum = 0;
      for (long j = 0; j < n; j++)
         sum += m[i * n + j] * v[j];
      out[i] = sum;
   }
}

static bool product_is_right(const double *a, const double *b, const double *c, long n, uint64_t seed)
{
   double *v = new_pages((size_t)n, sizeof *v), *bv = new_pages((size_t)n, sizeof *bv);
   double *abv = new_pages((size_t)n, sizeof *abv), *cv = new_pages((size_t)n, sizeof *cv);
   for (long i = 0; i < n; i++)
      v[i] = (double)(random_bits(seed ^ 0xf4ee, (uint64_t)i) % 2001) - 1000;
   times_vector(b, v, bv, n);
   times_vector(a, bv, abv, n);
   times_vector(c, v, cv, n);
   bool same = true;
   for (long i = 0; i < n; i++)
      same = same && abv[i] == cv[i];
   free(v);
   free(bv);
   free(abv);
   free(cv);
   return same;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size;
   size_t entries = (size_t)(n * n);
   double *a = new_pages(entries, sizeof *a), *b = new_pages(entries, sizeof *b), *c = new_pages(entries, sizeof *c);
   double start = section_begin();
#pragma omp parallel
   {
#pragma omp for schedule(static)
      for (long i = 0; i < n; i++)
         for (long j = 0; j < n; j++) {
            a[i * n + j] = small_integer(o.seed, (uint64_t)(i * n + j));
            b[i * n + j] = small_integer(~o.seed, (uint64_t)(i * n + j));
         }
      multiply(a, b, c, n);
      for (long repeat = 1; repeat < o.iterations; repeat++) {
         reduce(c, a, n);
         multiply(a, b, c, n);
#pragma omp master
         end_iteration();
      }
   }
   double seconds = section_end(start);
   double trace = 0;
   for (long i = 0; i < n; i++)
      trace += c[i * n + i];
   bool ok = product_is_right(a, b, c, n, o.seed);
   free(a);
   free(b);
   free(c);
   return report(&workload, &o, seconds, ok, "trace=%.10g", trace);
}
