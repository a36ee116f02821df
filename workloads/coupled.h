/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What bt, lu and sp share: five coupled quantities that diffuse in a box, a step towards their steady state by
 * approximate factorisation, and (bt, sp) the closed form of every value.
 *
 * The coupling is a 5x5 matrix K = H diag(lambda) H, where H is a reflection, its own inverse: column q of H is a
 * direction in which quantities change together, at the rate lambda[q]. The steady state is a random field; the
 * forcing is what holds it there. The start differs from it by one sine mode in each of the five directions, which a
 * step multiplies by a known factor.
 *
 * Every phase is a parallel region of its own, as in NAS BT and SP. All but the sweep along z give threads planes (the
 * outermost index); that one gives them rows across all planes.
 */
#ifndef WORKLOADS_COUPLED_H
#define WORKLOADS_COUPLED_H

#include "heat.h"

enum { QUANTITIES = 5, LARGEST = 254 };

/* Time step over the squared distance of points. */
static const double RATIO = 0.3;

/* Difference from the steady state in one direction of H: factor * sin(p x) * sin(q y) * sin(r z). */
struct mode {
   double factor;
   double *wave[3];
   double eigenvalue[3];
};

struct box {
   long n;       /* interior points in each direction; the border is zero */
   long along[3]; /* from a point to the next along x, y, z, in values */
   uint64_t seed;
   double *u, *rhs, *forcing;
   double *flux; /* K u */
   double k[QUANTITIES][QUANTITIES], h[QUANTITIES][QUANTITIES], lambda[QUANTITIES];
   struct mode mode[QUANTITIES];
};

/* Does something for each interior point, planes dealt out to threads; `at` is its first value. */
#define FOR_POINTS(box, at)                                                                                           \
   _Pragma("omp parallel for schedule(static)") for (long plane_ = 1; plane_ <= (box)->n; plane_++)                   \
      for (long row_ = 1; row_ <= (box)->n; row_++)                                                                   \
         for (long at = first_of_row(box, plane_, row_); at < first_of_row(box, plane_, row_) + (box)->n * QUANTITIES; \
              at += QUANTITIES)

static inline long point(const struct box *b, long k, long j, long i)
{
   return k * b->along[2] + j * b->along[1] + i * b->along[0];
}

static inline long first_of_row(const struct box *b, long k, long j)
{
   return point(b, k, j, 1);
}

static inline void times_matrix(double matrix[QUANTITIES][QUANTITIES], const double *from, double *to)
{
   double result[QUANTITIES] = {0};
   for (int r = 0; r < QUANTITIES; r++)
      for (int c = 0; c < QUANTITIES; c++)
         result[r] += matrix[r][c] * from[c];
   for (int r = 0; r < QUANTITIES; r++)
      to[r] = result[r];
}

/* Three of the rates are equal, as are those of Euler's equations. */
static inline void make_coupling(struct box *b)
{
   const double lambda[QUANTITIES] = {1, 1, 1, 1.5, 0.5};
   double v[QUANTITIES], square = 0;
   for (int q = 0; q < QUANTITIES; q++) {
      b->lambda[q] = lambda[q];
      v[q] = 0.5 + random_unit(b->seed, (uint64_t)q);
      square += v[q] * v[q];
   }
   for (int r = 0; r < QUANTITIES; r++)
      for (int c = 0; c < QUANTITIES; c++)
         b->h[r][c] = (r == c) - 2 * v[r] * v[c] / square;
   for (int r = 0; r < QUANTITIES; r++)
      for (int c = 0; c < QUANTITIES; c++) {
         b->k[r][c] = 0;
         for (int q = 0; q < QUANTITIES; q++)
            b->k[r][c] += b->h[r][q] * lambda[q] * b->h[q][c];
      }
}

static inline void make_modes(struct box *b)
{
   for (uint64_t q = 0; q < QUANTITIES; q++) {
      struct mode *m = &b->mode[q];
      m->factor = 1 + random_unit(b->seed, 8 + 4 * q);
      for (uint64_t d = 0; d < 3; d++) {
         double half_waves = 1 + (double)(random_bits(b->seed, 9 + 4 * q + d) % 2);
         m->wave[d] = wave(b->n, half_waves);
         m->eigenvalue[d] = 2 - 2 * cos(M_PI * half_waves / (double)(b->n + 1));
      }
   }
}

/* The steady state of a value. */
static inline double steady(const struct box *b, long at)
{
   return random_unit(~b->seed, (uint64_t)at);
}

/* What is above the steady state at a point. */
static inline void above(const struct box *b, long k, long j, long i, double *values)
{
   double along[QUANTITIES];
   for (int q = 0; q < QUANTITIES; q++) {
      const struct mode *m = &b->mode[q];
      along[q] = m->factor * m->wave[0][i] * m->wave[1][j] * m->wave[2][k];
   }
   for (int r = 0; r < QUANTITIES; r++) {
      values[r] = 0;
      for (int q = 0; q < QUANTITIES; q++)
         values[r] += b->h[r][q] * along[q];
   }
}

/* The flux at each point. */
static inline void make_flux(struct box *b)
{
   FOR_POINTS(b, at)
      times_matrix(b->k, b->u + at, b->flux + at);
}

