/* Allocates by all functions that there are, in four threads, and checks what it gets. Prints a sum that is always the
 * same; `maps` adds which libraries of Homing are loaded, `late` first installs a filter by which the kernel kills
 * whoever asks for a memory policy, a CPU or the threads' CPUs.
 *
 *   memory [maps | late-prctl | late-syscall]
 */
#define _GNU_SOURCE
#include "filter.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 4, ROUNDS = 300, HELD = 16 };

static void *make(unsigned kind, size_t bytes)
{
   void *memory = NULL;
   switch (kind % 6) {
   case 0: return malloc(bytes);
   case 1: return calloc(bytes / 8 + 1, 8);
   case 2: return memalign(4096, bytes);
   case 3: return aligned_alloc(64, (bytes + 63) / 64 * 64);
   case 4: return posix_memalign(&memory, 256, bytes) == 0 ? memory : NULL;
   default: return realloc(malloc(bytes / 2 + 1), bytes);
   }
}

static void *work(void *data)
{
   unsigned long seed = (unsigned long)(uintptr_t)data, sum = 0;
   struct {
      unsigned char *memory;
      size_t bytes;
      unsigned char value;
   } held[HELD] = {{NULL, 0, 0}};
   for (unsigned round = 0; round < ROUNDS; round++) {
      unsigned at = round % HELD;
      seed = seed * 6364136223846793005UL + 1442695040888963407UL;
      for (size_t byte = 0; byte < held[at].bytes; byte += 509)
         if (held[at].memory[byte] != held[at].value)
            puts("memory: another wrote here"), exit(1);
      free(held[at].memory);
      size_t bytes = seed >> 33 & (round % 3 == 0 ? 0xfffff : 0x3ff);
      held[at].memory = make(round, bytes + 1), held[at].bytes = bytes, held[at].value = seed >> 50;
      if (!held[at].memory)
         puts("memory: there is none"), exit(1);
      memset(held[at].memory, held[at].value, bytes);
      sum += bytes ^ held[at].value;
   }
   for (unsigned at = 0; at < HELD; at++)
      free(held[at].memory);
   void *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (mapping == MAP_FAILED)
      puts("memory: no mapping"), exit(1);
   memset(mapping, 1, 1 << 20);
   munmap(mapping, 1 << 20);
   return (void *)(uintptr_t)sum;
}

static void tell_libraries(void)
{
   char line[4096];
   FILE *maps = fopen("/proc/self/maps", "r");
   while (maps && fgets(line, sizeof line, maps))
      if (strstr(line, "libhoming") && strstr(line, " 00000000 "))
         printf("loaded %s", strrchr(line, '/') + 1);
   if (maps)
      fclose(maps);
}

int main(int argc, char **argv)
{
   pthread_t threads[THREADS];
   unsigned long sum = 0;
   const char *what = argc > 1 ? argv[1] : "";
   static const int refused[] = {SYS_mbind, SYS_set_mempolicy, SYS_sched_setaffinity, SYS_getcpu};
   if (strncmp(what, "late-", 5) == 0 &&
       install(SECCOMP_RET_KILL_PROCESS, refused, 4, strcmp(what, "late-syscall") == 0) != 0)
      return perror("memory: seccomp"), 1;
   for (unsigned long i = 0; i < THREADS; i++)
      if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0)
         return perror("memory: pthread_create"), 1;
   for (unsigned i = 0; i < THREADS; i++) {
      void *part;
      pthread_join(threads[i], &part);
      sum += (unsigned long)(uintptr_t)part;
   }
   printf("memory: %lu\n", sum);
   if (strcmp(what, "maps") == 0)
      tell_libraries();
   return 0;
}
