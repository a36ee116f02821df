/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * hashserver: a key-value server on POSIX threads. A dispatcher makes a deterministic mix of requests with Zipf keys
 * and hands them in batches to the worker that owns the key; a tenth goes to any worker. In every phase the ownership
 * of all key ranges shifts to the next worker.
 *
 * The table is loaded by the main thread, so under first touch all of it lies on one node. Then the pages of a key
 * range have one main user per phase and a few strays; hot pages are few; the queues are producer-consumer pages.
 *
 * Check: every request is served once and finds its key; the fields of an entry, changed together under a lock, always
 * agree; at the end the table holds exactly what the puts added.
 */
#include "common.h"
#include <pthread.h>

static const struct workload workload = {
   .name = "hashserver",
   .about = "hash-table server: batches of requests, Zipf keys, shifting owners",
   .size_is = "keys in the table",
   .iterations_is = "phases, with three requests a key in each",
   .size = 16384, .min_size = 256, .max_size = 1L << 26,
   .iterations = 4,
};

enum { FIELDS = 5, LOCKS = 256, RANGES = 64, BATCH = 32, RING = 8, REQUESTS_A_KEY = 3 };
enum { PUT_PERCENT = 20, STRAY_PERCENT = 10, NO_ENTRY = -1 };

/* The popularity of a key falls with its rank to the power 1 - 1 / ZIPF_ROOT = 0.9. */
enum { ZIPF_ROOT = 10 };

struct entry {
   uint64_t key;
   int64_t next; /* in its chain, or NO_ENTRY */
   uint64_t field[FIELDS];
   uint64_t unused;
};

struct request {
   uint64_t key;
   uint64_t add; /* 0: a get */
};

struct batch {
   long count;
   struct request request[BATCH];
};

/* A ring of batches for each worker. An empty batch tells the worker to end. */
struct queue {
   pthread_mutex_t lock;
   pthread_cond_t changed;
   long written, taken; /* batches since the start */
   struct batch ring[RING];
};

struct worker {
   pthread_t thread;
   struct queue queue;
   struct batch filling; /* the dispatcher's next batch for it */
   long served, missed, torn;
};

static struct {
   long chains;
   double widest_root; /* of keys + 1, for Zipf's distribution */
   int64_t *chain;     /* first entry of each */
   struct entry *entry;
   pthread_mutex_t lock[LOCKS];
} table;

static uint64_t chain_of(uint64_t key)
{
   return random_bits(0, key) & (uint64_t)(table.chains - 1);
}

static void load_table(long keys)
{
   table.widest_root = pow((double)keys + 1, 1.0 / ZIPF_ROOT);
   for (table.chains = 1; table.chains < keys; table.chains *= 2)
      continue;
   table.chain = new_pages((size_t)table.chains, sizeof *table.chain);
   table.entry = new_pages((size_t)keys, sizeof *table.entry);
   for (int l = 0; l < LOCKS; l++)
      pthread_mutex_init(&table.lock[l], NULL);
   for (long c = 0; c < table.chains; c++)
      table.chain[c] = NO_ENTRY;
   for (long k = 0; k < keys; k++) {
      uint64_t c = chain_of((uint64_t)k);
      table.entry[k] = (struct entry){.key = (uint64_t)k, .next = table.chain[c]};
      table.chain[c] = k;
   }
}

static void serve(struct worker *w, const struct request *r)
{
   uint64_t chain = chain_of(r->key);
   int64_t e = table.chain[chain];
   while (e != NO_ENTRY && table.entry[e].key != r->key)
      e = table.entry[e].next;
   w->served++;
   if (e == NO_ENTRY) {
      w->missed++;
      return;
   }
   uint64_t *field = table.entry[e].field;
   pthread_mutex_t *lock = &table.lock[chain % LOCKS];
   pthread_mutex_lock(lock);
   for (int f = 1; f < FIELDS; f++)
      w->torn += field[f] != field[0];
   for (int f = 0; f < FIELDS && r->add != 0; f++)
      field[f] += r->add;
   pthread_mutex_unlock(lock);
}

