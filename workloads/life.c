/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * life: Conway's cellular automaton on a torus (the suite's p-life; Bolosky & Scott 1991, section 4.1.2).
 *
 * Two boards of one int a cell; bands of rows belong to threads, border rows are read by two, and the two boards
 * change roles in every generation (producer-consumer pages at the borders).
 *
 * Check: the board holds one glider per tile of 16 x 16 cells, at a place that the seed chooses. All fly in the same
 * direction at the same speed, so none ever meets another, and the whole board is known for every generation: the
 * glider's phase is generation modulo 4, and each 4 generations move it one cell down and right.
 */
#include "common.h"

static const struct workload workload = {
   .name = "life",
   .about = "Conway's life on a torus, bands of rows",
   .size_is = "rows and columns, a multiple of 16",
   .iterations_is = "generations",
   .size = 256, .min_size = 16, .max_size = 65536,
   .iterations = 14,
};

enum { TILE = 16, ROOM = 10, GLIDER = 5, PHASES = 4 };

/* The cells of a glider in each phase, (row, column). */
static const int glider[PHASES][GLIDER][2] = {
   {{0, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}},
   {{1, 0}, {1, 2}, {2, 1}, {2, 2}, {3, 1}},
   {{1, 2}, {2, 0}, {2, 2}, {3, 1}, {3, 2}},
   {{1, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}},
};

/* The cells of one band of rows, a generation on. Called by all threads. */
static void step(const int *from, int *to, long n)
{
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++) {
      const int *row = from + i * n;
      const int *up = from + (i == 0 ? n - 1 : i - 1) * n, *down = from + (i == n - 1 ? 0 : i + 1) * n;
      for (long j = 0; j < n; j++) {
         long left = j == 0 ? n - 1 : j - 1, right = j == n - 1 ? 0 : j + 1;
         int neighbours = up[left] + up[j] + up[right] + row[left] + row[right] + down[left] + down[j] + down[right];
         to[i * n + j] = neighbours == 3 || (neighbours == 2 && row[j]);
      }
   }
}

/* Adds `value` to each cell that is alive in the given generation. */
static void add_gliders(int *board, long n, uint64_t seed, long generation, int value)
{
   const int(*shape)[2] = glider[generation % PHASES];
   long moved = generation / PHASES;
   for (long tile_row = 0; tile_row < n; tile_row += TILE)
      for (long tile_column = 0; tile_column < n; tile_column += TILE) {
         uint64_t place = random_bits(seed, (uint64_t)(tile_row * n + tile_column));
         long row = tile_row + (long)(place % ROOM), column = tile_column + (long)(place / ROOM % ROOM);
         for (int c = 0; c < GLIDER; c++)
            board[(row + shape[c][0] + moved) % n * n + (column + shape[c][1] + moved) % n] += value;
      }
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size;
   if (n % TILE != 0)
      usage_error(&workload, "-n is %ld, expected a multiple of %d", n, TILE);
   int *board[2] = {new_pages((size_t)(n * n), sizeof(int)), new_pages((size_t)(n * n), sizeof(int))};
#pragma omp parallel for schedule(static)
   for (long i = 0; i < n * n; i++)
      board[0][i] = board[1][i] = 0;
   add_gliders(board[0], n, o.seed, 0, 1);

   double start = section_begin();
#pragma omp parallel
   for (long generation = 0; generation < o.iterations; generation++) {
      step(board[generation % 2], board[(generation + 1) % 2], n);
      end_iteration();
   }
   double seconds = section_end(start);

   int *last = board[o.iterations % 2];
   long alive = 0, wrong = 0;
   for (long i = 0; i < n * n; i++)
      alive += last[i];
   add_gliders(last, n, o.seed, o.iterations, -1); /* leaves nothing */
   for (long i = 0; i < n * n; i++)
      wrong += last[i] != 0;
   free(board[0]);
   free(board[1]);
   return report(&workload, &o, seconds, wrong == 0, "alive=%ld", alive);
}
