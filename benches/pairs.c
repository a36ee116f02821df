/* Runs two commands in turn, and prints a row of a Markdown table: the median CPU seconds of each (with those of its
 * children, in user and system mode), and the median and range of the ratio of a pair. Which comes first alternates.
 *
 *   pairs NAME TIMES COMMAND... -- COMMAND...
 *   pairs main               prints the nanoseconds of the monotonic clock when main begins, and the resident KiB
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1001 };

static double cpu_seconds(char **command)
{
   struct rusage used;
   int status;
   pid_t child = fork();
   if (child == 0) {
      int nothing = open("/dev/null", O_WRONLY);
      dup2(nothing, STDOUT_FILENO), dup2(nothing, STDERR_FILENO);
      execvp(command[0], command), _exit(127);
   }
   if (wait4(child, &status, 0, &used) != child || status != 0)
      fprintf(stderr, "pairs: %s failed: status %#x\n", command[0], status), exit(1);
   return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int by_size(const void *a, const void *b)
{
   double left = *(const double *)a, right = *(const double *)b;
   return (left > right) - (left < right);
}

static int tell_main(void)
{
   struct timespec now;
   char line[256];
   long resident = 0;
   clock_gettime(CLOCK_MONOTONIC, &now);
   FILE *status = fopen("/proc/self/status", "r");
   while (status && fgets(line, sizeof line, status))
      if (strncmp(line, "VmRSS:", 6) == 0)
         resident = atol(line + 6);
   return printf("%lld %ld\n", now.tv_sec * 1000000000LL + now.tv_nsec, resident) < 0;
}

int main(int argc, char **argv)
{
   static double first[MOST], second[MOST], ratio[MOST];
   if (argc == 2 && strcmp(argv[1], "main") == 0)
      return tell_main();
   int times = argc > 2 ? atoi(argv[2]) : 0, middle = 3;
   while (middle < argc && strcmp(argv[middle], "--") != 0)
      middle++;
   if (times < 1 || times > MOST || middle == 3 || middle + 1 >= argc)
      return fputs("usage: pairs NAME TIMES COMMAND... -- COMMAND... | pairs main\n", stderr), 2;
   argv[middle] = NULL;
   for (int pair = 0; pair < times; pair++) {
      if (pair % 2 == 0)
         first[pair] = cpu_seconds(argv + 3), second[pair] = cpu_seconds(argv + middle + 1);
      else
         second[pair] = cpu_seconds(argv + middle + 1), first[pair] = cpu_seconds(argv + 3);
      ratio[pair] = second[pair] / first[pair];
   }
   qsort(first, times, sizeof *first, by_size), qsort(second, times, sizeof *second, by_size);
   qsort(ratio, times, sizeof *ratio, by_size);
   printf("| %s | %.3f | %.3f | %.3f | %.3f-%.3f |\n", argv[1], first[times / 2], second[times / 2], ratio[times / 2],
          ratio[0], ratio[times - 1]);
   return 0;
}
