/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * bt: five coupled quantities in a box by approximate factorisation: block-tridiagonal systems with blocks of 5x5 along
 * x, y and z. The phases are those of NAS BT: compute_rhs, x_solve, y_solve, z_solve, add.
 *
 * Check, against a closed form at every point: coupled.h.
 */
#include "coupled.h"

static const struct workload workload = {
   .name = "bt",
   .about = "five coupled quantities in a box, block-tridiagonal sweeps along x, y and z",
   .size_is = "interior points in each direction",
   .iterations_is = "time steps",
   .size = 12, .min_size = 2, .max_size = LARGEST,
   .iterations = 2,
   .init = true,
};

typedef double block[QUANTITIES][QUANTITIES];

/* The three blocks of a point: those of the point before, its own, and that of the point after. */
struct blocks {
   block before, own, after;
};

static void compute_rhs(struct box *b)
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

/* The blocks of a line of n points. */
static void make_blocks(const struct box *b, struct blocks *line)
{
   for (long i = 1; i <= b->n; i++)
      for (int r = 0; r < QUANTITIES; r++)
         for (int c = 0; c < QUANTITIES; c++) {
            double of_k = RATIO * b->k[r][c];
            line[i].before[r][c] = i == 1 ? 0 : -of_k;
            line[i].own[r][c] = (r == c) + 2 * of_k;
            line[i].after[r][c] = i == b->n ? 0 : -of_k;
         }
}

/* own -= before * matrix, right -= before * vector. */
static void take_off(block before, block matrix, const double *vector, block own, double *right)
{
   for (int r = 0; r < QUANTITIES; r++)
      for (int m = 0; m < QUANTITIES; m++) {
         right[r] -= before[r][m] * vector[m];
         for (int c = 0; c < QUANTITIES; c++)
            own[r][c] -= before[r][m] * matrix[m][c];
      }
}

/* matrix = own^-1 matrix, right = own^-1 right; `own` is lost. It is so dominant that it needs no pivots. */
static void divide(block own, block matrix, double *right)
{
   for (int p = 0; p < QUANTITIES; p++) {
      double pivot = 1 / own[p][p];
      for (int c = 0; c < QUANTITIES; c++) {
         own[p][c] *= pivot;
         matrix[p][c] *= pivot;
      }
      right[p] *= pivot;
      for (int r = 0; r < QUANTITIES; r++) {
         double factor = own[r][p];
         if (r == p)
            continue;
         for (int c = 0; c < QUANTITIES; c++) {
            own[r][c] -= factor * own[p][c];
            matrix[r][c] -= factor * matrix[p][c];
         }
         right[r] -= factor * right[p];
      }
   }
}

/* Solves in place along a line that begins at the border, before `first`; points are `along` apart. */
static void solve_line(const struct box *b, double *first, long along)
{
   struct blocks line[LARGEST + 2];
   make_blocks(b, line);
   for (long i = 1; i <= b->n; i++) {
      double *here = first + i * along;
      if (i > 1)
         take_off(line[i].before, line[i - 1].after, here - along, line[i].own, here);
      divide(line[i].own, line[i].after, here);
   }
   for (long i = b->n - 1; i >= 1; i--) {
      double *here = first + i * along;
      for (int r = 0; r < QUANTITIES; r++)
         for (int c = 0; c < QUANTITIES; c++)
            here[r] -= line[i].after[r][c] * here[along + c];
   }
}

/* The sweep along one direction, 0 for x. */
static void solve(struct box *b, int direction)
{
   long outer = direction == 2 ? b->along[1] : b->along[2], inner = direction == 0 ? b->along[1] : b->along[0];
#pragma omp parallel for schedule(static)
   for (long o = 1; o <= b->n; o++)
      for (long i = 1; i <= b->n; i++)
         solve_line(b, b->rhs + o * outer + i * inner, b->along[direction]);
}

static void step(struct box *b)
{
   static const char *const names[3] = {"x_solve", "y_solve", "z_solve"};
   begin_phase("compute_rhs");
   compute_rhs(b);
   for (int direction = 0; direction < 3; direction++) {
      begin_phase(names[direction]);
      solve(b, direction);
   }
   begin_phase("add");
   add_change(b);
   end_iteration();
}

static double operator_of(double eigenvalue, double lambda)
{
   return RATIO * lambda * eigenvalue;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   struct box b = make_box(&o, compute_rhs);
   double start = section_begin();
   for (long s = 0; s < o.iterations; s++)
      step(&b);
   double seconds = section_end(start);
   double worst = largest_error(&b, o.iterations, operator_of), middle = middle_of(&b);
   free_box(&b);
   return report(&workload, &o, seconds, worst < 1e-10, "middle=%.10g error=%.1e", middle, worst);
}
