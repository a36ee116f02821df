/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * cg: conjugate gradients on a random sparse matrix in compressed rows, after NAS CG.
 *
 * Bands of rows belong to threads. The matrix is private to its thread and only read; the direction vector p is read
 * at random places by all threads and written by its owners in every iteration; dot products add up blocks in a fixed
 * order, so that the result does not depend on the number of threads.
 *
 * One thread makes the matrix and the owners of rows the vectors. With --init parallel owners make their rows, too;
 * with --init serial the main thread touches all.
 *
 * Check: the residual of the solution, computed from the matrix, is small and agrees with the one of the recurrence.
 */
#include "common.h"

static const struct workload workload = {
   .name = "cg",
   .about = "conjugate gradients on a random sparse matrix",
   .size_is = "rows",
   .iterations_is = "iterations; every 25 a new solution is begun",
   .size = 7000, .min_size = 16, .max_size = 1L << 27,
   .iterations = 24,
   .extra_is = "random entries a row, each with its mirror image (120 as in NAS class C)",
   .extra = 6, .min_extra = 1, .max_extra = 1000,
   .init = true,
};

enum {
   BLOCK = 256,  /* elements whose products are added up before the blocks are */
   SOLUTION = 25 /* iterations of one solution, as in NAS CG */
};

struct matrix {
   long n;
   int64_t *start; /* of each row, n + 1 */
   int32_t *column;
   double *value;
};

/* The column of a random entry of row i, never i itself. `number` counts the entries of all rows. */
static long random_column(uint64_t seed, long n, long i, long number)
{
   return (i + 1 + (long)(random_bits(seed, (uint64_t)number) % (uint64_t)(n - 1))) % n;
}

static double random_value(uint64_t seed, long number)
{
   return random_unit(~seed, (uint64_t)number) - 0.5;
}

/* Fills the rows from `first` to `last`, in the order of the entries' numbers. */
static void fill_rows(const struct matrix *a, int64_t *next, const struct options *o, long first, long last)
{
   for (long i = first; i <= last; i++) {
      next[i] = a->start[i];
      a->column[next[i]] = (int32_t)i;
      a->value[next[i]++] = 0.5;
   }
   for (long i = 0; i < a->n; i++)
      for (long k = 0; k < o->extra; k++) {
         long ends[2] = {i, random_column(o->seed, a->n, i, i * o->extra + k)};
         double value = random_value(o->seed, i * o->extra + k);
         for (int end = 0; end < 2; end++)
            if (ends[end] >= first && ends[end] <= last) {
               a->column[next[ends[end]]] = (int32_t)ends[1 - end];
               a->value[next[ends[end]]++] = value;
               a->value[a->start[ends[end]]] += fabs(value);
            }
      }
}

/* As fill_rows: each thread the rows that it will use. */
static void fill_own_rows(const struct matrix *a, int64_t *next, const struct options *o)
{
#pragma omp parallel
   {
      long first = a->n, last = -1;
#pragma omp for schedule(static) nowait
      for (long i = 0; i < a->n; i++) {
         first = i < first ? i : first;
         last = i;
      }
      fill_rows(a, next, o, first, last);
   }
}

/* A symmetric matrix with a dominant diagonal: positive definite. Made by one thread unless --init says parallel, as in
 * many codes: under first touch all of it lands on one node. Duplicates of an entry stay side by side; they add up. */
static struct matrix make_matrix(const struct options *o)
{
   long n = o->size, pairs = o->extra, entries = n + 2 * pairs * n;
   struct matrix a = {n, new_pages((size_t)n + 1, sizeof *a.start), new_pages((size_t)entries, sizeof *a.column),
                      new_pages((size_t)entries, sizeof *a.value)};
   int64_t *next = new_pages((size_t)n, sizeof *next);
   for (long i = 0; i < n; i++)
      next[i] = 1 + pairs;
   for (long i = 0; i < n; i++)
      for (long k = 0; k < pairs; k++)
         next[random_column(o->seed, n, i, i * pairs + k)]++;
   if (o->init == INIT_PARALLEL)
#pragma omp parallel for schedule(static)
      for (long i = 0; i < n; i++)
         a.start[i] = 0;
   a.start[0] = 0;
   for (long i = 0; i < n; i++)
      a.start[i + 1] = a.start[i] + next[i];
   if (o->init == INIT_PARALLEL)
      fill_own_rows(&a, next, o);
   else
      fill_rows(&a, next, o, 0, n - 1);
   free(next);
   return a;
}

