// Parts of an arena, one for each thread. Planted: an allocator of the program's own clears all of it in the main
// thread (-DFIXED: each thread clears its part; -DSMALL: it fits into the caches).
#include "section.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef SMALL
#define PART (8 << 10)
#define ROUNDS 400
#else
#define PART (512 << 10)
#define ROUNDS 12
#endif

static void *xmalloc(size_t bytes)
{
   void *memory = malloc(bytes);
   if (!memory)
      abort();
#ifndef FIXED
   memset(memory, 0, bytes);
#endif
   return memory;
}

int main(void)
{
   int threads = omp_get_max_threads();
   char *arena = xmalloc((size_t)threads * PART);
   long sum = 0;
#pragma omp parallel reduction(+ : sum)
   {
      long *part = (long *)(arena + (size_t)omp_get_thread_num() * PART);
#ifdef FIXED
      memset(part, 0, PART);
#endif
#pragma omp barrier
#pragma omp single
      section_begin();
      for (int round = 0; round < ROUNDS; round++)
         for (size_t i = 0; i < PART / sizeof(long); i++)
            sum += part[i] += round;
   }
   section_end();
   printf("%ld\n", sum);
   free(arena);
   return 0;
}
