/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * cholesky: the factorisation A = L L' of a symmetric positive definite matrix in tiles, by OpenMP tasks. It stands for
 * the suite's SPLASH cholesky (Bolosky & Scott 1991, section 4.1.2): work is handed out by a queue, as there; the
 * matrix is dense, where SPLASH's is sparse.
 *
 * A tile is two pages. Any idle thread takes the next ready tile, so tiles are migratory; a finished tile is read by
 * many threads and never written again. Which thread gets which tile differs from run to run; the numbers do not.
 *
 * Check: L (L' v) against A v for a random vector v, with A made anew from the seed.
 */
#include "common.h"

enum { TILE = 32 };

static const struct workload workload = {
   .name = "cholesky",
   .about = "Cholesky factorisation in tiles, by tasks",
   .size_is = "rows and columns, a multiple of 32",
   .iterations_is = "factorisations",
   .size = 288, .min_size = TILE, .max_size = 16384,
   .iterations = 1,
};

/* The lower triangle of tiles, each row by row in TILE * TILE doubles. */
static double *tile(double *matrix, long i, long j)
{
   return matrix + (i * (i + 1) / 2 + j) * TILE * TILE;
}

/* Symmetric, and diagonally dominant. */
static double entry(uint64_t seed, long n, long i, long j)
{
   long high = i > j ? i : j, low = i > j ? j : i;
   return random_unit(seed, (uint64_t)(high * n + low)) + (i == j ? (double)n : 0);
}

/* Overwrites a diagonal tile with its Cholesky factor. */
static void factor(double *a)
{
   for (int j = 0; j < TILE; j++) {
      for (int k = 0; k < j; k++)
         a[j * TILE + j] -= a[j * TILE + k] * a[j * TILE + k];
      a[j * TILE + j] = sqrt(a[j * TILE + j]);
      for (int i = j + 1; i < TILE; i++) {
         double sum = a[i * TILE + j];
         for (int k = 0; k < j; k++)
            sum -= a[i * TILE + k] * a[j * TILE + k];
         a[i * TILE + j] = sum / a[j * TILE + j];
         a[j * TILE + i] = 0;
      }
   }
}

/* b becomes b L'^-1, for the factor L of the diagonal tile above it. */
static void divide(const double *l, double *b)
{
   for (int i = 0; i < TILE; i++)
      for (int j = 0; j < TILE; j++) {
         double sum = b[i * TILE + j];
         for (int k = 0; k < j; k++)
            sum -= b[i * TILE + k] * l[j * TILE + k];
         b[i * TILE + j] = sum / l[j * TILE + j];
      }
}

/* c becomes c - a b'. */
static void update(const double *a, const double *b, double *c)
{
   for (int i = 0; i < TILE; i++)
      for (int j = 0; j < TILE; j++) {
         double sum = c[i * TILE + j];
         for (int k = 0; k < TILE; k++)
            sum -= a[i * TILE + k] * b[j * TILE + k];
         c[i * TILE + j] = sum;
      }
}

/* Creates the tasks of the factorisation; they run in any order that their tiles allow. */
static void factorise(double *matrix, long tiles)
{
   for (long k = 0; k < tiles; k++) {
      double *diagonal = tile(matrix, k, k);
#pragma omp task depend(inout : diagonal[0]) firstprivate(diagonal)
      factor(diagonal);
      for (long i = k + 1; i < tiles; i++) {
         double *below = tile(matrix, i, k);
#pragma omp task depend(in : diagonal[0]) depend(inout : below[0]) firstprivate(diagonal, below)
         divide(diagonal, below);
      }
      for (long i = k + 1; i < tiles; i++)
         for (long j = k + 1; j <= i; j++) {
            double *a = tile(matrix, i, k), *b = tile(matrix, j, k), *c = tile(matrix, i, j);
#pragma omp task depend(in : a[0], b[0]) depend(inout : c[0]) firstprivate(a, b, c)
            update(a, b, c);
         }
   }
}

static void fill(double *matrix, long tiles, uint64_t seed)
{
#pragma omp parallel for schedule(static)
   for (long i = 0; i < tiles; i++)
      for (long j = 0; j <= i; j++)
         for (long e = 0; e < TILE * TILE; e++)
            tile(matrix, i, j)[e] = entry(seed, tiles * TILE, i * TILE + e / TILE, j * TILE + e % TILE);
}

/* The largest distance of L (L' v) from A v, relative to the diagonal. */
static double factor_error(double *matrix, long tiles, uint64_t seed)
{
   long n = tiles * TILE;
   double *v = new_pages((size_t)n, sizeof *v), *ltv = new_pages((size_t)n, sizeof *ltv), worst = 0;
   for (long i = 0; i < n; i++)
      v[i] = 2 * random_unit(~seed, (uint64_t)i) - 1;
#pragma omp parallel
   {
#pragma omp for schedule(static)
      for (long j = 0; j < n; j++) {
         ltv[j] = 0;
         for (long i = j; i < n; i++)
            ltv[j] += tile(matrix, i / TILE, j / TILE)[i % TILE * TILE + j % TILE] * v[i];
      }
#pragma omp for schedule(static) reduction(max : worst)
      for (long i = 0; i < n; i++) {
         double difference = 0;
         for (long j = 0; j <= i; j++)
            difference += tile(matrix, i / TILE, j / TILE)[i % TILE * TILE + j % TILE] * ltv[j];
         for (long j = 0; j < n; j++)
            difference -= entry(seed, n, i, j) * v[j];
         worst = larger_error(worst, fabs(difference) / (double)n);
      }
   }
   free(v);
   free(ltv);
   return worst;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   if (o.size % TILE != 0)
      usage_error(&workload, "-n is %ld, expected a multiple of %d", o.size, TILE);
   long tiles = o.size / TILE;
   double *matrix = new_pages((size_t)(tiles * (tiles + 1) / 2), TILE * TILE * sizeof *matrix);
   double seconds = 0, worst = 0;
   for (long i = 0; i < o.iterations; i++) {
      uint64_t seed = random_bits(o.seed, (uint64_t)i);
      fill(matrix, tiles, seed);
      double start = section_begin();
#pragma omp parallel
#pragma omp single
      factorise(matrix, tiles);
      end_iteration();
      seconds += section_end(start);
      worst = larger_error(worst, factor_error(matrix, tiles, seed));
   }
   double last = tile(matrix, tiles - 1, tiles - 1)[TILE * TILE - 1];
   free(matrix);
   return report(&workload, &o, seconds, worst < 1e-12, "last=%.10g error=%.1e", last, worst);
}
