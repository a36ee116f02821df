/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * sorbyr, sorbyc, sorbyc_inner: red-black successive over-relaxation (Bolosky & Scott 1991, section 4.1.2). The
 * steady-state temperature of a plate whose edge temperatures are given.
 *
 * sorbyr gives each thread a band of rows: most pages have one user, those at the border of two bands have two.
 * sorbyc_inner differs from it in the order of the inner loops only, as the paper's pair does: same bands, column by
 * column.
 * sorbyc gives each thread a band of columns: a row is shorter than a page at the default size, so every page is
 * written by every thread in every sweep (false sharing).
 *
 * Bands of rows are touched first by their threads, with --init serial by the main thread.
 *
 * Check, against a closed form at every point: the start is a harmonic function plus one eigenmode of the discrete
 * Laplacian. The harmonic part is the solution and stays; the eigenmode stays an eigenmode, with one amplitude for
 * the red and one for the black points, which a sweep changes by a scalar recurrence.
 */
#include "common.h"

#define SOR_ROWS 0
#define SOR_INNER_COLUMNS 1
#define SOR_COLUMNS 2
#ifndef SOR_ORDER
#define SOR_ORDER SOR_ROWS
#endif
#if SOR_ORDER == SOR_ROWS
#define SOR_NAME "sorbyr"
#define SOR_ABOUT "red-black over-relaxation, bands of rows"
#elif SOR_ORDER == SOR_INNER_COLUMNS
#define SOR_NAME "sorbyc_inner"
#define SOR_ABOUT "red-black over-relaxation, bands of rows, each gone through by columns"
#else
#define SOR_NAME "sorbyc"
#define SOR_ABOUT "red-black over-relaxation, bands of columns"
#endif

static const struct workload workload = {
   .name = SOR_NAME,
   .about = SOR_ABOUT,
   .size_is = "interior points in each direction",
   .iterations_is = "sweeps",
   .size = 256, .min_size = 4, .max_size = 30000,
   .iterations = 24,
   .init = true,
};

/* An eigenmode of the Laplacian: value at (i, j) is column[i] * row[j]; `mean` is the factor between the mode and the
 * mean of its four neighbours. */
struct mode {
   double *column, *row;
   double mean;
};

static double wave(long i, long n, long k)
{
   return sin(M_PI * (double)(i * k) / (double)(n + 1));
}

static struct mode make_mode(const struct options *o)
{
   long n = o->size;
   long p = 1 + (long)(random_bits(o->seed, 0) % 3), q = 1 + (long)(random_bits(o->seed, 1) % 3);
   struct mode m = {new_pages((size_t)n + 2, sizeof(double)), new_pages((size_t)n + 2, sizeof(double)), 0};
   for (long i = 0; i < n + 2; i++) {
      m.column[i] = wave(i, n, p);
      m.row[i] = wave(i, n, q);
   }
   m.mean = (cos(M_PI * (double)p / (double)(n + 1)) + cos(M_PI * (double)q / (double)(n + 1))) / 2;
   return m;
}

/* A discrete harmonic function: the edge temperatures and the solution. */
static double harmonic(long i, long j, long n)
{
   double x = (double)i / (double)(n + 1), y = (double)j / (double)(n + 1);
   return 1 + x - 2 * y + 3 * x * y;
}

static void relax_point(double *at, long row, double omega)
{
   double mean = (at[-row] + at[row] + at[-1] + at[1]) / 4;
   *at += omega * (mean - *at);
}

/* One half sweep: the new values of the points of one colour. Called by all threads. */
#if SOR_ORDER == SOR_ROWS
static void relax(double *grid, long n, long colour, double omega)
{
#pragma omp for schedule(static)
   for (long i = 1; i <= n; i++)
      for (long j = 1 + (i + 1 + colour) % 2; j <= n; j += 2)
         relax_point(grid + i * (n + 2) + j, n + 2, omega);
}
#elif SOR_ORDER == SOR_INNER_COLUMNS
static void relax(double *grid, long n, long colour, double omega)
{
   long first = n + 1, last = 0;
   /* The band that sorbyr gives this thread. */
#pragma omp for schedule(static) nowait
   for (long i = 1; i <= n; i++) {
      first = i < first ? i : first;
      last = i;
   }
   for (long j = 1; j <= n; j++)
      for (long i = first + (first + j + colour) % 2; i <= last; i += 2)
         relax_point(grid + i * (n + 2) + j, n + 2, omega);
#pragma omp barrier
}
#else
static void relax(double *grid, long n, long colour, double omega)
{
#pragma omp for schedule(static)
   for (long j = 1; j <= n; j++)
      for (long i = 1 + (j + 1 + colour) % 2; i <= n; i += 2)
         relax_point(grid + i * (n + 2) + j, n + 2, omega);
}
#endif

/* The largest distance from the closed form, over all points. */
static double largest_error(const double *grid, long n, const struct mode *m, const double amplitude[2])
{
   double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
   for (long i = 0; i < n + 2; i++)
      for (long j = 0; j < n + 2; j++) {
         double expected = harmonic(i, j, n) + amplitude[(i + j) % 2] * m->column[i] * m->row[j];
         double error = fabs(grid[i * (n + 2) + j] - expected);
         worst = larger_error(worst, error);
      }
   return worst;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size;
   double *grid = data_pages(&o, (size_t)((n + 2) * (n + 2)), sizeof(double));
   struct mode m = make_mode(&o);
   double omega = 2 / (1 + sin(M_PI / (double)(n + 1)));
   double amplitude[2] = {1, 1};

   double start = section_begin();
#pragma omp parallel
   {
#pragma omp for schedule(static)
      for (long i = 0; i < n + 2; i++)
         for (long j = 0; j < n + 2; j++) {
            bool edge = i == 0 || j == 0 || i == n + 1 || j == n + 1;
            grid[i * (n + 2) + j] = harmonic(i, j, n) + (edge ? 0 : m.column[i] * m.row[j]);
         }
      for (long sweep = 0; sweep < o.iterations; sweep++) {
         relax(grid, n, 0, omega);
         relax(grid, n, 1, omega);
#pragma omp master
         end_iteration();
      }
   }
   double seconds = section_end(start);

   for (long sweep = 0; sweep < o.iterations; sweep++)
      for (int colour = 0; colour < 2; colour++)
         amplitude[colour] += omega * (m.mean * amplitude[1 - colour] - amplitude[colour]);
   double error = largest_error(grid, n, &m, amplitude);
   double middle = grid[(n / 2) * (n + 2) + n / 2];
   free(m.column);
   free(m.row);
   free(grid);
   return report(&workload, &o, seconds, error < 1e-9, "middle=%.10g error=%.1e", middle, error);
}
