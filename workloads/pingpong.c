/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pingpong: a test oracle of order. A token goes round the threads (mutex and condition variables); whoever has it
 * reads and writes every word of a few shared pages. In any order of references that respects synchronisation, a page
 * has exactly one page run for each turn, with 1024 references (T >= 2 threads, one on each node):
 *
 *   page runs    n ITERATIONS
 *   references   512 n (2 ITERATIONS + 1): one more read of every word by the last holder, in its last turn
 *
 * A recorder or a merge that lets two turns overlap shows more runs.
 *
 * Check: every word counts the turns.
 */
#include "common.h"
#include <pthread.h>

static const struct workload workload = {
   .name = "pingpong",
   .about = "threads take turns on shared pages; the page runs are known",
   .size_is = "pages",
   .iterations_is = "turns in all",
   .size = 4, .min_size = 1, .max_size = 1L << 20,
   .iterations = 1200,
};

enum { WORDS_A_PAGE = PAGE / sizeof(uint64_t) };

static struct {
   pthread_mutex_t lock;
   pthread_cond_t passed;
   long turn; /* the next one to be taken */
} token = {.lock = PTHREAD_MUTEX_INITIALIZER, .passed = PTHREAD_COND_INITIALIZER};

static void wait_for(long turn)
{
   pthread_mutex_lock(&token.lock);
   while (token.turn != turn)
      pthread_cond_wait(&token.passed, &token.lock);
   pthread_mutex_unlock(&token.lock);
}

static void pass_on(void)
{
   pthread_mutex_lock(&token.lock);
   token.turn++;
   pthread_cond_broadcast(&token.passed);
   pthread_mutex_unlock(&token.lock);
}

static void touch(volatile uint64_t *memory, long words)
{
   for (long i = 0; i < words; i++)
      memory[i] = memory[i] + 1;
}

static long count_wrong(const volatile uint64_t *memory, long words, uint64_t expected)
{
   long wrong = 0;
   for (long i = 0; i < words; i++)
      wrong += memory[i] != expected;
   return wrong;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long words = o.size * WORDS_A_PAGE, wrong = 0;
   uint64_t *shared = zero_pages(o.size);

   double start = section_begin();
#pragma omp parallel reduction(+ : wrong)
   for (long turn = omp_get_thread_num(); turn < o.iterations; turn += omp_get_num_threads()) {
      wait_for(turn);
      touch(shared, words);
      if (turn == o.iterations - 1)
         wrong += count_wrong(shared, words, (uint64_t)o.iterations);
      pass_on();
   }
   double seconds = section_end(start);
   long references = words * (2 * o.iterations + 1);
   return report(&workload, &o, seconds, wrong == 0, "pages=%ld references=%ld page_runs=%ld", o.size, references,
                 o.size * (o.threads > 1 ? o.iterations : 1));
}
