/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * particles: a two-dimensional particle-in-cell code on a torus, in fixed-point numbers. It stands for the suite's mp3d
 * (Bolosky & Scott 1991, section 4.1.2): particles belong to threads, cells to the space they fly through.
 *
 * Each step: every particle adds its charge to the four nearest cells (atomic adds), every cell gets its field from
 * its neighbours' charge, every particle is pushed by the field around it. Particles start in order of their place, so
 * a thread first meets its own band of cells; as they fly, the cells become shared by all.
 *
 * Check: the leapfrog step in integers is reversible bit for bit. The program runs ITERATIONS steps, then as many
 * backwards, and must be exactly where it began; the charge of each step must add up as well.
 */
#include "common.h"

static const struct workload workload = {
   .name = "particles",
   .about = "particle-in-cell, particles owned by threads, cells shared",
   .size_is = "particles",
   .iterations_is = "steps forwards, then as many backwards",
   .size = 16384, .min_size = 64, .max_size = 1L << 28,
   .iterations = 6,
};

/* A coordinate is 32 bits: 6 of the cell, 26 within it, of which the first 8 weigh the charge. */
enum { CELL_BITS = 6, CELLS = 1 << CELL_BITS, WITHIN = 32 - CELL_BITS, WEIGHT_BITS = 8, WEIGHT = 1 << WEIGHT_BITS };

struct particle {
   uint32_t x, y;
   int32_t vx, vy;
};

struct cell {
   int32_t charge, field_x, field_y;
   int32_t unused; /* four cells a cache line */
};

/* The four cells around a place and its weights in them; the weights add up to WEIGHT * WEIGHT. */
struct corners {
   long cell[4];
   int32_t weight[4];
};

static struct corners corners_of(uint32_t x, uint32_t y)
{
   long column = x >> WITHIN, row = y >> WITHIN;
   long right = (column + 1) % CELLS, below = (row + 1) % CELLS;
   int32_t fx = (int32_t)(x >> (WITHIN - WEIGHT_BITS)) & (WEIGHT - 1);
   int32_t fy = (int32_t)(y >> (WITHIN - WEIGHT_BITS)) & (WEIGHT - 1);
   struct corners c = {
      {row * CELLS + column, row * CELLS + right, below * CELLS + column, below * CELLS + right},
      {(WEIGHT - fx) * (WEIGHT - fy), fx * (WEIGHT - fy), (WEIGHT - fx) * fy, fx * fy},
   };
   return c;
}

/* Where particle i starts: the rows of the torus are filled in the order of i. */
static struct particle start_of(uint64_t seed, long i, long n)
{
   uint64_t bits = random_bits(seed, (uint64_t)i);
   struct particle p = {
      .x = (uint32_t)bits,
      .y = (uint32_t)(((uint64_t)i << 32) / (uint64_t)n),
      .vx = (int32_t)(bits >> 32) >> 4,
      .vy = (int32_t)(random_bits(~seed, (uint64_t)i) >> 32) >> 5,
   };
   return p;
}

/* Charge of all cells from the places of all particles, then the field. Called by all threads. */
static void make_field(const struct particle *particle, struct cell *cell, long n)
{
#pragma omp for schedule(static)
   for (long c = 0; c < CELLS * CELLS; c++)
      cell[c].charge = 0;
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++) {
      struct corners c = corners_of(particle[i].x, particle[i].y);
      for (int k = 0; k < 4; k++)
#pragma omp atomic
         cell[c.cell[k]].charge += c.weight[k];
   }
#pragma omp for schedule(static)
   for (long row = 0; row < CELLS; row++)
      for (long column = 0; column < CELLS; column++) {
         long left = (column + CELLS - 1) % CELLS, right = (column + 1) % CELLS;
         long above = (row + CELLS - 1) % CELLS, below = (row + 1) % CELLS;
         struct cell *at = &cell[row * CELLS + column];
         at->field_x = cell[row * CELLS + left].charge / 16 - cell[row * CELLS + right].charge / 16;
         at->field_y = cell[above * CELLS + column].charge / 16 - cell[below * CELLS + column].charge / 16;
      }
}

/* Changes the velocities by the field, once (direction 1) or back (-1). Called by all threads. */
static void push(struct particle *particle, const struct cell *cell, long n, int direction)
{
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++) {
      struct corners c = corners_of(particle[i].x, particle[i].y);
      int64_t ax = 0, ay = 0;
      for (int k = 0; k < 4; k++) {
         ax += (int64_t)c.weight[k] * cell[c.cell[k]].field_x;
         ay += (int64_t)c.weight[k] * cell[c.cell[k]].field_y;
      }
      particle[i].vx = (int32_t)((uint32_t)particle[i].vx + (uint32_t)(direction * (ax >> WEIGHT_BITS)));
      particle[i].vy = (int32_t)((uint32_t)particle[i].vy + (uint32_t)(direction * (ay >> WEIGHT_BITS)));
   }
}

/* Moves the particles by their velocities. Called by all threads. */
static void drift(struct particle *particle, long n, int direction)
{
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++) {
      particle[i].x += (uint32_t)direction * (uint32_t)particle[i].vx;
      particle[i].y += (uint32_t)direction * (uint32_t)particle[i].vy;
   }
}

static bool charge_adds_up(const struct cell *cell, long n)
{
   int64_t sum = 0;
   for (long c = 0; c < CELLS * CELLS; c++)
      sum += cell[c].charge;
   return sum == (int64_t)n * WEIGHT * WEIGHT;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size, strayed = 0;
   struct particle *particle = new_pages((size_t)n, sizeof *particle);
   struct cell *cell = new_pages(CELLS * CELLS, sizeof *cell);
   uint64_t middle = 0; /* a digest of all places after the steps forwards */
   bool charged = true;

   double start = section_begin();
#pragma omp parallel
   {
#pragma omp for schedule(static)
      for (long i = 0; i < n; i++)
         particle[i] = start_of(o.seed, i, n);
      for (long step = 0; step < o.iterations; step++) {
         make_field(particle, cell, n);
         push(particle, cell, n, 1);
         drift(particle, n, 1);
#pragma omp master
         end_iteration();
      }
#pragma omp for schedule(static) reduction(+ : middle)
      for (long i = 0; i < n; i++)
         middle += random_bits(particle[i].x, particle[i].y);
      for (long step = 0; step < o.iterations; step++) {
         drift(particle, n, -1);
         make_field(particle, cell, n);
#pragma omp single
         charged = charged && charge_adds_up(cell, n);
         push(particle, cell, n, -1);
#pragma omp master
         end_iteration();
      }
#pragma omp for schedule(static) reduction(+ : strayed)
      for (long i = 0; i < n; i++) {
         struct particle begin = start_of(o.seed, i, n);
         strayed += memcmp(&begin, &particle[i], sizeof begin) != 0;
      }
   }
   double seconds = section_end(start);
   free(particle);
   free(cell);
   return report(&workload, &o, seconds, strayed == 0 && charged, "middle=%016llx strayed=%ld",
                 (unsigned long long)middle, strayed);
}
