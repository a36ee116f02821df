/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * kmerge: "a merge sort program in which groups of processors cooperate in each merge step, thus keeping all
 * processors busy to the end of the computation" (Bolosky & Scott 1991, section 4.1.2).
 *
 * Every thread sorts its block by itself; then, in each phase, the threads of two neighbouring groups merge their two
 * runs together: each writes an equal share of the output and finds its inputs by bisection. A page is written by one
 * or two threads of a phase and read by others in the next.
 *
 * Check: the keys are in order and are those that were made.
 */
#include "sorting.h"

static const struct workload workload = {
   .name = "kmerge",
   .about = "merge sort in which groups of threads cooperate in each merge step",
   .size_is = "keys",
   .iterations_is = "arrays sorted, one after the other",
   .size = 131072, .min_size = 1, .max_size = 1L << 32,
   .iterations = 1,
};

/* How many of the first `rank` keys of the merged output come from a: the split that a serial merge would reach. */
static long split(const uint64_t *a, long na, const uint64_t *b, long nb, long rank)
{
   long low = rank > nb ? rank - nb : 0, high = rank < na ? rank : na;
   while (low < high) {
      long i = (low + high) / 2;
      if (a[i] <= b[rank - i - 1])
         low = i + 1;
      else
         high = i;
   }
   return low;
}

/* Thread `thread`'s share of one phase: runs of `step` blocks become runs of twice that. */
static void cooperate(const uint64_t *from, uint64_t *to, long n, long step, long thread, long threads)
{
   long first = thread / (2 * step) * (2 * step);
   long second = first + step < threads ? first + step : threads;
   long last = first + 2 * step < threads ? first + 2 * step : threads;
   long low = part_start(n, first, threads), middle = part_start(n, second, threads);
   long high = part_start(n, last, threads);
   const uint64_t *a = from + low, *b = from + middle;
   long na = middle - low, nb = high - middle;
   long begin = part_start(na + nb, thread - first, last - first);
   long end = part_start(na + nb, thread - first + 1, last - first);
   long a_begin = split(a, na, b, nb, begin), a_end = split(a, na, b, nb, end);
   merge(a + a_begin, a_end - a_begin, b + (begin - a_begin), (end - a_end) - (begin - a_begin), to + low + begin);
}

int main(int argc, char **argv)
{
   return run_merge_sort(&workload, argc, argv, cooperate);
}
