// A counter for each thread. Planted: they lie in one line (-DFIXED: in a line each).
#include "section.h"
#include <omp.h>
#include <stdio.h>
#ifdef FIXED
struct counter { volatile long count; char pad[56]; };
#else
struct counter { volatile long count; };
#endif
static struct counter counters[64] __attribute__((aligned(64)));

int main(void)
{
   section_begin();
#pragma omp parallel for schedule(static)
   for (int i = 0; i < 400000; i++)
      counters[omp_get_thread_num()].count++;
   section_end();
   printf("%ld\n", counters[1].count);
   return 0;
}
