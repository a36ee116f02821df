/* A deterministic OpenMP program whose references are the same under either recorder: a few sweeps over arrays, with
 * neighbours' elements at the seams of the threads. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
   int n = 1 << 16;
   double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
#pragma omp parallel for
   for (int i = 0; i < n; i++) {
      a[i] = i % 7;
      b[i] = 0;
   }
   for (int sweep = 0; sweep < 10; sweep++) {
#pragma omp parallel for
      for (int i = 1; i < n - 1; i++)
         b[i] += a[i - 1] * 0.25 + a[i] + a[i + 1] * 0.5;
   }
   double sum = 0;
   for (int i = 0; i < n; i++)
      sum += b[i];
   printf("%.3f\n", sum);
   free(a);
   free(b);
}
