// c = a * b with a block of rows for each thread, which also initialises its rows of a and c. Planted: the main thread
// makes b, and all threads read all of it.
#include <cstdio>
#include <memory>
constexpr int rows = 16, n = 384;

int main()
{
   std::unique_ptr<double[]> b(new double[n * n]);
   for (int i = 0; i < n * n; i++)
      b[i] = 1.0 / (i + 1);
   std::unique_ptr<double[]> a(new double[rows * n]), c(new double[rows * n]);
#pragma omp parallel for schedule(static)
   for (int i = 0; i < rows; i++)
      for (int j = 0; j < n; j++)
         a[i * n + j] = i + j, c[i * n + j] = 0;
#pragma omp parallel for schedule(static)
   for (int i = 0; i < rows; i++)
      for (int k = 0; k < n; k++)
         for (int j = 0; j < n; j += 2)
            c[i * n + j] += a[i * n + k] * b[k * n + j];
   std::printf("%g\n", c[n]);
}
