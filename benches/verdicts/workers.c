// C, fork: four processes, each of which works on 24 MiB. Planted: the parent fills a shared mapping of 96 MiB before
// it forks (-DFIXED: each worker fills its quarter; -DPRIVATE: each worker has memory of its own).
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { WORKERS = 4, STEP = 8, ROUNDS = 12 };
static const long length = 24l << 17; // of a worker

static void fill(double *data, long count)
{
   for (long i = 0; i < count; i += STEP)
      data[i] = (double)i;
}

int main(void)
{
   double *all = NULL;
#ifndef PRIVATE
   all = mmap(NULL, WORKERS * length * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
   if (all == MAP_FAILED)
      return 1;
#ifndef FIXED
   fill(all, WORKERS * length);
#endif
#endif
   for (int me = 0; me < WORKERS; me++) {
      if (fork() != 0)
         continue;
      double *own = all ? all + me * length : malloc(length * sizeof *own);
#if defined PRIVATE || defined FIXED
      fill(own, length);
#endif
      for (int round = 0; round < ROUNDS; round++)
         for (long i = 0; i < length; i += STEP)
            own[i] = own[i] * 0.5 + round;
      _exit(own[5] < 0);
   }
   int status, failed = 0;
   while (wait(&status) > 0)
      failed |= status;
   return failed != 0;
}
