/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * bsort: "a simple merge sort program in which half of the processors drop out in each phase" (Bolosky & Scott 1991,
 * section 4.1.2).
 *
 * Every thread sorts its block by itself; then, in each phase, the first thread of each pair of runs merges both. A
 * page of the second run is read by a thread that never saw it, and all the data end with thread 0.
 *
 * Check: the keys are in order and are those that were made.
 */
#include "sorting.h"

static const struct workload workload = {
   .name = "bsort",
   .about = "merge sort in which half of the threads drop out in each phase",
   .size_is = "keys",
   .iterations_is = "arrays sorted, one after the other",
   .size = 131072, .min_size = 1, .max_size = 1L << 32,
   .iterations = 1,
};

/* Thread `thread`'s part of one phase: runs of `step` blocks become runs of twice that. */
static void drop_out(const uint64_t *from, uint64_t *to, long n, long step, long thread, long threads)
{
   if (thread % (2 * step) != 0)
      return; /* dropped out */
   long second = thread + step < threads ? thread + step : threads;
   long last = thread + 2 * step < threads ? thread + 2 * step : threads;
   long low = part_start(n, thread, threads), middle = part_start(n, second, threads);
   long high = part_start(n, last, threads);
   merge(from + low, middle - low, from + middle, high - middle, to + low);
}

int main(int argc, char **argv)
{
   return run_merge_sort(&workload, argc, argv, drop_out);
}
