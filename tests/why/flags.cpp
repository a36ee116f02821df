// A byte for each item, items dealt out in turn. Planted: the flags of all threads share every line (-DFIXED: each
// thread has items that follow one another, in lines of its own).
#include "section.h"
#include <cstdio>
#include <pthread.h>
#include <thread>
#include <vector>
constexpr int items = 256, threads = 4;
alignas(64) static volatile char flags[items];

int main()
{
   pthread_barrier_t barrier;
   pthread_barrier_init(&barrier, nullptr, threads);
   auto work = [&](int me) {
#ifdef FIXED
      int first = me * items / threads, end = (me + 1) * items / threads, step = 1;
#else
      int first = me, end = items, step = threads;
#endif
      pthread_barrier_wait(&barrier); // All at once, however long it takes to begin a thread.
      for (int round = 0; round < 4000; round++)
         for (int i = first; i < end; i += step)
            flags[i] = flags[i] + 1;
   };
   section_begin();
   std::vector<std::thread> all;
   for (int me = 0; me < threads; me++)
      all.emplace_back(work, me);
   for (auto &thread : all)
      thread.join();
   section_end();
   std::printf("%d\n", flags[5]);
}
