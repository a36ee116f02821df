/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the solvers of the heat equation share: eigenmodes to start from and to check against, and the factors of their
 * tridiagonal systems.
 */
#ifndef WORKLOADS_HEAT_H
#define WORKLOADS_HEAT_H

#include "common.h"

/* A sine of `waves` half waves over n interior points and the two ends. */
static inline double *wave(long n, double half_waves)
{
   double *w = new_pages((size_t)n + 2, sizeof *w);
   for (long i = 0; i < n + 2; i++)
      w[i] = sin(M_PI * half_waves * (double)i / (double)(n + 1));
   return w;
}

/* Factors of the constant tridiagonal matrix (-ratio, 1 + 2 ratio, -ratio): the upper diagonal after elimination. */
static inline double *make_upper(long n, double ratio)
{
   double *upper = new_pages((size_t)n + 1, sizeof *upper);
   upper[0] = 0;
   for (long i = 1; i <= n; i++)
      upper[i] = -ratio / (1 + 2 * ratio + ratio * upper[i - 1]);
   return upper;
}

#endif
