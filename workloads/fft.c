/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fft: a one-dimensional fast Fourier transform, radix 2, Stockham's self-sorting form: the suite's e-fft (Bolosky &
 * Scott 1991, section 4.1.2) without its Fortran.
 *
 * Each stage reads one array and writes the other, and its stride doubles: a thread reads two far places of the source
 * and writes where another thread will read in the next stage. The twiddle factors are read by all.
 *
 * Check: four frequencies against the sum that defines them, and the inverse transform against the input.
 */
#include "common.h"

static const struct workload workload = {
   .name = "fft",
   .about = "fast Fourier transform and its inverse",
   .size_is = "points, a power of two",
   .iterations_is = "pairs of transforms",
   .size = 32768, .min_size = 4, .max_size = 1L << 28,
   .iterations = 2,
};

enum { PROBES = 4 };

struct complex {
   double re, im;
};

static struct complex input(uint64_t seed, long i)
{
   struct complex z = {2 * random_unit(seed, (uint64_t)i * 2) - 1, 2 * random_unit(seed, (uint64_t)i * 2 + 1) - 1};
   return z;
}

static struct complex product(struct complex a, struct complex b)
{
   struct complex z = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
   return z;
}

/* One stage: n/2 butterflies of stride s. direction is 1, or -1 for the inverse. Called by all threads. */
static void stage(const struct complex *from, struct complex *to, const struct complex *twiddle, long n, long s,
                  double direction)
{
#pragma omp for schedule(static)
   for (long k = 0; k < n / 2; k++) {
      long block = k & ~(s - 1), place = k & (s - 1);
      struct complex w = twiddle[block], a = from[k], b = from[k + n / 2];
      struct complex sum = {a.re + b.re, a.im + b.im}, difference = {a.re - b.re, a.im - b.im};
      w.im *= direction;
      to[2 * block + place] = sum;
      to[2 * block + place + s] = product(difference, w);
   }
}

/* Transforms data with the help of other; the pointers are exchanged as often as stages ran. */
static void transform(struct complex **data, struct complex **other, const struct complex *twiddle, long n,
                      double direction)
{
   for (long s = 1; s < n; s *= 2) {
      stage(*data, *other, twiddle, n, s, direction);
      struct complex *swap = *data;
      *data = *other;
      *other = swap;
   }
}

/* The complex number of length 1 at this part of the circle. */
static struct complex turn(long part, long circle)
{
   double angle = -2 * M_PI * (double)part / (double)circle;
   struct complex z = {cos(angle), sin(angle)};
   return z;
}

/* The distance of one frequency from the sum that defines it, which is added up in blocks to call sin() rarely. */
static double probe_error(struct complex found, long frequency, const struct options *o)
{
   long n = o->size, block = n < 64 ? n : 64;
   struct complex step = turn(frequency, n);
   double re = 0, im = 0;
#pragma omp parallel for schedule(static) reduction(+ : re, im)
   for (long b = 0; b < n; b += block) {
      struct complex w = turn(b * frequency % n, n);
      for (long i = b; i < b + block; i++) {
         struct complex term = product(input(o->seed, i), w);
         re += term.re;
         im += term.im;
         w = product(w, step);
      }
   }
   return hypot(found.re - re, found.im - im) / sqrt((double)n);
}

static double inverse_error(const struct complex *data, const struct options *o)
{
   double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
   for (long i = 0; i < o->size; i++) {
      struct complex expected = input(o->seed, i);
      double error = hypot(data[i].re - expected.re, data[i].im - expected.im);
      worst = larger_error(worst, error);
   }
   return worst;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   long n = o.size;
   if (!power_of_two(n))
      usage_error(&workload, "-n is %ld, expected a power of two", n);
   struct complex *shared[2] = {new_pages((size_t)n, sizeof **shared), new_pages((size_t)n, sizeof **shared)};
   struct complex *twiddle = new_pages((size_t)n / 2, sizeof *twiddle);
   struct complex probe[PROBES] = {{0, 0}};
   struct complex *result = NULL;

   double start = section_begin();
#pragma omp parallel
   {
      struct complex *data = shared[0], *other = shared[1];
#pragma omp for schedule(static)
      for (long i = 0; i < n; i++)
         data[i] = input(o.seed, i);
#pragma omp for schedule(static)
      for (long i = 0; i < n / 2; i++)
         twiddle[i] = turn(i, n);
      for (long pair = 0; pair < o.iterations; pair++) {
         transform(&data, &other, twiddle, n, 1);
#pragma omp single
         for (int p = 0; p < PROBES; p++)
            probe[p] = data[(n / PROBES * p + 1) % n];
         transform(&data, &other, twiddle, n, -1);
#pragma omp for schedule(static)
         for (long i = 0; i < n; i++) {
            data[i].re /= (double)n;
            data[i].im /= (double)n;
         }
#pragma omp master
         end_iteration();
      }
#pragma omp single
      result = data;
   }
   double seconds = section_end(start);

   double error = inverse_error(result, &o);
   for (int p = 0; p < PROBES; p++)
      error = larger_error(error, probe_error(probe[p], (n / PROBES * p + 1) % n, &o));
   double first = probe[0].re;
   free(shared[0]);
   free(shared[1]);
   free(twiddle);
   return report(&workload, &o, seconds, error < 1e-9, "f1=%.10g error=%.1e", first, error);
}
