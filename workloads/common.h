/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What every workload shares: options, memory, seeded numbers, the clock and the line of result.
 *
 * All random numbers are a function of (seed, index), so that any thread can make any element: the data of a run, and
 * therefore its result, do not depend on the number of threads.
 */
#ifndef WORKLOADS_COMMON_H
#define WORKLOADS_COMMON_H

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../include/homing.h"
#include "../lab/guest/homing_section.h"

enum { PAGE = 4096, MAX_THREADS = 1024, EXIT_USAGE = 2 };

/* What a workload is, and its default sizes. */
struct workload {
   const char *name;
   const char *about;
   const char *size_is;       /* what SIZE counts */
   const char *iterations_is; /* what ITERATIONS counts */
   long size, min_size, max_size;
   long iterations;
   const char *extra_is;      /* what -e EXTRA counts; NULL if there is no such option */
   long extra, min_extra, max_extra;
   bool init;                 /* takes --init */
};

/* Who touches the data first. */
enum init { INIT_AS_IS, INIT_PARALLEL, INIT_SERIAL };

struct options {
   long size;
   long iterations;
   long extra;
   uint64_t seed;
   int threads;
   enum init init;
};

static inline void print_usage(const struct workload *w, FILE *to)
{
   fprintf(to,
           "%s: %s\n\n"
           "usage: %s [-n SIZE] [-i ITERATIONS] [-t THREADS] [-s SEED]%s%s\n\n"
           "  -n SIZE        %s, %ld to %ld [default: %ld]\n"
           "  -i ITERATIONS  %s [default: %ld]\n"
           "  -t THREADS     1 to %d [default: OMP_NUM_THREADS, or the number of CPUs]\n"
           "  -s SEED        of the data [default: 1]\n",
           w->name, w->about, w->name, w->extra_is != NULL ? " [-e EXTRA]" : "",
           w->init ? " [--init WHO]" : "", w->size_is, w->min_size, w->max_size, w->size, w->iterations_is,
           w->iterations, MAX_THREADS);
   if (w->extra_is != NULL)
      fprintf(to, "  -e EXTRA       %s, %ld to %ld [default: %ld]\n", w->extra_is, w->min_extra, w->max_extra,
              w->extra);
   if (w->init)
      fprintf(to, "  --init WHO     who touches the data first: parallel (the threads that use them) or serial (the\n"
                  "                 main thread) [default: as the file's head says]\n");
   fprintf(to, "  -h, --help     print this text\n\n"
               "Prints one line, and exits with 0 if the result is right, 1 if it is wrong, 2 on wrong usage.\n");
}

/* Says what is wrong with the command line, and ends the program. */
static inline _Noreturn void usage_error(const struct workload *w, const char *format, ...)
{
   va_list arguments;
   fprintf(stderr, "%s: ", w->name);
   va_start(arguments, format);
   vfprintf(stderr, format, arguments);
   va_end(arguments);
   fprintf(stderr, "\n\n");
   print_usage(w, stderr);
   exit(EXIT_USAGE);
}

/* The value of an option as a whole number between low and high. */
static inline unsigned long long number(const struct workload *w, const char *option, const char *text,
                                        unsigned long long low, unsigned long long high)
{
   char *end = NULL;
   if (text == NULL)
      usage_error(w, "%s needs a value", option);
   errno = 0;
   unsigned long long value = strtoull(text, &end, 10);
   if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < low || value > high)
      usage_error(w, "%s is '%s', expected a whole number from %llu to %llu", option, text, low, high);
   return value;
}

static inline enum init who_touches(const struct workload *w, const char *text)
{
   if (text != NULL && strcmp(text, "parallel") == 0)
      return INIT_PARALLEL;
   if (text == NULL || strcmp(text, "serial") != 0)
      usage_error(w, "--init is '%s', expected parallel or serial", text != NULL ? text : "");
   return INIT_SERIAL;
}

