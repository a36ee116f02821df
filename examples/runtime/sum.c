/* Sums an array in parallel, in steps, and has libhoming bring its pages to the threads that use them.
 *
 *    cc sum.c -pthread $(pkg-config --cflags --libs homing)
 */
#include <homing/runtime.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, STEPS = 10, WORDS = 1000000 };

static uint64_t *numbers, sums[THREADS];

static void *work(void *data)
{
   size_t part = (size_t)(uintptr_t)data, length = WORDS / THREADS;
   sums[part] = 0;
   for (size_t i = part * length; i < (part + 1) * length; i++)
      sums[part] += numbers[i];
   return NULL;
}

int main(void)
{
   /* Before threads begin. A status above 0 is no error: the program runs as it is. */
   int status = homing_start(NULL);
   printf("homing: %s\n", homing_status_text(status));
   numbers = malloc(WORDS * sizeof *numbers);
   if (status < 0 || numbers == NULL)
      return 1;
   for (uint64_t i = 0; i < WORDS; i++) /* all of it on the node where main runs */
      numbers[i] = i;
   homing_area(numbers, WORDS * sizeof *numbers, "numbers");
   for (int step = 0; step < STEPS; step++) {
      pthread_t thread[THREADS];
      for (size_t part = 0; part < THREADS; part++)
         pthread_create(&thread[part], NULL, work, (void *)(uintptr_t)part);
      for (int part = 0; part < THREADS; part++)
         pthread_join(thread[part], NULL);
      homing_iteration();
   }
   uint64_t sum = 0;
   for (int part = 0; part < THREADS; part++)
      sum += sums[part];
   printf("sum %llu\n", (unsigned long long)sum);
   struct homing_statistics counts = {.size = sizeof counts};
   if (homing_statistics(&counts) == HOMING_OK)
      printf("%llu pages moved\n", (unsigned long long)counts.pages_moved);
   homing_area_forget_name("numbers");
   homing_stop();
   free(numbers);
   return 0;
}
