// As sum.c, in C++: an area that is forgotten with its memory.
#include <cstdint>
#include <homing/runtime.h>
#include <iostream>
#include <numeric>
#include <thread>
#include <vector>

class Area {
 public:
   Area(const void *address, std::size_t bytes, const char *name) : address(address) { homing_area(address, bytes, name); }
   ~Area() { homing_area_forget(address); }
   Area(const Area &) = delete;
   Area &operator=(const Area &) = delete;

 private:
   const void *address;
};

int main()
{
   const int status = homing_start("interval = \"50ms\"");
   std::cout << "homing: " << homing_status_text(status) << '\n';
   if (status < 0)
      return 1;
   constexpr std::size_t words = 1000000, threads = 4;
   std::vector<std::uint64_t> numbers(words), sums(threads);
   std::iota(numbers.begin(), numbers.end(), 0);
   {
      const Area area(numbers.data(), words * sizeof numbers[0], "numbers");
      for (int step = 0; step < 10; step++) {
         std::vector<std::thread> team;
         for (std::size_t part = 0; part < threads; part++)
            team.emplace_back([&, part] {
               const auto begin = numbers.begin() + part * (words / threads);
               sums[part] = std::accumulate(begin, begin + words / threads, std::uint64_t{0});
            });
         for (auto &thread : team)
            thread.join();
         homing_iteration();
      }
   }
   std::cout << "sum " << std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) << '\n';
   homing_stop();
}
