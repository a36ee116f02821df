// C++, std::thread: threads take jobs from a common counter; each has 24 MiB of its own. Planted: every job is one
// addition to the one counter, and short (-DFIXED: a thread takes 4096 jobs at a time).
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>
constexpr int threads = 4;
constexpr long jobs = 2000000, count = 24l << 17;
#ifdef FIXED
constexpr long at_a_time = 4096;
#else
constexpr long at_a_time = 1;
#endif
static std::atomic<long> next_job;

static void take_jobs()
{
   std::vector<double> own(count, 1.0);
   double sum = 0;
   for (long job; (job = next_job.fetch_add(at_a_time)) < jobs;)
      for (long i = job; i < job + at_a_time; i++)
         sum += own[i * 8 % count];
   own[0] = sum;
}

int main()
{
   std::vector<std::thread> all;
   for (int i = 0; i < threads; i++)
      all.emplace_back(take_jobs);
   for (auto &thread : all)
      thread.join();
   std::printf("%ld\n", next_job.load() / jobs);
}
