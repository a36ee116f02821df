/* Sums an array in parallel on a resource set: its memory is striped over the nodes of the set, and a team of threads,
 * one bound to each CPU, works on it.
 *
 *    cc team.c $(pkg-config --cflags --libs homing)
 *    ./a.out 'node:0-1'
 */
#include <homing/runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 1000000, STRIDE = 65536, MOST = 4096 };

static uint64_t *numbers, sums[MOST];
static unsigned threads;

static void work(unsigned thread, void *argument)
{
   (void)argument;
   for (uint64_t i = thread; i < WORDS; i += threads)
      sums[thread] += numbers[i];
}

static int fail(const char *what)
{
   char why[1024];
   homing_reason(why, sizeof why);
   fprintf(stderr, "%s: %s\n", what, why);
   return 1;
}

int main(int argc, char **argv)
{
   struct homing_rset *set;
   if (homing_rset_open(argc > 1 ? argv[1] : "all", &set) != HOMING_OK)
      return fail("homing_rset_open");
   struct homing_rset_facts facts = {.size = sizeof facts};
   homing_rset_query(set, &facts);
   printf("homing: %llu CPUs, %llu nodes\n", (unsigned long long)facts.cpus, (unsigned long long)facts.nodes);
   threads = facts.cpus < MOST ? (unsigned)facts.cpus : MOST;

   /* A container may forbid memory policies: then any memory does. */
   numbers = homing_rset_alloc(set, WORDS * sizeof *numbers, HOMING_STRIPED, STRIDE);
   uint64_t *placed = numbers;
   if (!placed)
      fail("homing_rset_alloc"), numbers = malloc(WORDS * sizeof *numbers);
   if (!numbers)
      return 1;
   for (uint64_t i = 0; i < WORDS; i++)
      numbers[i] = i;
   if (homing_team_run(set, HOMING_FILL, threads, work, NULL) != HOMING_OK)
      return fail("homing_team_run");

   uint64_t sum = 0;
   for (unsigned thread = 0; thread < threads; thread++)
      sum += sums[thread];
   printf("sum %llu\n", (unsigned long long)sum);
   if (placed)
      homing_rset_free(placed);
   homing_rset_close(set);
   return 0;
}
