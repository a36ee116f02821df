// C, fork: four processes read random places of a table of 96 MiB that their parent has filled before it forked.
// Planted: pages of the parent are shared with its children until one of them writes (-DFIXED: each process fills a
// copy).
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum { WORKERS = 4, STEP = 8, TIMES = 3000000 };
static const unsigned long length = 96ul << 17;

static double *new_table(void)
{
   double *table = malloc(length * sizeof *table);
   for (unsigned long i = 0; i < length; i += STEP)
      table[i] = (double)i;
   return table;
}

int main(void)
{
   double *table = NULL;
#ifndef FIXED
   table = new_table();
#endif
   for (unsigned long me = 0; me < WORKERS; me++) {
      if (fork() != 0)
         continue;
      if (!table)
         table = new_table();
      double sum = 0;
      unsigned long random = 88172645463325252ul + me;
      for (int i = 0; i < TIMES; i++) {
         random ^= random << 13;
         random ^= random >> 7;
         random ^= random << 17;
         sum += table[random % (length / STEP) * STEP];
      }
      _exit(sum < 0);
   }
   int status, failed = 0;
   while (wait(&status) > 0)
      failed |= status;
   return failed != 0;
}
