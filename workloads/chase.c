/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * chase: pointer chasing through one random cycle of cache lines.
 *
 * The cycle visits every line once. In each round the threads walk it in equal shares, every thread going on from
 * where it stopped, so that after as many rounds as there are threads each has seen every line. Pages are read-shared
 * at random and never written after their start by thread 0: only replication helps, and under first touch they all
 * lie on one node.
 *
 * References to the lines in the walk: 2 for each of n * ITERATIONS steps, whatever the number of threads.
 *
 * Check: the numbers of the lines seen in a round add up to n (n - 1) / 2, and every thread ends a round where the
 * next thread began it.
 */
#include "common.h"

static const struct workload workload = {
   .name = "chase",
   .about = "pointer chase through one random cycle, read-shared",
   .size_is = "lines of 64 bytes",
   .iterations_is = "rounds through the cycle",
   .size = 32768, .min_size = 2, .max_size = 1L << 31,
   .iterations = 100,
};

struct line {
   struct line *next;
   uint64_t number;
   uint64_t unused[6];
};

/* Links the lines in a random order, and leaves in begin[t] the line where part t of the cycle begins. */
static void link_lines(struct line *line, long n, uint64_t seed, struct line **begin, long parts)
{
   uint32_t *order = new_pages((size_t)n, sizeof *order);
   for (long i = 0; i < n; i++) {
      long j = (long)(random_bits(seed, (uint64_t)i) % (uint64_t)(i + 1));
      order[i] = order[j]; /* Fisher and Yates, inside out */
      order[j] = (uint32_t)i;
   }
   for (long i = 0; i < n; i++) {
      line[order[i]].next = &line[order[(i + 1) % n]];
      line[order[i]].number = order[i];
   }
   for (long t = 0; t < parts; t++)
      begin[t] = &line[order[part_start(n, t, parts)]];
   free(order);
}

/* Walks a number of steps; adds up the numbers on the way. */
static uint64_t walk(const struct line **place, long steps)
{
   const struct line *at = *place;
   uint64_t sum = 0;
   for (long i = 0; i < steps; i++) {
      sum += at->number;
      at = at->next;
   }
   *place = at;
   return sum;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size, parts = o.threads, astray = 0;
   uint64_t sum = 0;
   struct line *line = new_pages((size_t)n, sizeof *line);
   struct line **begin = new_pages((size_t)parts, sizeof *begin);
   link_lines(line, n, o.seed, begin, parts);

   double start = section_begin();
#pragma omp parallel reduction(+ : sum, astray)
   {
      long part = omp_get_thread_num();
      const struct line *at = begin[part];
      for (long round = 0; round < o.iterations; round++) {
         sum += walk(&at, part_start(n, part + 1, parts) - part_start(n, part, parts));
         part = (part + 1) % parts;
         astray += at != begin[part];
      }
   }
   double seconds = section_end(start);
   bool ok = astray == 0 && sum == (uint64_t)o.iterations * ((uint64_t)n * (uint64_t)(n - 1) / 2);
   free(line);
   free(begin);
   return report(&workload, &o, seconds, ok, "sum=%llu astray=%ld", (unsigned long long)sum, astray);
}
