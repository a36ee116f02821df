// C, POSIX threads: a file of 96 MiB is read, then each thread counts the words of its part, four times. Planted: the
// main thread reads the file (-DFIXED: each thread reads its part).
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { THREADS = 4, ROUNDS = 4, STEP = 16 };
static long length, counts[THREADS][8];
static char *text;
static int file;

static void read_part(long from, long to)
{
   while (from < to) {
      ssize_t got = pread(file, text + from, (size_t)(to - from), from);
      if (got <= 0)
         exit(1);
      from += got;
   }
}

static void *count(void *number)
{
   long me = (long)number, from = me * length / THREADS, to = (me + 1) * length / THREADS, words = 0;
#ifdef FIXED
   read_part(from, to);
#endif
   for (int round = 0; round < ROUNDS; round++)
      for (long i = from; i < to; i += STEP)
         words += text[i] == ' ';
   counts[me][0] = words;
   return NULL;
}

int main(int words, char **word)
{
   pthread_t threads[THREADS];
   if (words < 2 || (file = open(word[1], O_RDONLY)) < 0)
      return 1;
   length = lseek(file, 0, SEEK_END);
   text = malloc((size_t)length);
#ifndef FIXED
   read_part(0, length);
#endif
   for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, count, (void *)i);
   for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
   printf("%ld\n", counts[1][0]);
   return 0;
}
