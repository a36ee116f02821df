/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the sorting programs share: keys from a seed, the check, the serial merge sort, and the frame of a parallel
 * one: every thread sorts its block, then runs are merged in phases with a barrier between them.
 */
#ifndef WORKLOADS_SORTING_H
#define WORKLOADS_SORTING_H

#include "common.h"

static inline uint64_t key_at(uint64_t seed, long i)
{
   return random_bits(seed, (uint64_t)i);
}

/* Merges two sorted runs into `to`. */
static inline void merge(const uint64_t *a, long na, const uint64_t *b, long nb, uint64_t *to)
{
   long i = 0, j = 0;
   while (i < na && j < nb)
      *to++ = a[i] <= b[j] ? a[i++] : b[j++];
   while (i < na)
      *to++ = a[i++];
   while (j < nb)
      *to++ = b[j++];
}

/* Bottom-up merge sort of n keys, with room for n more; the result is in `keys`. */
static inline void merge_sort(uint64_t *keys, uint64_t *room, long n)
{
   uint64_t *from = keys, *to = room;
   for (long width = 1; width < n; width *= 2) {
      for (long low = 0; low < n; low += 2 * width) {
         long middle = low + width < n ? low + width : n;
         long high = low + 2 * width < n ? low + 2 * width : n;
         merge(from + low, middle - low, from + middle, high - middle, to + low);
      }
      uint64_t *swap = from;
      from = to;
      to = swap;
   }
   if (from != keys)
      memcpy(keys, from, (size_t)n * sizeof *keys);
}

/* Whether the keys are in order and are the keys of the seed: same sum, same sum of a hash of each. */
static inline bool sorted_and_complete(const uint64_t *keys, long n, uint64_t seed, int threads)
{
   long disorder = 0;
   uint64_t sum = 0, hashes = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : disorder, sum, hashes)
   for (long i = 0; i < n; i++) {
      uint64_t key = key_at(seed, i);
      disorder += i > 0 && keys[i - 1] > keys[i];
      sum += keys[i] - key;
      hashes += random_bits(~seed, keys[i]) - random_bits(~seed, key);
   }
   return disorder == 0 && sum == 0 && hashes == 0;
}

/* Thread `thread`'s part of one phase of a parallel merge sort: runs of `step` blocks become runs of twice that. */
typedef void merge_phase(const uint64_t *from, uint64_t *to, long n, long step, long thread, long threads);

/* Sorts the keys of the seed; returns the array that holds them. */
static inline uint64_t *parallel_merge_sort(uint64_t *keys, uint64_t *room, long n, uint64_t seed, merge_phase *phase)
{
   uint64_t *result = NULL;
#pragma omp parallel
   {
      long thread = omp_get_thread_num(), threads = omp_get_num_threads();
      long low = part_start(n, thread, threads), high = part_start(n, thread + 1, threads);
      uint64_t *from = keys, *to = room;
      for (long i = low; i < high; i++)
         from[i] = key_at(seed, i);
      merge_sort(from + low, to + low, high - low);
      for (long step = 1; step < threads; step *= 2) {
#pragma omp barrier
         phase(from, to, n, step, thread, threads);
         uint64_t *swap = from;
         from = to;
         to = swap;
      }
      if (thread == 0)
         result = from;
   }
   return result;
}

/* The whole program of a parallel merge sort. */
static inline int run_merge_sort(const struct workload *w, int argc, char **argv, merge_phase *phase)
{
   struct options o = parse_options(w, argc, argv);
   long n = o.size;
   uint64_t *keys = new_pages((size_t)n, sizeof *keys), *room = new_pages((size_t)n, sizeof *room);
   double seconds = 0;
   uint64_t median = 0;
   bool ok = true;
   for (long array = 0; array < o.iterations; array++) {
      uint64_t seed = random_bits(o.seed, (uint64_t)array);
      double start = section_begin();
      uint64_t *result = parallel_merge_sort(keys, room, n, seed, phase);
      end_iteration();
      seconds += section_end(start);
      ok = ok && sorted_and_complete(result, n, seed, o.threads);
      median = result[n / 2];
   }
   free(keys);
   free(room);
   return report(w, &o, seconds, ok, "median=%llu", (unsigned long long)median);
}

#endif
