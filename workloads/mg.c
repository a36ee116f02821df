/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * mg: multigrid V-cycles for Poisson's equation on a cube, after NAS MG: red-black smoothing, full weighting,
 * trilinear interpolation.
 *
 * Slabs of planes belong to threads on every level. Fine levels share only border planes; on coarse levels the slabs
 * become thinner than a page, and the coarsest have fewer planes than there are threads.
 *
 * Slabs are touched first by their threads, with --init serial by the main thread.
 *
 * Check, against a closed form at every point: the right-hand side is an eigenmode of the discrete Laplacian, so the
 * discrete solution is that mode over its eigenvalue; each V-cycle must bring the error down to a quarter or less.
 */
#include "common.h"

static const struct workload workload = {
   .name = "mg",
   .about = "three-dimensional multigrid, slabs of planes",
   .size_is = "intervals in each direction, a power of two",
   .iterations_is = "V-cycles",
   .size = 32, .min_size = 4, .max_size = 1024,
   .iterations = 5,
   .init = true,
};

enum { MAX_LEVELS = 10, BEFORE = 1, AFTER = 1, COARSEST = 2 };

/* One level: (n + 1)^3 points, the outermost held at zero; u is the solution, f the right-hand side times the squared
 * distance of points, r the residual. */
struct level {
   long n;
   double *u, *f, *r;
};

static long at(long n, long i, long j, long k)
{
   return (i * (n + 1) + j) * (n + 1) + k;
}

static double neighbours(const double *u, long n, long c)
{
   long row = n + 1, plane = row * row;
   return u[c - plane] + u[c + plane] + u[c - row] + u[c + row] + u[c - 1] + u[c + 1];
}

/* One Gauss-Seidel sweep, red points first. This and all below are called by all threads. */
static void smooth(const struct level *l)
{
   long n = l->n;
   for (long colour = 0; colour < 2; colour++)
#pragma omp for schedule(static)
      for (long i = 1; i < n; i++)
         for (long j = 1; j < n; j++)
            for (long k = 1 + (i + j + colour) % 2; k < n; k += 2) {
               long c = at(n, i, j, k);
               l->u[c] = (neighbours(l->u, n, c) + l->f[c]) / 6;
            }
}

static void make_residual(const struct level *l)
{
   long n = l->n;
#pragma omp for schedule(static)
   for (long i = 1; i < n; i++)
      for (long j = 1; j < n; j++)
         for (long k = 1; k < n; k++) {
            long c = at(n, i, j, k);
            l->r[c] = l->f[c] + neighbours(l->u, n, c) - 6 * l->u[c];
         }
}

/* The weight of a fine point at this distance from a coarse one, in each direction. */
static double weight(long distance)
{
   return distance == 0 ? 1 : 0.5;
}

/* The coarse right-hand side is the weighted residual around each point; the coarse solution begins at zero. The
 * factor 4 = (2h)^2 / h^2 is in the scale of f. */
static void restrict_residual(const struct level *fine, const struct level *coarse)
{
   long n = coarse->n;
#pragma omp for schedule(static)
   for (long i = 1; i < n; i++)
      for (long j = 1; j < n; j++)
         for (long k = 1; k < n; k++) {
            double sum = 0;
            for (long di = -1; di <= 1; di++)
               for (long dj = -1; dj <= 1; dj++)
                  for (long dk = -1; dk <= 1; dk++)
                     sum += weight(di) * weight(dj) * weight(dk) *
                            fine->r[at(fine->n, 2 * i + di, 2 * j + dj, 2 * k + dk)];
            coarse->f[at(n, i, j, k)] = sum / 8 * 4;
            coarse->u[at(n, i, j, k)] = 0;
         }
}