static inline struct options parse_options(const struct workload *w, int argc, char **argv)
{
   struct options o = {.size = w->size, .iterations = w->iterations, .extra = w->extra, .seed = 1, .threads = 0};
   const char *letters = w->extra_is != NULL ? "nitse" : "nits";
   for (int i = 1; i < argc; i += 2) {
      const char *option = argv[i];
      const char *value = i + 1 < argc ? argv[i + 1] : NULL;
      if (strcmp(option, "-h") == 0 || strcmp(option, "--help") == 0) {
         print_usage(w, stdout);
         exit(EXIT_SUCCESS);
      }
      if (w->init && strcmp(option, "--init") == 0) {
         o.init = who_touches(w, value);
         continue;
      }
      if (option[0] != '-' || option[1] == '\0' || option[2] != '\0' || strchr(letters, option[1]) == NULL)
         usage_error(w, "unknown argument '%s'", option);
      switch (option[1]) {
      case 'n': o.size = (long)number(w, option, value, (unsigned long long)w->min_size,
                                      (unsigned long long)w->max_size); break;
      case 'i': o.iterations = (long)number(w, option, value, 1, 1000000); break;
      case 't': o.threads = (int)number(w, option, value, 1, MAX_THREADS); break;
      case 'e': o.extra = (long)number(w, option, value, (unsigned long long)w->min_extra,
                                       (unsigned long long)w->max_extra); break;
      case 's': o.seed = number(w, option, value, 0, UINT64_MAX); break;
      }
   }
   if (o.threads == 0)
      o.threads = omp_get_max_threads();
   if (o.threads > omp_get_thread_limit())
      usage_error(w, "%d threads are more than OMP_THREAD_LIMIT allows, %d", o.threads, omp_get_thread_limit());
   omp_set_dynamic(0);
   omp_set_num_threads(o.threads);
   return o;
}

static inline bool power_of_two(long n)
{
   return n > 0 && (n & (n - 1)) == 0;
}

/* Memory on pages of its own, not yet touched: the first thread to write to a page decides its home. */
static inline void *new_pages(size_t count, size_t each)
{
   size_t bytes = (count * each + PAGE - 1) / PAGE * PAGE;
   void *memory = aligned_alloc(PAGE, bytes);
   if (memory == NULL) {
      fprintf(stderr, "no memory for %zu bytes\n", bytes);
      exit(EXIT_FAILURE);
   }
   return memory;
}

/* As new_pages, for the data of a program that takes --init: touched here and now with `--init serial`. */
static inline void *data_pages(const struct options *o, size_t count, size_t each)
{
   char *memory = new_pages(count, each);
   if (o->init == INIT_SERIAL)
      for (size_t at = 0; at < count * each; at += PAGE)
         ((volatile char *)memory)[at] = 0;
   return memory;
}

/* Whole pages of zeros straight from the kernel: nothing but the program itself refers to them (calloc may clear them).
 * They stay mapped to the end of the program. */
static inline uint64_t *zero_pages(long pages)
{
   size_t bytes = (size_t)pages * PAGE;
   void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (memory == MAP_FAILED) {
      fprintf(stderr, "no memory for %ld pages\n", pages);
      exit(EXIT_FAILURE);
   }
   return memory;
}

/* splitmix64's output function: the index-th random number of a seed. */
static inline uint64_t random_bits(uint64_t seed, uint64_t index)
{
   uint64_t z = seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
   z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
   z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
   return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static inline double random_unit(uint64_t seed, uint64_t index)
{
   return (double)(random_bits(seed, index) >> 11) * 0x1p-53;
}

/* The first element of part `part` when `n` elements are dealt in `parts` contiguous parts. */
static inline long part_start(long n, long part, long parts)
{
   return n * part / parts;
}

/* The larger of two errors; one that is not a number counts as infinite. */
static inline double larger_error(double worst, double error)
{
   if (error <= worst)
      return worst;
   return isnan(error) ? INFINITY : error;
}

/* For what is preloaded into a workload. */
extern void workload_iteration(void) __attribute__((weak));

/* An iteration ends here. With WITHOUT_MARKS Homing is not informed. */
static inline void end_iteration(void)
{
#ifndef WITHOUT_MARKS
   homing_iteration();
#endif
   if (workload_iteration)
      workload_iteration();
}

/* A phase begins here. */
static inline void begin_phase(const char *name)
{
#ifndef WITHOUT_MARKS
   homing_phase(name);
#else
   (void)name;
#endif
}

static inline double now(void)
{
   struct timespec t;
   clock_gettime(CLOCK_MONOTONIC, &t);
   return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The section that is timed, and that the lab's observer counts with --marked. */
static inline double section_begin(void)
{
   HOMING_SECTION_BEGIN();
   return now();
}

/* The seconds since it began. */
static inline double section_end(double start)
{
   double seconds = now() - start;
   HOMING_SECTION_END();
   return seconds;
}

/* Prints the line of result; its value is the exit status of the program. */
static inline int report(const struct workload *w, const struct options *o, double seconds, bool ok,
                         const char *format, ...)
{
   va_list arguments;
   printf("%s size=%ld iterations=%ld seed=%llu threads=%d ", w->name, o->size, o->iterations,
          (unsigned long long)o->seed, o->threads);
   va_start(arguments, format);
   vprintf(format, arguments);
   va_end(arguments);
   printf(" check=%s seconds=%.3f\n", ok ? "ok" : "FAILED", seconds);
   return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
