// C++, std::thread: threads look up random places of a table of 96 MiB that nobody writes any more. Planted: the main
// thread makes the one table (-DFIXED: each thread has a copy, which it makes itself).
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>
constexpr int threads = 4, times = 3000000;
constexpr unsigned long count = 96ul << 17;
using Table = std::unique_ptr<double[]>;
static double sums[threads][8];

static Table new_table()
{
   Table table(new double[count]);
   for (unsigned long i = 0; i < count; i += 8)
      table[i] = double(i);
   return table;
}

static void look_up(const double *given, int me)
{
   Table own = given ? nullptr : new_table();
   const double *table = given ? given : own.get();
   unsigned long random = 88172645463325252ul + me;
   double sum = 0;
   for (int i = 0; i < times; i++) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      sum += table[random % (count / 8) * 8];
   }
   sums[me][0] = sum;
}

int main()
{
#ifdef FIXED
   Table table;
#else
   Table table = new_table();
#endif
   std::vector<std::thread> all;
   for (int i = 0; i < threads; i++)
      all.emplace_back(look_up, table.get(), i);
   for (auto &thread : all)
      thread.join();
   std::printf("%g\n", sums[1][0]);
}
