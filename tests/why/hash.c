// Buckets that all threads update at random. Planted: they are all on the node of the thread that cleared them.
#include "section.h"
#include <stdio.h>
#include <string.h>
#define BUCKETS (1 << 18)
static long buckets[BUCKETS];

int main(void)
{
   memset(buckets, 0, sizeof buckets);
   section_begin();
#pragma omp parallel for schedule(static)
   for (int i = 0; i < 1000000; i++) {
      unsigned at = (i + 1) * 2654435761u;
      __atomic_fetch_add(&buckets[(at ^ at >> 13) % BUCKETS], 1, __ATOMIC_RELAXED);
   }
   section_end();
   printf("%ld\n", buckets[7]);
   return 0;
}