/* The right side of diffusion alone. */
static inline void diffusion_rhs(struct box *b)
{
   make_flux(b);
   FOR_POINTS(b, at)
      for (int q = 0; q < QUANTITIES; q++) {
         double sum = -6 * b->flux[at + q];
         for (int d = 0; d < 3; d++)
            sum += b->flux[at + q - b->along[d]] + b->flux[at + q + b->along[d]];
         b->rhs[at + q] = RATIO * sum + b->forcing[at + q];
      }
}

/* A sweep along one direction, 0 for x: solves in place each line, which begins at the border, at `first` values. */
static inline void sweep_lines(struct box *b, int direction,
                               void (*solve_line)(struct box *, long first, int direction))
{
   long outer = direction == 2 ? b->along[1] : b->along[2], inner = direction == 0 ? b->along[1] : b->along[0];
#pragma omp parallel for schedule(static)
   for (long o = 1; o <= b->n; o++)
      for (long i = 1; i <= b->n; i++)
         solve_line(b, o * outer + i * inner, direction);
}

static inline void add_change(struct box *b)
{
   FOR_POINTS(b, at)
      for (int q = 0; q < QUANTITIES; q++)
         b->u[at + q] += b->rhs[at + q];
}

/* Memory and start. `compute_rhs` is the program's own: the forcing is what it finds at the steady state, negated. */
static inline struct box make_box(const struct options *o, void (*compute_rhs)(struct box *))
{
   long n = o->size, row = n + 2;
   size_t values = (size_t)(row * row * row * QUANTITIES);
   struct box b = {.n = n, .along = {QUANTITIES, row * QUANTITIES, row * row * QUANTITIES}, .seed = o->seed};
   b.u = data_pages(o, values, sizeof(double));
   b.rhs = data_pages(o, values, sizeof(double));
   b.forcing = data_pages(o, values, sizeof(double));
   b.flux = data_pages(o, values, sizeof(double));
   make_coupling(&b);
   make_modes(&b);
#pragma omp parallel for schedule(static)
   for (long k = 0; k < row; k++)
      for (long at = k * b.along[2]; at < (k + 1) * b.along[2]; at++)
         b.u[at] = b.rhs[at] = b.forcing[at] = b.flux[at] = 0;
   FOR_POINTS(&b, at)
      for (int q = 0; q < QUANTITIES; q++)
         b.u[at + q] = steady(&b, at + q);
   compute_rhs(&b);
#pragma omp parallel for schedule(static)
   for (long k = 1; k <= n; k++)
      for (long j = 1; j <= n; j++)
         for (long i = 1; i <= n; i++) {
            long at = point(&b, k, j, i);
            double more[QUANTITIES];
            above(&b, k, j, i, more);
            for (int q = 0; q < QUANTITIES; q++) {
               b.forcing[at + q] = -b.rhs[at + q];
               b.u[at + q] += more[q];
            }
         }
   return b;
}

/* The largest distance from the closed form after some steps; `of` is the operator's value along one direction for an
 * eigenvalue and a rate. */
static inline double largest_error(struct box *b, long steps, double (*of)(double eigenvalue, double lambda))
{
   double worst = 0;
   for (int q = 0; q < QUANTITIES; q++) {
      double sum = 0, product = 1;
      for (int d = 0; d < 3; d++) {
         double value = of(b->mode[q].eigenvalue[d], b->lambda[q]);
         sum += value;
         product *= 1 + value;
      }
      b->mode[q].factor *= pow(1 - sum / product, (double)steps);
   }
#pragma omp parallel for schedule(static) reduction(max : worst)
   for (long k = 1; k <= b->n; k++)
      for (long j = 1; j <= b->n; j++)
         for (long i = 1; i <= b->n; i++) {
            double more[QUANTITIES];
            long at = point(b, k, j, i);
            above(b, k, j, i, more);
            for (int q = 0; q < QUANTITIES; q++)
               worst = larger_error(worst, fabs(b->u[at + q] - steady(b, at + q) - more[q]));
         }
   return worst;
}

static inline double middle_of(const struct box *b)
{
   return b->u[point(b, (b->n + 1) / 2, (b->n + 1) / 2, (b->n + 2) / 3)];
}

static inline void free_box(struct box *b)
{
   free(b->u);
   free(b->rhs);
   free(b->forcing);
   free(b->flux);
   for (int q = 0; q < QUANTITIES; q++)
      for (int d = 0; d < 3; d++)
         free(b->mode[q].wave[d]);
}

/* The whole program of bt and sp. */
static inline int run_steps(const struct workload *w, int argc, char **argv, void (*compute_rhs)(struct box *),
                            void (*step)(struct box *), double (*operator_of)(double eigenvalue, double lambda))
{
   struct options o = parse_options(w, argc, argv);
   struct box b = make_box(&o, compute_rhs);
   double start = section_begin();
   for (long s = 0; s < o.iterations; s++)
      step(&b);
   double seconds = section_end(start);
   double worst = largest_error(&b, o.iterations, operator_of), middle = middle_of(&b);
   free_box(&b);
   return report(w, &o, seconds, worst < 1e-10, "middle=%.10g error=%.1e", middle, worst);
}

#endif
