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

static void solve_line(struct box *b, long from, int direction)
{
   struct blocks line[LARGEST + 2];
   double *first = b->rhs + from;
   long along = b->along[direction];
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

static void step(struct box *b)
{
   static const char *const names[3] = {"x_solve", "y_solve", "z_solve"};
   begin_phase("compute_rhs");
   diffusion_rhs(b);
   for (int direction = 0; direction < 3; direction++) {
      begin_phase(names[direction]);
      sweep_lines(b, direction, solve_line);
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
   return run_steps(&workload, argc, argv, diffusion_rhs, step, operator_of);
}
