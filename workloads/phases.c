/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * phases: a test oracle. Each thread sweeps a block of pages; ownership rotates in every phase. What any placement
 * costs is known in closed form (T threads, one on each node; n pages a block; P phases; T >= 2):
 *
 *   pages            T n
 *   words            512 T n, each 8 bytes
 *   references       words (2 SWEEPS P + 1): in each sweep a read and a write of every word, in order, and one more
 *                    read of every word, by its last owner, at the end of the last phase
 *   page runs        T n P: one for each page and phase
 *   references of one run   m = 1024 SWEEPS, and 512 more in the last phase
 *
 * In the reference model of Bolosky & Scott with remote cost r, page move R and no replication, a page has owners in
 * the order t, t-1, t-2, ... (modulo T). If R <= (r - 1) m, the best is to follow the owner:
 *   cost = references + T n (P - 1) R.
 * With P <= T every run has another owner; if moreover R >= (r - 1) m, the best is to stay at the last owner's node:
 *   cost = references + T n (P - 1) (r - 1) m.
 * First touch stays with the first owner: T n (r - 1) ((P - 1) m + 512) more than the references when 2 <= P <= T.
 * Replication changes nothing, since every page is written in every sweep.
 *
 * Accesses are volatile: no compiler merges or drops any. Check: every word counts its sweeps.
 */
#include "common.h"

static const struct workload workload = {
   .name = "phases",
   .about = "blocks of pages whose owners rotate; the optimum is known",
   .size_is = "pages of each thread's block",
   .iterations_is = "phases",
   .size = 32, .min_size = 1, .max_size = 1L << 20,
   .iterations = 8,
};

enum { SWEEPS = 8, WORDS_A_PAGE = PAGE / sizeof(uint64_t) };

static void sweep(volatile uint64_t *block, long words)
{
   for (long i = 0; i < words; i++)
      block[i] = block[i] + 1;
}

static long count_wrong(const volatile uint64_t *block, long words, uint64_t expected)
{
   long wrong = 0;
   for (long i = 0; i < words; i++)
      wrong += block[i] != expected;
   return wrong;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long words = o.size * WORDS_A_PAGE, threads = o.threads, wrong = 0;
   uint64_t *blocks = zero_pages(threads * o.size);

   double start = section_begin();
#pragma omp parallel reduction(+ : wrong)
   {
      long thread = omp_get_thread_num();
      uint64_t *block = blocks;
      for (long phase = 0; phase < o.iterations; phase++) {
         block = blocks + (thread + phase) % threads * words;
         for (int s = 0; s < SWEEPS; s++)
            sweep(block, words);
#pragma omp barrier
#pragma omp master
         end_iteration();
      }
      wrong += count_wrong(block, words, (uint64_t)(o.iterations * SWEEPS));
   }
   double seconds = section_end(start);
   long references = threads * words * (2 * SWEEPS * o.iterations + 1);
   long runs = threads * o.size * (threads > 1 ? o.iterations : 1);
   return report(&workload, &o, seconds, wrong == 0, "pages=%ld references=%ld page_runs=%ld", threads * o.size,
                 references, runs);
}
