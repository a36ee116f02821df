/* A program that is linked with libhoming and that somebody confined: says what homing_start came to, works for a
 * moment in two threads, allocates from a resource set, and prints a sum that is always the same. */
#include <homing/runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4 << 20 };

static unsigned char *memory;

static void *work(void *data)
{
   unsigned char *own = memory + (data ? BYTES / 2 : 0);
   for (time_t end = time(NULL) + 3; time(NULL) < end;)
      for (int at = 0; at < BYTES / 2; at += 64)
         own[at] = 3;
   return NULL;
}

static const char *reason(int status)
{
   static char text[2000];
   if (status == HOMING_OK)
      return "";
   homing_reason(text, sizeof text);
   return text;
}

int main(void)
{
   pthread_t other;
   struct homing_rset *set = NULL;
   unsigned long sum = 0;
   int status = homing_start("source = \"hint-faults\"");
   printf("confined: status %d: %s\n", status, reason(status));
   memory = calloc(1, BYTES);
   if (!memory || pthread_create(&other, NULL, work, "other") != 0)
      return 1;
   work(NULL), pthread_join(other, NULL);
   homing_iteration();
   status = homing_rset_open("all", &set);
   void *placed = status == HOMING_OK ? homing_rset_alloc(set, 1 << 20, HOMING_STRIPED, 0) : NULL;
   printf("confined: set: %s\n", placed ? "allocates" : reason(HOMING_FAILED));
   if (placed)
      memset(placed, 1, 1 << 20), homing_rset_free(placed);
   homing_rset_close(set);
   homing_stop();
   for (int at = 0; at < BYTES; at++)
      sum += memory[at];
   printf("confined: sum %lu\n", sum);
   return 0;
}
