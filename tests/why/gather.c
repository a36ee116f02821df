// All threads look things up in a table. Planted: one thread has made it, and nobody writes it any more.
#include <stdio.h>
#define SIZE (1 << 18)
static double table[SIZE];

int main(void)
{
   for (int i = 0; i < SIZE; i++)
      table[i] = i * 0.5;
   double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
   for (int i = 0; i < 1200000; i++) {
      unsigned at = (i + 1) * 2654435761u;
      sum += table[(at ^ at >> 15) % SIZE];
   }
   printf("%g\n", sum);
   return 0;
}
