// C++, std::thread: each thread adds up a vector of 24 MiB that it makes itself. Planted: its count, sum and largest
// lie in one line with those of other threads (-DFIXED: on lines of their own).
#include <cstdio>
#include <thread>
#include <vector>
constexpr int threads = 4, rounds = 8;
constexpr long count = 24l << 17;

#ifdef FIXED
struct alignas(64) Stats {
#else
struct Stats {
#endif
   volatile long items;
   volatile double sum;
};
static Stats stats[threads];

static void add_up(int me)
{
   std::vector<double> own(count, me + 1.0);
   for (int round = 0; round < rounds; round++)
      for (long i = round; i < count; i += 16) {
         stats[me].items = stats[me].items + 1;
         stats[me].sum = stats[me].sum + own[i];
      }
}

int main()
{
   std::vector<std::thread> all;
   for (int i = 0; i < threads; i++)
      all.emplace_back(add_up, i);
   for (auto &thread : all)
      thread.join();
   std::printf("%g\n", stats[1].sum);
}
