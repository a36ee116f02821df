/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * ep: pairs of Gaussian deviates by the polar method, tallied by the square ring they fall into, as in NAS EP. Each
 * thread makes its batches in a buffer of its own that stays in its cache: hardly any page, hardly any miss.
 *
 * Check: the numbers are those of the seed whatever the number of threads; the tally is complete; mean and variance of
 * the deviates are near 0 and 1.
 */
#include "common.h"

static const struct workload workload = {
   .name = "ep",
   .about = "Gaussian deviates, tallied",
   .size_is = "pairs of numbers in a batch",
   .iterations_is = "batches for all threads together",
   .size = 1024, .min_size = 64, .max_size = 1 << 20,
   .iterations = 400,
   .init = true,
};

enum { RINGS = 10 };

struct tally {
   uint64_t rings[RINGS], pairs;
   double sum, squares;
};

/* A batch of pairs in (-1, 1), then the deviates of those in the unit circle. */
static void batch(const struct options *o, long number, double *numbers, struct tally *tally)
{
   for (long i = 0; i < 2 * o->size; i++)
      numbers[i] = 2 * random_unit(o->seed, (uint64_t)(2 * o->size * number + i)) - 1;
   for (long i = 0; i < o->size; i++) {
      double x = numbers[2 * i], y = numbers[2 * i + 1], square = x * x + y * y;
      if (square >= 1 || square == 0)
         continue;
      double scale = sqrt(-2 * log(square) / square);
      x *= scale;
      y *= scale;
      long ring = (long)fmax(fabs(x), fabs(y));
      tally->rings[ring < RINGS ? ring : RINGS - 1]++;
      tally->pairs++;
      tally->sum += x + y;
      tally->squares += x * x + y * y;
   }
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   size_t each = ((size_t)o.size * 2 * sizeof(double) + PAGE - 1) / PAGE * PAGE;
   char *buffers = data_pages(&o, (size_t)o.threads, each);
   struct tally all = {0};
   double start = section_begin();
#pragma omp parallel
   {
      struct tally mine = {0};
      double *numbers = (double *)(buffers + (size_t)omp_get_thread_num() * each);
#pragma omp for schedule(static)
      for (long number = 0; number < o.iterations; number++)
         batch(&o, number, numbers, &mine);
#pragma omp critical
      {
         for (int ring = 0; ring < RINGS; ring++)
            all.rings[ring] += mine.rings[ring];
         all.pairs += mine.pairs;
         all.sum += mine.sum;
         all.squares += mine.squares;
      }
   }
   double seconds = section_end(start);
   free(buffers);
   uint64_t tallied = 0;
   for (int ring = 0; ring < RINGS; ring++)
      tallied += all.rings[ring];
   double deviates = 2 * (double)all.pairs, spread = 5 / sqrt(deviates);
   double mean = all.sum / deviates, variance = all.squares / deviates;
   bool ok = tallied == all.pairs && fabs(mean) < spread && fabs(variance - 1) < 2 * spread;
   return report(&workload, &o, seconds, ok, "pairs=%llu first=%llu second=%llu", (unsigned long long)all.pairs,
                 (unsigned long long)all.rings[0], (unsigned long long)all.rings[1]);
}
