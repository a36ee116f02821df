/* A library that starts libhoming in the program that it is loaded into, as a program that is linked with it would at
 * the beginning of its main. With STARTS=FILE in the environment it appends to that file how long that took, the
 * resident memory before and after it, and at the end of the program what the manager did. */
#define _GNU_SOURCE
#include <errno.h>
#include <homing/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long resident(void)
{
   char line[256];
   long kib = 0;
   FILE *status = fopen("/proc/self/status", "r");
   while (status && fgets(line, sizeof line, status))
      if (strncmp(line, "VmRSS:", 6) == 0)
         kib = atol(line + 6);
   if (status)
      fclose(status);
   return kib;
}

static double began;

static double now(void)
{
   struct timespec time;
   clock_gettime(CLOCK_MONOTONIC, &time);
   return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

__attribute__((destructor)) static void end(void)
{
   struct homing_statistics counts = {.size = sizeof counts};
   const char *file = getenv("STARTS");
   FILE *out = file ? fopen(file, "a") : NULL;
   if (out && homing_statistics(&counts) == HOMING_OK)
      fprintf(out, "%s: %.2f s, manager %.3f s, %llu scans, %llu missed, %llu pages, resident %ld KiB\n",
              program_invocation_short_name, (now() - began) / 1e6, counts.manager_ns / 1e9,
              (unsigned long long)counts.scans, (unsigned long long)counts.scans_missed,
              (unsigned long long)counts.pages, resident());
   if (out)
      fclose(out);
}

__attribute__((constructor)) static void begin(void)
{
   const char *file = getenv("STARTS");
   long before = resident();
   began = now();
   int status = homing_start(NULL);
   double took = now() - began;
   FILE *out = file ? fopen(file, "a") : NULL;
   if (!out)
      return;
   fprintf(out, "homing_start: status %d, %.0f us, resident %ld KiB before, %ld after\n", status, took, before,
           resident());
   fclose(out);
}
