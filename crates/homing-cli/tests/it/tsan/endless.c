/* Says who it is, and refers to memory for ever. */
#include <stdio.h>
#include <unistd.h>

static volatile long words[100];

int main(void)
{
   printf("%d\n", (int)getpid());
   fflush(stdout);
   for (long i = 0;; i++)
      words[i % 100] = i;
}
