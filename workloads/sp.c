/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * sp: five coupled quantities in a box, with dissipation of fourth order, by approximate factorisation in decoupled
 * variables: five scalar pentadiagonal systems a line along x, y and z. The phases are those of NAS SP: compute_rhs (a
 * region for each direction and for the dissipation), txinvr, x_solve, ninvr, y_solve, pinvr, z_solve, tzetar, add.
 *
 * The variables of a sweep are the directions of H, in which K is diagonal (coupled.h). Three of its rates are equal,
 * so that any rotation of those three variables leaves it diagonal: ninvr and pinvr are such rotations.
 *
 * Check, against a closed form at every point: coupled.h.
 */
#include "coupled.h"

static const struct workload workload = {
   .name = "sp",
   .about = "five coupled quantities in a box, pentadiagonal sweeps along x, y and z",
   .size_is = "interior points in each direction",
   .iterations_is = "time steps",
   .size = 16, .min_size = 3, .max_size = LARGEST,
   .iterations = 3,
   .init = true,
};

/* Of the dissipation, times the time step. */
static const double FOURTH = 0.02;

enum { BANDS = 5 };

/* The second difference, squared, at point i of a line; beyond the border values are mirrored and negated. */
static double fourth_difference(const double *here, long along, long i, long n)
{
   double sum = (i == 1 || i == n ? 5 : 6) * here[0] - 4 * (here[-along] + here[along]);
   if (i > 1)
      sum += here[-2 * along];
   if (i < n)
      sum += here[2 * along];
   return sum;
}

static void begin_rhs(struct box *b)
{
   FOR_POINTS(b, at)
      for (int q = 0; q < QUANTITIES; q++)
         b->rhs[at + q] = b->forcing[at + q];
}

static void add_fluxes(struct box *b, long along)
{
   FOR_POINTS(b, at)
      for (int q = 0; q < QUANTITIES; q++) {
         const double *flux = b->flux + at + q;
         b->rhs[at + q] += RATIO * (flux[-along] - 2 * flux[0] + flux[along]);
      }
}

static void dissipate(struct box *b)
{
#pragma omp parallel for schedule(static)
   for (long k = 1; k <= b->n; k++)
      for (long j = 1; j <= b->n; j++)
         for (long i = 1; i <= b->n; i++) {
            const long index[3] = {i, j, k};
            long at = point(b, k, j, i);
            for (int d = 0; d < 3; d++)
               for (int q = 0; q < QUANTITIES; q++)
                  b->rhs[at + q] -= FOURTH * fourth_difference(b->u + at + q, b->along[d], index[d], b->n);
         }
}

static void compute_rhs(struct box *b)
{
   make_flux(b);
   begin_rhs(b);
   for (int d = 0; d < 3; d++)
      add_fluxes(b, b->along[d]);
   dissipate(b);
}

/* To the directions of H, and from them. */
static void change_variables(struct box *b)
{
   FOR_POINTS(b, at)
      times_matrix(b->h, b->rhs + at, b->rhs + at);
}

/* A quarter turn of two of the three variables of equal rate. */
static void turn(double *values, int a, int c)
{
   double before = values[a];
   values[a] = values[c];
   values[c] = -before;
}

static void ninvr(struct box *b)
{
   FOR_POINTS(b, at)
      turn(b->rhs + at, 0, 1);
}

static void pinvr(struct box *b)
{
   FOR_POINTS(b, at)
      turn(b->rhs + at, 1, 2);
}

static void tzetar(struct box *b)
{
   FOR_POINTS(b, at) {
      turn(b->rhs + at, 2, 1);
      turn(b->rhs + at, 1, 0);
      times_matrix(b->h, b->rhs + at, b->rhs + at);
   }
}

/* The five bands of a line of n points for one rate. */
static void make_bands(double (*line)[BANDS], long n, double lambda)
{
   double second = RATIO * lambda;
   for (long i = 1; i <= n; i++) {
      line[i][0] = i > 2 ? FOURTH : 0;
      line[i][1] = i > 1 ? -second - 4 * FOURTH : 0;
      line[i][2] = 1 + 2 * second + (i == 1 || i == n ? 5 : 6) * FOURTH;
      line[i][3] = i < n ? -second - 4 * FOURTH : 0;
      line[i][4] = i < n - 1 ? FOURTH : 0;
   }
}

/* Eliminates the variable of point `from`, whose row has the pivot 1, from the row of a point after it. */
static void subtract(double (*line)[BANDS], double *first, long along, long from, long to)
{
   long apart = to - from;
   double factor = line[to][2 - apart];
   for (long band = 2; band < BANDS; band++)
      line[to][band - apart] -= factor * line[from][band];
   first[to * along] -= factor * first[from * along];
}

/* Solves in place for one quantity along a line that begins at the border, before `first`. */
static void solve_line(double *first, long along, long n, double lambda)
{
   double line[LARGEST + 2][BANDS];
   make_bands(line, n, lambda);
   for (long i = 1; i <= n; i++) {
      double pivot = 1 / line[i][2];
      for (int band = 2; band < BANDS; band++)
         line[i][band] *= pivot;
      first[i * along] *= pivot;
      for (long to = i + 1; to <= i + 2 && to <= n; to++)
         subtract(line, first, along, i, to);
   }
   for (long i = n - 1; i >= 1; i--) {
      first[i * along] -= line[i][3] * first[(i + 1) * along];
      if (i < n - 1)
         first[i * along] -= line[i][4] * first[(i + 2) * along];
   }
}

static void solve_lines(struct box *b, long first, int direction)
{
   for (int q = 0; q < QUANTITIES; q++)
      solve_line(b->rhs + first + q, b->along[direction], b->n, b->lambda[q]);
}

static void step(struct box *b)
{
   begin_phase("compute_rhs");
   compute_rhs(b);
   begin_phase("txinvr");
   change_variables(b);
   begin_phase("x_solve");
   sweep_lines(b, 0, solve_lines);
   begin_phase("ninvr");
   ninvr(b);
   begin_phase("y_solve");
   sweep_lines(b, 1, solve_lines);
   begin_phase("pinvr");
   pinvr(b);
   begin_phase("z_solve");
   sweep_lines(b, 2, solve_lines);
   begin_phase("tzetar");
   tzetar(b);
   begin_phase("add");
   add_change(b);
   end_iteration();
}

static double operator_of(double eigenvalue, double lambda)
{
   return RATIO * lambda * eigenvalue + FOURTH * eigenvalue * eigenvalue;
}

int main(int argc, char **argv)
{
   return run_steps(&workload, argc, argv, compute_rhs, step, operator_of);
}
