/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * qsort: parallel quicksort with one task queue (the suite's p-qsort; Bolosky & Scott 1991, section 4.1.2), on POSIX
 * threads.
 *
 * Whoever is idle takes the newest segment: the pages of a segment go from thread to thread as it is divided
 * (migratory data), and which thread gets which segment differs from run to run. The queue itself is write-shared.
 *
 * Check: the keys are in order and are those that were made.
 */
#include "sorting.h"
#include <pthread.h>

static const struct workload workload = {
   .name = "qsort",
   .about = "parallel quicksort with a task queue",
   .size_is = "keys",
   .iterations_is = "arrays sorted, one after the other",
   .size = 196608, .min_size = 1, .max_size = 1L << 32,
   .iterations = 1,
};

enum {
   ALONE = 2048,  /* a segment of at most this many keys is sorted without the queue */
   SIMPLE = 16,   /* and one of at most this many by insertion */
   MAX_TASKS = 64 * MAX_THREADS
};

struct segment {
   uint64_t *keys;
   long n;
};

/* A stack of segments. Sorting is over when it is empty and nobody works. */
static struct {
   pthread_mutex_t lock;
   pthread_cond_t changed;
   long tasks, working;
   struct segment task[MAX_TASKS];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Hoare's partition around the median of three, for n > 2: the number of keys in the lower part. It is at least 1 and
 * less than n, since the median has a key beside it that is not smaller, and one that is not larger. */
static long partition(uint64_t *keys, long n)
{
   uint64_t a = keys[0], b = keys[n / 2], c = keys[n - 1];
   uint64_t low = a < b ? a : b, high = a < b ? b : a;
   uint64_t pivot = c < low ? low : c < high ? c : high;
   long i = -1, j = n;
   for (;;) {
      do
         i++;
      while (keys[i] < pivot);
      do
         j--;
      while (keys[j] > pivot);
      if (i >= j)
         return j + 1;
      uint64_t swap = keys[i];
      keys[i] = keys[j];
      keys[j] = swap;
   }
}

static void insertion_sort(uint64_t *keys, long n)
{
   for (long i = 1; i < n; i++) {
      uint64_t key = keys[i];
      long j = i;
      for (; j > 0 && keys[j - 1] > key; j--)
         keys[j] = keys[j - 1];
      keys[j] = key;
   }
}

/* Sorts without the queue: recursion on the smaller part, iteration on the larger. */
static void sort_alone(uint64_t *keys, long n)
{
   while (n > SIMPLE) {
      long lower = partition(keys, n);
      if (lower < n - lower) {
         sort_alone(keys, lower);
         keys += lower;
         n -= lower;
      } else {
         sort_alone(keys + lower, n - lower);
         n = lower;
      }
   }
   insertion_sort(keys, n);
}

/* Waits for a task; false when sorting is over. */
static bool take(struct segment *s)
{
   pthread_mutex_lock(&queue.lock);
   while (queue.tasks == 0 && queue.working > 0)
      pthread_cond_wait(&queue.changed, &queue.lock);
   bool got = queue.tasks > 0;
   if (got) {
      *s = queue.task[--queue.tasks];
      queue.working++;
   }
   pthread_mutex_unlock(&queue.lock);
   return got;
}

/* Puts a segment on the queue, or returns false when the queue is full. */
static bool give(uint64_t *keys, long n)
{
   pthread_mutex_lock(&queue.lock);
   bool room = queue.tasks < MAX_TASKS;
   if (room) {
      queue.task[queue.tasks++] = (struct segment){keys, n};
      pthread_cond_signal(&queue.changed);
   }
   pthread_mutex_unlock(&queue.lock);
   return room;
}

static void finish(void)
{
   pthread_mutex_lock(&queue.lock);
   if (--queue.working == 0 && queue.tasks == 0)
      pthread_cond_broadcast(&queue.changed);
   pthread_mutex_unlock(&queue.lock);
}

static void *worker(void *unused)
{
   struct segment s;
   (void)unused;
   while (take(&s)) {
      while (s.n > ALONE) {
         long lower = partition(s.keys, s.n);
         if (!give(s.keys + lower, s.n - lower))
            sort_alone(s.keys + lower, s.n - lower);
         s.n = lower;
      }
      sort_alone(s.keys, s.n);
      finish();
   }
   return NULL;
}

static void sort(uint64_t *keys, long n, int threads)
{
   pthread_t *thread = new_pages((size_t)threads, sizeof *thread);
   give(keys, n);
   for (int t = 1; t < threads; t++)
      if (pthread_create(&thread[t], NULL, worker, NULL) != 0) {
         fprintf(stderr, "qsort: cannot start thread %d of %d\n", t, threads);
         exit(EXIT_FAILURE);
      }
   worker(NULL);
   for (int t = 1; t < threads; t++)
      pthread_join(thread[t], NULL);
   free(thread);
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size;
   uint64_t *keys = new_pages((size_t)n, sizeof *keys);
   double seconds = 0;
   uint64_t median = 0;
   bool ok = true;
   for (long array = 0; array < o.iterations; array++) {
      uint64_t seed = random_bits(o.seed, (uint64_t)array);
      for (long i = 0; i < n; i++)
         keys[i] = key_at(seed, i);
      double start = section_begin();
      sort(keys, n, o.threads);
      end_iteration();
      seconds += section_end(start);
      ok = ok && sorted_and_complete(keys, n, seed, 1); /* no OpenMP threads beside the workers */
      median = keys[n / 2];
   }
   free(keys);
   return report(&workload, &o, seconds, ok, "median=%llu", (unsigned long long)median);
}
