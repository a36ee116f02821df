/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * adi: the heat equation by alternating directions (Peaceman and Rachford): tridiagonal systems along rows, then along
 * columns, in turn.
 *
 * The row sweep gives threads bands of rows, the column sweep bands of columns: the owner of nearly every page
 * changes twice a step, all at once. A row is shorter than a page at the default size, so the column sweep shares
 * every page; with rows of several pages (-n 2048) its pages have one owner each, and phases are clean.
 *
 * Bands of rows are touched first by their threads, with --init serial by the main thread.
 *
 * Check, against a closed form at every point: the start is a sum of eigenmodes, and a step multiplies each by a
 * known factor.
 */
#include "heat.h"

static const struct workload workload = {
   .name = "adi",
   .about = "heat equation by alternating directions, rows then columns",
   .size_is = "interior points in each direction",
   .iterations_is = "time steps",
   .size = 192, .min_size = 4, .max_size = 30000,
   .iterations = 12,
   .init = true,
};

enum { MODES = 3 };

/* Time step over twice the squared distance of points. */
static const double RATIO = 0.4;

/* One eigenmode: factor * sin(p x) * sin(q y). */
struct mode {
   double factor;
   double *column, *row;
   double column_eigenvalue, row_eigenvalue;
};

static struct mode make_mode(const struct options *o, uint64_t m)
{
   double p = 1 + (double)(random_bits(o->seed, 3 * m) % 4), q = 1 + (double)(random_bits(o->seed, 3 * m + 1) % 4);
   struct mode mode = {
      .factor = 1 + random_unit(o->seed, 3 * m + 2),
      .column = wave(o->size, p),
      .row = wave(o->size, q),
      .column_eigenvalue = 2 - 2 * cos(M_PI * p / (double)(o->size + 1)),
      .row_eigenvalue = 2 - 2 * cos(M_PI * q / (double)(o->size + 1)),
   };
   return mode;
}

static double value(const struct mode *mode, long i, long j)
{
   double sum = 0;
   for (int m = 0; m < MODES; m++)
      sum += mode[m].factor * mode[m].column[i] * mode[m].row[j];
   return sum;
}

/* One line of `to`: implicit along the line (points `along` apart), explicit across it (neighbours `across` apart). */
static void solve_line(const double *from, double *to, const double *upper, long n, long along, long across)
{
   for (long i = 1; i <= n; i++) {
      const double *f = from + i * along;
      double right = f[0] + RATIO * (f[-across] - 2 * f[0] + f[across]);
      to[i * along] = (right + RATIO * to[(i - 1) * along]) / (1 + 2 * RATIO + RATIO * upper[i - 1]);
   }
   for (long i = n - 1; i >= 1; i--)
      to[i * along] -= upper[i] * to[(i + 1) * along];
}

/* One time step. Called by all threads. */
static void step(double *u, double *half, const double *upper, long n)
{
   long row = n + 2;
#pragma omp for schedule(static)
   for (long i = 1; i <= n; i++)
      solve_line(u + i * row, half + i * row, upper, n, 1, row);
#pragma omp for schedule(static)
   for (long j = 1; j <= n; j++)
      solve_line(half + j, u + j, upper, n, row, 1);
#pragma omp master
   end_iteration();
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size, row = n + 2;
   double *u = data_pages(&o, (size_t)(row * row), sizeof *u);
   double *half = data_pages(&o, (size_t)(row * row), sizeof *half);
   double *upper = make_upper(n, RATIO), worst = 0;
   struct mode mode[MODES];
   for (int m = 0; m < MODES; m++)
      mode[m] = make_mode(&o, (uint64_t)m);

   double start = section_begin();
#pragma omp parallel
   {
#pragma omp for schedule(static)
      for (long i = 0; i < row; i++)
         for (long j = 0; j < row; j++) {
            bool edge = i == 0 || j == 0 || i == n + 1 || j == n + 1;
            u[i * row + j] = edge ? 0 : value(mode, i, j);
            half[i * row + j] = 0;
         }
      for (long s = 0; s < o.iterations; s++)
         step(u, half, upper, n);
   }
   double seconds = section_end(start);

   for (int m = 0; m < MODES; m++) {
      double a = RATIO * mode[m].column_eigenvalue, b = RATIO * mode[m].row_eigenvalue;
      mode[m].factor *= pow((1 - a) / (1 + b) * (1 - b) / (1 + a), (double)o.iterations);
   }
#pragma omp parallel for schedule(static) reduction(max : worst)
   for (long i = 1; i <= n; i++)
      for (long j = 1; j <= n; j++)
         worst = larger_error(worst, fabs(u[i * row + j] - value(mode, i, j)));
   double quarter = u[n / 4 * row + n / 4];
   for (int m = 0; m < MODES; m++) {
      free(mode[m].column);
      free(mode[m].row);
   }
   free(u);
   free(half);
   free(upper);
   return report(&workload, &o, seconds, worst < 1e-10, "quarter=%.10g error=%.1e", quarter, worst);
}