/* Adds the coarse solution, interpolated, to the fine one. */
static void add_correction(const struct level *coarse, const struct level *fine)
{
   long n = fine->n, m = coarse->n;
#pragma omp for schedule(static)
   for (long i = 1; i < n; i++)
      for (long j = 1; j < n; j++)
         for (long k = 1; k < n; k++) {
            long i2 = (i + 1) / 2, j2 = (j + 1) / 2, k2 = (k + 1) / 2;
            const double *u = coarse->u;
            fine->u[at(n, i, j, k)] +=
               (u[at(m, i / 2, j / 2, k / 2)] + u[at(m, i / 2, j / 2, k2)] + u[at(m, i / 2, j2, k / 2)] +
                u[at(m, i / 2, j2, k2)] + u[at(m, i2, j / 2, k / 2)] + u[at(m, i2, j / 2, k2)] +
                u[at(m, i2, j2, k / 2)] + u[at(m, i2, j2, k2)]) / 8;
         }
}

static void v_cycle(const struct level *level, int levels)
{
   for (int l = 0; l + 1 < levels; l++) {
      for (int sweep = 0; sweep < BEFORE; sweep++)
         smooth(&level[l]);
      make_residual(&level[l]);
      restrict_residual(&level[l], &level[l + 1]);
   }
   smooth(&level[levels - 1]); /* one point: solved */
   for (int l = levels - 2; l >= 0; l--) {
      add_correction(&level[l + 1], &level[l]);
      for (int sweep = 0; sweep < AFTER; sweep++)
         smooth(&level[l]);
   }
}

static void clear(const struct level *l)
{
   long row = l->n + 1;
#pragma omp for schedule(static)
   for (long i = 0; i < row; i++)
      for (long c = i * row * row; c < (i + 1) * row * row; c++)
         l->u[c] = l->f[c] = l->r[c] = 0;
}

/* The modes in each direction, one to three half waves, from the seed; returns the eigenvalue. */
static double make_mode(double *wave[3], long n, uint64_t seed)
{
   double eigenvalue = 0;
   for (uint64_t d = 0; d < 3; d++) {
      double half_waves = 1 + (double)(random_bits(seed, d) % 3);
      wave[d] = new_pages((size_t)n + 1, sizeof(double));
      for (long i = 0; i <= n; i++)
         wave[d][i] = sin(M_PI * half_waves * (double)i / (double)n);
      eigenvalue += 2 - 2 * cos(M_PI * half_waves / (double)n);
   }
   return eigenvalue;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   struct level level[MAX_LEVELS];
   double *wave[3], worst = 0;
   int levels = 0;
   if (!power_of_two(o.size))
      usage_error(&workload, "-n is %ld, expected a power of two", o.size);
   for (long n = o.size; n >= COARSEST; n /= 2) {
      size_t points = (size_t)((n + 1) * (n + 1) * (n + 1));
      level[levels++] = (struct level){n, data_pages(&o, points, sizeof(double)),
                                       data_pages(&o, points, sizeof(double)), data_pages(&o, points, sizeof(double))};
   }
   long n = o.size;
   double eigenvalue = make_mode(wave, n, o.seed);

   double start = section_begin();
#pragma omp parallel
   {
      for (int l = 0; l < levels; l++)
         clear(&level[l]);
#pragma omp for schedule(static)
      for (long i = 1; i < n; i++)
         for (long j = 1; j < n; j++)
            for (long k = 1; k < n; k++)
               level[0].f[at(n, i, j, k)] = eigenvalue * wave[0][i] * wave[1][j] * wave[2][k];
      for (long cycle = 0; cycle < o.iterations; cycle++) {
         v_cycle(level, levels);
#pragma omp master
         end_iteration();
      }
   }
   double seconds = section_end(start);

#pragma omp parallel for schedule(static) reduction(max : worst)
   for (long i = 0; i <= n; i++)
      for (long j = 0; j <= n; j++)
         for (long k = 0; k <= n; k++)
            worst = larger_error(worst, fabs(level[0].u[at(n, i, j, k)] - wave[0][i] * wave[1][j] * wave[2][k]));
   double quarter = level[0].u[at(n, n / 4, n / 4, n / 4)];
   for (int l = 0; l < levels; l++) {
      free(level[l].u);
      free(level[l].f);
      free(level[l].r);
   }
   for (int d = 0; d < 3; d++)
      free(wave[d]);
   bool ok = worst < pow(0.25, (double)o.iterations) + 1e-10;
   return report(&workload, &o, seconds, ok, "quarter=%.10g error=%.3e", quarter, worst);
}
