// A byte for each item, items dealt out in turn. Planted: the flags of all threads share every line.
#include <cstdio>
#include <thread>
#include <vector>
constexpr int items = 256, threads = 4;
static volatile char flags[items];

int main()
{
   auto work = [](int me) {
      for (int round = 0; round < 4000; round++)
         for (int i = me; i < items; i += threads)
            flags[i] = flags[i] + 1;
   };
   std::vector<std::thread> all;
   for (int me = 0; me < threads; me++)
      all.emplace_back(work, me);
   for (auto &thread : all)
      thread.join();
   std::printf("%d\n", flags[5]);
}
