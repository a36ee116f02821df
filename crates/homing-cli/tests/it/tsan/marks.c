/* Five iterations of two phases over two arrays, the first used from either end in turn. */
#include "../../../../../include/homing.h"

enum { ITEMS = 4096 };
static double from[ITEMS], to[ITEMS];

int main(void)
{
   for (int step = 0; step < 5; step++) {
      homing_phase("fill");
#pragma omp parallel for schedule(static)
      for (int i = 0; i < ITEMS; i++)
         from[i] = i + step;
      homing_phase("turn");
#pragma omp parallel for schedule(static)
      for (int i = 0; i < ITEMS; i++)
         to[i] += from[ITEMS - 1 - i];
      homing_iteration();
   }
   return to[7] < 0;
}
