/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * adi3: the heat equation in a box by approximate factorisation, five quantities a point: the loops of NAS BT, and with
 * -e 2 those of SP, which also changes to other variables and back around its sweeps.
 *
 * A step computes the right-hand side, solves along x, y and z, and adds the change. All but the sweep along z give
 * threads planes (the outermost index); that one gives them rows across all planes. A row of points is nearly a page,
 * as in class B (102 points of 40 bytes), so that each page has one user for most of a step and another in one sweep.
 *
 * Planes are touched first by their threads, with --init serial by the main thread.
 *
 * Check, against a closed form at every point: each quantity starts as an eigenmode, and a step multiplies it by a
 * known factor.
 */
#include "heat.h"

static const struct workload workload = {
   .name = "adi3",
   .about = "heat equation in a box, five quantities, sweeps along x, y and z",
   .size_is = "interior points along y and along z (100 along x)",
   .iterations_is = "time steps",
   .size = 12, .min_size = 2, .max_size = 2000,
   .iterations = 5,
   .extra_is = "sweeps with passes over the planes before and after that mix the quantities (2 as in SP)",
   .extra = 0, .min_extra = 0, .max_extra = 3,
   .init = true,
};

enum {
   QUANTITIES = 5,
   LENGTH = 100, /* interior points along x */
   POINT = QUANTITIES,
   ROW = (LENGTH + 2) * POINT
};

/* Time step over the squared distance of points. */
static const double RATIO = 0.3;

/* The start of a quantity: factor * sin(p x) * sin(q y) * sin(r z). */
struct mode {
   double factor;
   double *x, *y, *z;
   double eigenvalue[3];
};

static struct mode make_mode(const struct options *o, uint64_t quantity)
{
   const long points[3] = {LENGTH, o->size, o->size};
   struct mode mode = {.factor = 1 + random_unit(o->seed, 4 * quantity)};
   double **waves[3] = {&mode.x, &mode.y, &mode.z};
   for (int d = 0; d < 3; d++) {
      double half_waves = 1 + (double)(random_bits(o->seed, 4 * quantity + 1 + (uint64_t)d) % 2);
      *waves[d] = wave(points[d], half_waves);
      mode.eigenvalue[d] = 2 - 2 * cos(M_PI * half_waves / (double)(points[d] + 1));
   }
   return mode;
}

static double value(const struct mode *mode, long k, long j, long i)
{
   return mode->factor * mode->z[k] * mode->y[j] * mode->x[i];
}

/* What a step multiplies a mode by. */
static double of_step(const struct mode *mode)
{
   double sum = 0, product = 1;
   for (int d = 0; d < 3; d++) {
      sum += RATIO * mode->eigenvalue[d];
      product *= 1 + RATIO * mode->eigenvalue[d];
   }
   return 1 - sum / product;
}

/* Solves in place along a line of points whose neighbours are `along` apart, for all quantities. */
static void solve_line(double *line, const double *upper, long n, long along)
{
   for (long i = 1; i <= n; i++) {
      double *here = line + i * along, scale = 1 / (1 + 2 * RATIO + RATIO * upper[i - 1]);
      for (int q = 0; q < QUANTITIES; q++)
         here[q] = (here[q] + RATIO * here[q - along]) * scale;
   }
   for (long i = n - 1; i >= 1; i--) {
      double *here = line + i * along;
      for (int q = 0; q < QUANTITIES; q++)
         here[q] -= upper[i] * here[q + along];
   }
}

/* The right-hand side in a row: the change of an explicit step. */
static void explicit_row(const double *u, double *change, long plane)
{
   for (long i = POINT; i < ROW - POINT; i++)
      change[i] =
          RATIO * (u[i - POINT] + u[i + POINT] + u[i - ROW] + u[i + ROW] + u[i - plane] + u[i + plane] - 6 * u[i]);
}

/* Other variables, and back again by the same: pairs of quantities are rotated and reflected. Called by all threads. */
static void mix(double *change, long n)
{
   long plane = (n + 2) * ROW;
#pragma omp for schedule(static)
   for (long k = 1; k <= n; k++)
      for (long at = k * plane; at < (k + 1) * plane; at += POINT)
         for (int q = 0; q + 1 < QUANTITIES; q += 2) {
            double a = change[at + q], b = change[at + q + 1];
            change[at + q] = M_SQRT1_2 * (a + b);
            change[at + q + 1] = M_SQRT1_2 * (a - b);
         }
}

