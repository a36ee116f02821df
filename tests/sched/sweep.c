/* A malleable program with OpenMP: it sweeps an array forth and back, in two parallel regions an iteration, on as many
 * threads as the runtime gives it each time. It prints a sum that does not depend on them, and the numbers of threads
 * that it had, in the order in which they came.
 *
 *   sweep PAGES ITERATIONS [SERIAL] [ROUNDS] [FIXED]
 *     PAGES of 4 KiB; SERIAL: share of the work in per cent that one thread does alone; ROUNDS over the array in a
 *     region; FIXED: threads that it fixes for each region
 */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef MARKS /* the ends of its iterations, for `homing sched model` */
#include "homing.h"
#else
static void homing_iteration(void) {}
#endif

enum { WORDS = 4096 / sizeof(double), CHANGES = 64 };

static double *from, *to;
static long words;

static void sweep(double *out, const double *in, long begin, long end)
{
   for (long i = begin; i < end; i++)
      out[i] = 0.5 * (in[i] + in[i + 1 < words ? i + 1 : 0]);
}

int main(int count, char **argument)
{
   long pages = count > 1 ? atol(argument[1]) : 256, iterations = count > 2 ? atol(argument[2]) : 100;
   long serial = count > 3 ? atol(argument[3]) : 0, rounds = count > 4 ? atol(argument[4]) : 1;
   int fixed = count > 5 ? atoi(argument[5]) : 0, teams[CHANGES], changes = 0, team = 0;
   words = pages * WORDS;
   from = malloc(sizeof *from * (size_t)words);
   to = malloc(sizeof *to * (size_t)words);
   if (!from || !to || pages < 1)
      return 2;
#pragma omp parallel for schedule(static)
   for (long i = 0; i < words; i++)
      from[i] = (double)(i % 16), to[i] = 0;
   for (long iteration = 0; iteration < iterations; iteration++) {
      if (fixed) {
#pragma omp parallel num_threads(fixed)
#pragma omp single
         team = omp_get_num_threads();
      }
      long alone = words / 100 * serial;
      for (long round = 0; round < rounds; round++)
         sweep(to, from, 0, alone);
#pragma omp parallel if (!fixed)
      {
#pragma omp single
         team = fixed ? team : omp_get_num_threads();
         for (long round = 0; round < rounds; round++) {
#pragma omp for schedule(static)
            for (long page = alone / WORDS; page < pages; page++)
               sweep(to, from, page * WORDS, (page + 1) * WORDS);
         }
      }
#pragma omp parallel for schedule(static) if (!fixed)
      for (long page = 0; page < pages; page++)
         sweep(from, to, page * WORDS, (page + 1) * WORDS);
      homing_iteration();
      if ((changes == 0 || teams[changes - 1] != team) && changes < CHANGES)
         teams[changes++] = team;
   }
   double sum = 0;
   for (long i = 0; i < words; i++)
      sum += from[i];
   printf("sum %.6g teams", sum / (double)words);
   for (int i = 0; i < changes; i++)
      printf(" %d", teams[i]);
   printf("\n");
   return 0;
}
