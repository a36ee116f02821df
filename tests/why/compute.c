// Threads that compute and refer to next to nothing. Nothing is planted.
#include <stdio.h>

int main(void)
{
   long primes = 0;
#pragma omp parallel for schedule(static) reduction(+ : primes)
   for (int n = 3; n < 30000; n += 2) {
      int prime = 1;
      for (int d = 3; d * d <= n; d += 2)
         prime &= n % d != 0;
      primes += prime;
   }
   printf("%ld\n", primes);
   return 0;
}