static void free_matrix(struct matrix *a)
{
   free(a->start);
   free(a->column);
   free(a->value);
}

static double row_times(const struct matrix *a, const double *x, long i)
{
   double sum = 0;
   for (int64_t e = a->start[i]; e < a->start[i + 1]; e++)
      sum += a->value[e] * x[a->column[e]];
   return sum;
}

/* Called by all threads; partial has room for a sum of each block, and is not used again before another barrier. */
static double dot(const double *x, const double *y, long n, double *partial)
{
   long blocks = (n + BLOCK - 1) / BLOCK;
#pragma omp for schedule(static)
   for (long b = 0; b < blocks; b++) {
      long end = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;
      double sum = 0;
      for (long i = b * BLOCK; i < end; i++)
         sum += x[i] * y[i];
      partial[b] = sum;
   }
   double sum = 0;
   for (long b = 0; b < blocks; b++)
      sum += partial[b];
   return sum;
}

/* x = 0 and r = p = 1, the residual of A x = 1; returns its square. Called by all threads. */
static double begin(double *x, double *r, double *p, long n, double *partial)
{
#pragma omp for schedule(static)
   for (long i = 0; i < n; i++) {
      x[i] = 0;
      r[i] = p[i] = 1;
   }
   return dot(r, r, n, partial);
}

/* Solves A x = 1; returns the squared residual as the recurrence has it. */
static double solve(const struct options *o, const struct matrix *a, double *x)
{
   long n = a->n, iterations = o->iterations;
   double *r = data_pages(o, (size_t)n, sizeof *r), *p = data_pages(o, (size_t)n, sizeof *p);
   double *q = data_pages(o, (size_t)n, sizeof *q), result = 0;
   double *partial[2] = {data_pages(o, (size_t)(n / BLOCK + 1), sizeof(double)),
                         data_pages(o, (size_t)(n / BLOCK + 1), sizeof(double))};
#pragma omp parallel
   {
      double rho = 0;
      for (long iteration = 0; iteration < iterations; iteration++) {
         if (iteration % SOLUTION == 0)
            rho = begin(x, r, p, n, partial[0]);
#pragma omp for schedule(static)
         for (long i = 0; i < n; i++)
            q[i] = row_times(a, p, i);
         double alpha = rho / dot(p, q, n, partial[1]);
#pragma omp for schedule(static)
         for (long i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
         }
         double before = rho;
         rho = dot(r, r, n, partial[0]);
#pragma omp for schedule(static)
         for (long i = 0; i < n; i++)
            p[i] = r[i] + rho / before * p[i];
#pragma omp master
         end_iteration();
      }
#pragma omp single
      result = rho;
   }
   free(r);
   free(p);
   free(q);
   free(partial[0]);
   free(partial[1]);
   return result;
}

int main(int argc, char **argv)
{
   struct options o = parse_options(&workload, argc, argv);
   struct matrix a = make_matrix(&o);
   double *x = data_pages(&o, (size_t)a.n, sizeof *x);
   double start = section_begin();
   double recurrence = sqrt(solve(&o, &a, x) / (double)a.n);
   double seconds = section_end(start);

   double squares = 0;
   for (long i = 0; i < a.n; i++) {
      double rest = 1 - row_times(&a, x, i);
      squares += rest * rest;
   }
   double residual = sqrt(squares / (double)a.n), middle = x[a.n / 2];
   /* Diagonal dominance bounds the condition number, and that the convergence: at least 0.7 an iteration. */
   bool ok = fabs(residual - recurrence) < 1e-10 &&
             residual < 2 * pow(0.7, (double)((o.iterations - 1) % SOLUTION + 1)) + 1e-10;
   free_matrix(&a);
   free(x);
   return report(&workload, &o, seconds, ok, "middle=%.10g residual=%.3e", middle, residual);
}
