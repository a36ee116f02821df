/* Says how many allocations were made before `main`, by the count of the preloaded early.c: one by itself if COUNTED is
 * in the environment. */
#include <stdio.h>
#include <stdlib.h>

extern unsigned long early_calls(void) __attribute__((weak));

static void *volatile memory;

__attribute__((constructor)) static void begin(void)
{
   if (getenv("COUNTED"))
      memory = malloc(100);
}

int main(void)
{
   unsigned long calls = early_calls ? early_calls() : 0;
   return printf("counted: %s, %lu allocations before main\n", early_calls ? "by early.c" : "by nobody", calls) < 0;
}
