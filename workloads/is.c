/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * is: integer sort by buckets and counting, after NAS IS: the keys are ranked anew in each iteration.
 *
 * Each thread counts its band of keys, scatters it into buckets that belong to others (random writes: migratory and
 * write-shared pages), then counts the keys of its own buckets.
 *
 * Check: every key, put where its rank says, gives an array that is in order, has no gap, and adds up to the same sums.
 */
#include "common.h"

static const struct workload workload = {
   .name = "is",
   .about = "integer sort: ranks by buckets and counting",
   .size_is = "keys",
   .iterations_is = "rankings",
   .size = 131072, .min_size = 16, .max_size = 1L << 30,
   .iterations = 5,
};

enum { BUCKETS = 256, VALUES_A_BUCKET = 64, VALUES = BUCKETS * VALUES_A_BUCKET };

/* All that the threads share. `offset` has a row for each thread: where it writes its next key of each bucket. */
struct state {
   long n;
   int threads;
   int32_t *keys, *scattered;
   int64_t *offset;
   int64_t *bucket_start; /* BUCKETS + 1 */
   int64_t *rank;         /* of each value: the keys smaller than it, plus one past the end */
};

/* The mean of four uniform numbers, as in NAS IS: the middle buckets are the fullest. */
static int32_t key_at(uint64_t seed, long i)
{
   double sum = 0;
   for (uint64_t k = 0; k < 4; k++)
      sum += random_unit(seed, (uint64_t)i * 4 + k);
   return (int32_t)(sum / 4 * VALUES);
}

static int bucket_of(int32_t key)
{
   return key / VALUES_A_BUCKET;
}

/* Each thread counts its keys by bucket; one turns the counts into places to write to. Called by all threads. */
static void plan(struct state *s)
{
   long thread = omp_get_thread_num();
   int64_t *mine = s->offset + thread * BUCKETS;
   for (int b = 0; b < BUCKETS; b++)
      mine[b] = 0;
   for (long i = part_start(s->n, thread, s->threads); i < part_start(s->n, thread + 1, s->threads); i++)
      mine[bucket_of(s->keys[i])]++;
#pragma omp barrier
#pragma omp single
   {
      int64_t place = 0;
      for (int b = 0; b < BUCKETS; b++) {
         s->bucket_start[b] = place;
         for (int t = 0; t < s->threads; t++) {
            int64_t count = s->offset[t * BUCKETS + b];
            s->offset[t * BUCKETS + b] = place;
            place += count;
         }
      }
      s->bucket_start[BUCKETS] = place;
   }
}

/* Called by all threads. */
static void scatter(struct state *s)
{
   long thread = omp_get_thread_num();
   int64_t *mine = s->offset + thread * BUCKETS;
   for (long i = part_start(s->n, thread, s->threads); i < part_start(s->n, thread + 1, s->threads); i++) {
      int32_t key = s->keys[i];
      s->scattered[mine[bucket_of(key)]++] = key;
   }
#pragma omp barrier
}

/* The ranks of all values, bucket by bucket. Called by all threads. */
static void count(struct state *s)
{
#pragma omp for schedule(static)
   for (int b = 0; b < BUCKETS; b++) {
      int64_t *rank = s->rank + b * VALUES_A_BUCKET, smaller = s->bucket_start[b];
      for (int v = 0; v < VALUES_A_BUCKET; v++)
         rank[v] = 0;
      for (int64_t i = s->bucket_start[b]; i < s->bucket_start[b + 1]; i++)
         rank[s->scattered[i] - b * VALUES_A_BUCKET]++;
      for (int v = 0; v < VALUES_A_BUCKET; v++) {
         int64_t equal = rank[v];
         rank[v] = smaller;
         smaller += equal;
      }
   }
}

/* Puts each key where its rank says, and looks at the outcome. Overwrites rank and scattered. */
static bool ranks_are_right(struct state *s)
{
   uint64_t sums[2] = {0, 0}, squares[2] = {0, 0};
   bool ok = true;
   for (long i = 0; i < s->n; i++)
      s->scattered[i] = -1;
   for (long i = 0; i < s->n && ok; i++) {
      int64_t place = s->rank[s->keys[i]]++;
      ok = place >= 0 && place < s->n;
      if (ok)
         s->scattered[place] = s->keys[i];
   }
   for (long i = 0; i < s->n; i++) {
      uint64_t before = (uint64_t)s->keys[i], after = (uint64_t)(int64_t)s->scattered[i];
      ok = ok && s->scattered[i] >= (i > 0 ? s->scattered[i - 1] : 0);
      sums[0] += before;
      sums[1] += after;
      squares[0] += before * before;
      squares[1] += after * after;
   }
   return ok && sums[0] == sums[1] && squares[0] == squares[1];
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size;
   struct state s = {
      .n = n,
      .keys = new_pages((size_t)n, sizeof *s.keys),
      .scattered = new_pages((size_t)n, sizeof *s.scattered),
      .offset = new_pages((size_t)o.threads * BUCKETS, sizeof *s.offset),
      .bucket_start = new_pages(BUCKETS + 1, sizeof *s.bucket_start),
      .rank = new_pages(VALUES, sizeof *s.rank),
   };
   double start = section_begin();
#pragma omp parallel
   {
#pragma omp single
      s.threads = omp_get_num_threads();
#pragma omp for schedule(static)
      for (long i = 0; i < n; i++)
         s.keys[i] = key_at(o.seed, i);
      for (long iteration = 0; iteration < o.iterations; iteration++) {
         /* As in NAS IS, a key changes before each ranking. */
#pragma omp single
         s.keys[iteration % n] = (int32_t)(random_bits(~o.seed, (uint64_t)iteration) % VALUES);
         plan(&s);
         scatter(&s);
         count(&s);
#pragma omp master
         end_iteration();
      }
   }
   double seconds = section_end(start);
   long middle = (long)s.rank[VALUES / 2];
   bool ok = ranks_are_right(&s);
   free(s.keys);
   free(s.scattered);
   free(s.offset);
   free(s.bucket_start);
   free(s.rank);
   return report(&workload, &o, seconds, ok, "below_middle=%ld", middle);
}