/* The sweep along one direction, 0 for x. Called by all threads. */
static void sweep(double *change, double *const upper[2], long n, int direction)
{
   long plane = (n + 2) * ROW;
   switch (direction) {
   case 0:
#pragma omp for schedule(static)
      for (long k = 1; k <= n; k++)
         for (long j = 1; j <= n; j++)
            solve_line(change + k * plane + j * ROW, upper[0], LENGTH, POINT);
      break;
   case 1:
#pragma omp for schedule(static)
      for (long k = 1; k <= n; k++)
         for (long i = 1; i <= LENGTH; i++)
            solve_line(change + k * plane + i * POINT, upper[1], n, ROW);
      break;
   default:
#pragma omp for schedule(static)
      for (long j = 1; j <= n; j++)
         for (long i = 1; i <= LENGTH; i++)
            solve_line(change + j * ROW + i * POINT, upper[1], n, plane);
   }
}

/* One time step. Called by all threads. */
static void step(double *u, double *change, double *const upper[2], long n, long mixed)
{
   long plane = (n + 2) * ROW;
#pragma omp for schedule(static)
   for (long k = 1; k <= n; k++)
      for (long j = 1; j <= n; j++)
         explicit_row(u + k * plane + j * ROW, change + k * plane + j * ROW, plane);
   for (int direction = 0; direction < 3; direction++) {
      if (direction < mixed)
         mix(change, n);
      sweep(change, upper, n, direction);
      if (direction < mixed)
         mix(change, n);
   }
#pragma omp for schedule(static)
   for (long k = 1; k <= n; k++)
      for (long at = k * plane + ROW; at < (k + 1) * plane - ROW; at++)
         u[at] += change[at];
#pragma omp master
   end_iteration();
}

/* Sets all points, and the border to zero. Called by all threads. */
static void begin(double *u, double *change, const struct mode *mode, long n)
{
#pragma omp for schedule(static)
   for (long k = 0; k < n + 2; k++)
      for (long j = 0; j < n + 2; j++)
         for (long i = 0; i < LENGTH + 2; i++) {
            bool edge = k == 0 || j == 0 || i == 0 || k == n + 1 || j == n + 1 || i == LENGTH + 1;
            long at = (k * (n + 2) + j) * ROW + i * POINT;
            for (int q = 0; q < QUANTITIES; q++) {
               u[at + q] = edge ? 0 : value(&mode[q], k, j, i);
               change[at + q] = 0;
            }
         }
}

static double worst_error(const double *u, const struct mode *mode, long n)
{
   double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
   for (long k = 1; k <= n; k++)
      for (long j = 1; j <= n; j++)
         for (long i = 1; i <= LENGTH; i++)
            for (int q = 0; q < QUANTITIES; q++) {
               double is = u[(k * (n + 2) + j) * ROW + i * POINT + q];
               worst = larger_error(worst, fabs(is - value(&mode[q], k, j, i)));
            }
   return worst;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size, points = (n + 2) * (n + 2) * ROW;
   double *u = data_pages(&o, (size_t)points, sizeof *u), *change = data_pages(&o, (size_t)points, sizeof *change);
   double *const upper[2] = {make_upper(LENGTH, RATIO), make_upper(n, RATIO)};
   struct mode mode[QUANTITIES];
   for (int q = 0; q < QUANTITIES; q++)
      mode[q] = make_mode(&o, (uint64_t)q);

   double start = section_begin();
#pragma omp parallel
   {
      begin(u, change, mode, n);
      for (long s = 0; s < o.iterations; s++)
         step(u, change, upper, n, o.extra);
   }
   double seconds = section_end(start);

   for (int q = 0; q < QUANTITIES; q++)
      mode[q].factor *= pow(of_step(&mode[q]), (double)o.iterations);
   double worst = worst_error(u, mode, n), middle = u[(n / 2 * (n + 2) + n / 2) * ROW + LENGTH / 3 * POINT];
   for (int q = 0; q < QUANTITIES; q++) {
      free(mode[q].x);
      free(mode[q].y);
      free(mode[q].z);
   }
   free(u);
   free(change);
   free(upper[0]);
   free(upper[1]);
   return report(&workload, &o, seconds, worst < 1e-10, "middle=%.10g error=%.1e", middle, worst);
}
