// Blocks that any thread may take next. Planted: one thread has made them all, and who uses a block changes each round,
// in which its user goes over it often enough for moves to pay.
#include <cstdio>
#include <pthread.h>
#include <thread>
#include <vector>
constexpr int blocks = 512, length = 512, threads = 4;

int main()
{
   std::vector<std::vector<double>> data(blocks, std::vector<double>(length, 1.0));
   double sums[threads] = {};
   pthread_barrier_t barrier;
   pthread_barrier_init(&barrier, nullptr, threads);
   auto work = [&](int me) {
      double sum = 0;
      for (int round = 0; round < 16; round++) {
         // Everybody takes a quarter, in an order that looks like chance.
         for (int pass = 0; pass < 12; pass++)
            for (int i = 0; i < blocks; i++)
               if (((i * 2654435761u + round * 40503u) >> 16) % threads == unsigned(me))
                  for (double &x : data[i])
                     sum += x *= 1.0001;
         pthread_barrier_wait(&barrier);
      }
      sums[me] = sum;
   };
   std::vector<std::thread> all;
   for (int me = 0; me < threads; me++)
      all.emplace_back(work, me);
   for (auto &thread : all)
      thread.join();
   std::printf("%g\n", sums[0]);
}
