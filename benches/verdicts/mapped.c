// C, POSIX threads: `mapped fill FILE` makes a file of 96 MiB; `mapped FILE` maps it, and each of four threads works
// on its part in place. Planted: the pages of a file that is in memory already (page cache, /dev/shm) are where the
// process is that filled it, which was one thread. -DREAD=0: the threads only write.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifndef READ
#define READ 1
#endif
enum { THREADS = 4, STEP = 8, ROUNDS = 12 };
static const long length = 96l << 17;
static double *data;

static void *work(void *number)
{
   long me = (long)number, from = me * length / THREADS, to = (me + 1) * length / THREADS;
   for (int round = 0; round < ROUNDS; round++)
      for (long i = from; i < to; i += STEP)
         data[i] = (READ ? data[i] * 0.5 : 0) + round;
   return NULL;
}

int main(int words, char **word)
{
   int fill = words == 3 && strcmp(word[1], "fill") == 0;
   if (words != 2 && !fill)
      return 2;
   int file = open(word[words - 1], O_RDWR | (fill ? O_CREAT | O_TRUNC : 0), 0600);
   if (file < 0 || (fill && ftruncate(file, length * (long)sizeof *data) != 0))
      return 1;
   data = mmap(NULL, length * sizeof *data, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
   if (data == MAP_FAILED)
      return 1;
   if (fill) {
      for (long i = 0; i < length; i++)
         data[i] = (double)i;
      return 0;
   }
   pthread_t threads[THREADS];
   for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
   for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
   printf("%g\n", data[length / 2]);
   unlink(word[1]);
   return 0;
}
