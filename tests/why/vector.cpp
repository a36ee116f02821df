// A std::vector that threads scale. Planted: its constructor clears it in the main thread (-DFIXED: the elements are
// left as they are, and the threads write them first).
#include "section.h"
#include <cstdio>
#include <memory>
#include <vector>

#ifdef FIXED
template <class T> struct uncleared : std::allocator<T> {
   template <class U> struct rebind { using other = uncleared<U>; };
   template <class U> void construct(U *p) { ::new (static_cast<void *>(p)) U; }
};
using numbers = std::vector<double, uncleared<double>>;
#else
using numbers = std::vector<double>;
#endif

int main()
{
   numbers x(160'000);
   const long n = static_cast<long>(x.size());
#pragma omp parallel for schedule(static)
   for (long i = 0; i < n; i++)
      x[i] = i;
   section_begin();
   for (int round = 0; round < 12; round++) {
#pragma omp parallel for schedule(static)
      for (long i = 0; i < n; i++)
         x[i] = 0.5 * x[i] + round;
   }
   section_end();
   std::printf("%g\n", x[n / 2]);
}