static void *work(void *argument)
{
   struct worker *w = argument;
   struct queue *q = &w->queue;
   struct batch batch;
   do {
      pthread_mutex_lock(&q->lock);
      while (q->written == q->taken)
         pthread_cond_wait(&q->changed, &q->lock);
      batch = q->ring[q->taken++ % RING];
      pthread_cond_signal(&q->changed);
      pthread_mutex_unlock(&q->lock);
      for (long i = 0; i < batch.count; i++)
         serve(w, &batch.request[i]);
   } while (batch.count > 0);
   return NULL;
}

/* Hands the batch that is being filled to its worker; waits for room. */
static void send(struct worker *w)
{
   struct queue *q = &w->queue;
   pthread_mutex_lock(&q->lock);
   while (q->written - q->taken == RING)
      pthread_cond_wait(&q->changed, &q->lock);
   q->ring[q->written++ % RING] = w->filling;
   pthread_cond_signal(&q->changed);
   pthread_mutex_unlock(&q->lock);
   w->filling.count = 0;
}

/* A key of Zipf's distribution (its continuous form, inverted), popular keys spread over the table. */
static uint64_t zipf_key(double u, long keys)
{
   double root = 1 + u * (table.widest_root - 1), rank = root;
   for (int power = 1; power < ZIPF_ROOT; power++)
      rank *= root;
   rank -= 1;
   uint64_t whole = (uint64_t)rank < (uint64_t)keys ? (uint64_t)rank : (uint64_t)keys - 1;
   return random_bits(0x21bf, whole) % (uint64_t)keys;
}

/* Makes the requests of one phase and sends them; returns what its puts add in all. */
static uint64_t dispatch(struct worker *worker, const struct options *o, long phase)
{
   long requests = REQUESTS_A_KEY * o->size;
   uint64_t added = 0;
   for (long i = 0; i < requests; i++) {
      uint64_t index = 3 * (uint64_t)(phase * requests + i), mix = random_bits(o->seed, index + 1);
      uint64_t key = zipf_key(random_unit(o->seed, index), o->size);
      uint64_t put = mix % 100 < PUT_PERCENT ? 1 + (mix >> 32) % 1000 : 0;
      long owner = ((long)key * RANGES / o->size * o->threads / RANGES + phase) % o->threads;
      if (mix / 100 % 100 < STRAY_PERCENT)
         owner = (long)(random_bits(o->seed, index + 2) % (uint64_t)o->threads);
      struct worker *w = &worker[owner];
      w->filling.request[w->filling.count++] = (struct request){key, put};
      added += put;
      if (w->filling.count == BATCH)
         send(w);
   }
   for (int t = 0; t < o->threads; t++)
      if (worker[t].filling.count > 0)
         send(&worker[t]);
   return added;
}

static void start_worker(struct worker *w, int number)
{
   memset(w, 0, sizeof *w);
   pthread_mutex_init(&w->queue.lock, NULL);
   pthread_cond_init(&w->queue.changed, NULL);
   if (pthread_create(&w->thread, NULL, work, w) != 0) {
      fprintf(stderr, "hashserver: cannot start worker %d\n", number);
      exit(EXIT_FAILURE);
   }
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   struct worker *worker = new_pages((size_t)o.threads, sizeof *worker);
   uint64_t added = 0, held = 0, digest = 0;
   long served = 0, missed = 0, torn = 0;

   double start = section_begin();
   load_table(o.size);
   for (int t = 0; t < o.threads; t++)
      start_worker(&worker[t], t);
   for (long phase = 0; phase < o.iterations; phase++)
      added += dispatch(worker, &o, phase);
   for (int t = 0; t < o.threads; t++) {
      send(&worker[t]); /* empty: the end */
      pthread_join(worker[t].thread, NULL);
      served += worker[t].served;
      missed += worker[t].missed;
      torn += worker[t].torn;
   }
   double seconds = section_end(start);

   for (long k = 0; k < o.size; k++) {
      held += table.entry[k].field[0];
      digest += random_bits(table.entry[k].key, table.entry[k].field[FIELDS - 1]);
   }
   bool ok = served == REQUESTS_A_KEY * o.size * o.iterations && missed == 0 && torn == 0 && held == added;
   free(table.chain);
   free(table.entry);
   free(worker);
   return report(&workload, &o, seconds, ok, "served=%ld table=%016llx missed=%ld torn=%ld", served,
                 (unsigned long long)digest, missed, torn);
}
