// C++ threads, atomics, new, virtual calls and containers.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

struct Shape {
   virtual ~Shape() = default;
   virtual long area() const = 0;
};
struct Square : Shape {
   explicit Square(long side) : side(side) {}
   long area() const override { return side * side; }
   long side;
   long unused[7]{}; // a size that nothing else here has
};

int main()
{
   std::vector<std::unique_ptr<Shape>> shapes;
   std::mutex mutex;
   std::atomic<long> total{0};
   std::vector<std::thread> threads;
   for (long t = 0; t < 3; t++)
      threads.emplace_back([&, t] {
         for (long i = 0; i < 100; i++) {
            std::lock_guard<std::mutex> hold(mutex);
            shapes.push_back(std::make_unique<Square>(i + t));
         }
         total.fetch_add(1);
      });
   for (auto &thread : threads)
      thread.join();
   for (auto &shape : shapes)
      total += shape->area();
   long *volatile array = new long[100]{};
   array[7] = total;
   std::printf("%ld\n", array[7]);
   delete[] array;
}
