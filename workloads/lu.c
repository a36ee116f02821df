/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * lu: five coupled quantities in a box by symmetric successive over-relaxation: a step solves with the product of a
 * lower and an upper block-triangular factor. The phases are those of NAS LU: rhs, blts (the lower sweep), buts (the
 * upper one), add.
 *
 * As there, rhs and add give threads planes, and sweeps give them bands of rows across all planes, in a pipeline: a
 * thread comes to its band of a plane when the one before it has done with its own. So every page has several users. A
 * barrier a stage keeps the order, where NAS LU spins on flags.
 *
 * Check: the last change times both factors is the right side that it was made from, and residuals have become smaller.
 */
#include "coupled.h"

static const struct workload workload = {
   .name = "lu",
   .about = "five coupled quantities in a box, lower and upper sweeps in a pipeline",
   .size_is = "interior points in each direction",
   .iterations_is = "time steps",
   .size = 16, .min_size = 2, .max_size = LARGEST,
   .iterations = 4,
   .init = true,
};

typedef double block[QUANTITIES][QUANTITIES];

/* The blocks of a point: D and its inverse; a neighbour's is -RATIO K. */
struct blocks {
   block own, inverse;
};

/* K has the rates lambda in the directions of H, and so have D = 1 + 6 RATIO K and its inverse. */
static struct blocks make_blocks(const struct box *b)
{
   struct blocks blocks;
   for (int r = 0; r < QUANTITIES; r++)
      for (int c = 0; c < QUANTITIES; c++) {
         blocks.own[r][c] = (r == c) + 6 * RATIO * b->k[r][c];
         blocks.inverse[r][c] = 0;
         for (int q = 0; q < QUANTITIES; q++)
            blocks.inverse[r][c] += b->h[r][q] / (1 + 6 * RATIO * b->lambda[q]) * b->h[q][c];
      }
   return blocks;
}

/* What a triangle's neighbours add up to at a point: those before it (`way` 1) or after it (-1), times RATIO K. */
static void neighbours(const struct box *b, const double *of, long at, int way, double *sum)
{
   double values[QUANTITIES];
   for (int q = 0; q < QUANTITIES; q++)
      values[q] = of[at + q - way * b->along[0]] + of[at + q - way * b->along[1]] + of[at + q - way * b->along[2]];
   for (int r = 0; r < QUANTITIES; r++) {
      sum[r] = 0;
      for (int c = 0; c < QUANTITIES; c++)
         sum[r] += RATIO * b->k[r][c] * values[c];
   }
}

/* (D + L) x = rhs in place. */
static void lower_point(struct box *b, struct blocks *blocks, long at)
{
   double sum[QUANTITIES];
   neighbours(b, b->rhs, at, 1, sum);
   for (int q = 0; q < QUANTITIES; q++)
      sum[q] += b->rhs[at + q];
   times_matrix(blocks->inverse, sum, b->rhs + at);
}

/* (D + U) x = D rhs in place. */
static void upper_point(struct box *b, struct blocks *blocks, long at)
{
   double sum[QUANTITIES];
   neighbours(b, b->rhs, at, -1, sum);
   times_matrix(blocks->inverse, sum, sum);
   for (int q = 0; q < QUANTITIES; q++)
      b->rhs[at + q] += sum[q];
}

/* Goes through all points, forwards (`way` 1) or backwards: thread t is t planes behind the first. */
static void sweep(struct box *b, struct blocks *blocks, int way,
                  void (*at_point)(struct box *, struct blocks *, long))
{
   long n = b->n;
#pragma omp parallel
   {
      long threads = omp_get_num_threads(), thread = omp_get_thread_num();
      long place = way > 0 ? thread : threads - 1 - thread;
      long first = 1 + part_start(n, thread, threads), end = 1 + part_start(n, thread + 1, threads);
      for (long stage = 0; stage < n + threads - 1; stage++) {
         long plane = stage - place;
         if (plane >= 0 && plane < n)
            for (long j = 0; j < end - first; j++)
               for (long i = 0; i < n; i++)
                  at_point(b, blocks, way > 0 ? point(b, 1 + plane, first + j, 1 + i)
                                              : point(b, n - plane, end - 1 - j, n - i));
#pragma omp barrier
      }
   }
}

/* The change that the right side asks for, in its place. */
static void solve(struct box *b, struct blocks *blocks)
{
   begin_phase("blts");
   sweep(b, blocks, 1, lower_point);
   begin_phase("buts");
   sweep(b, blocks, -1, upper_point);
}

static void step(struct box *b, struct blocks *blocks)
{
   begin_phase("rhs");
   diffusion_rhs(b);
   solve(b, blocks);
   begin_phase("add");
   add_change(b);
   end_iteration();
}

static double residual(struct box *b)
{
   double worst = 0;
   diffusion_rhs(b);
   for (long at = 0; at < b->along[2] * (b->n + 2); at++)
      worst = larger_error(worst, fabs(b->rhs[at]));
   return worst;
}

/* The largest difference between the right side and the factors times the change that was made from it. */
static double error_of_solve(struct box *b, struct blocks *blocks)
{
   long values = b->along[2] * (b->n + 2);
   double *right = new_pages((size_t)values, sizeof *right), worst = 0;
   diffusion_rhs(b);
   memcpy(right, b->rhs, (size_t)values * sizeof *right);
   solve(b, blocks);
   /* (D + U), then D's inverse; the border of flux is zero. */
   FOR_POINTS(b, at) {
      double sum[QUANTITIES];
      neighbours(b, b->rhs, at, -1, sum);
      times_matrix(blocks->inverse, sum, sum);
      for (int q = 0; q < QUANTITIES; q++)
         b->flux[at + q] = b->rhs[at + q] - sum[q];
   }
   for (long k = 1; k <= b->n; k++)
      for (long j = 1; j <= b->n; j++)
         for (long i = 1; i <= b->n; i++) {
            double sum[QUANTITIES], product[QUANTITIES];
            long at = point(b, k, j, i);
            neighbours(b, b->flux, at, 1, sum);
            times_matrix(blocks->own, b->flux + at, product);
            for (int q = 0; q < QUANTITIES; q++)
               worst = larger_error(worst, fabs(product[q] - sum[q] - right[at + q]));
         }
   free(right);
   return worst;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   struct box b = make_box(&o, diffusion_rhs);
   struct blocks blocks = make_blocks(&b);
   double before = residual(&b);
   double start = section_begin();
   for (long s = 0; s < o.iterations; s++)
      step(&b, &blocks);
   double seconds = section_end(start);
   double middle = middle_of(&b), after = residual(&b), error = error_of_solve(&b, &blocks);
   free_box(&b);
   return report(&workload, &o, seconds, after < before && error < 1e-12 * (1 + before),
                 "middle=%.10g residual=%.1e error=%.1e", middle, after, error);
}
