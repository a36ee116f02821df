/* Opens and closes libraries.
 *
 *   loads LIBRARY TIMES      libhoming: opens it, calls it, closes it; then says what is left of that
 *   loads tls LIBRARY...     says which of the libraries of tls.c can be opened
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int entries(const char *folder)
{
   int count = 0;
   DIR *directory = opendir(folder);
   while (directory && readdir(directory))
      count++;
   if (directory)
      closedir(directory);
   return count;
}

static long lines(void)
{
   long count = 0;
   FILE *maps = fopen("/proc/self/maps", "r");
   for (int c; maps && (c = getc(maps)) != EOF;)
      count += c == '\n';
   if (maps)
      fclose(maps);
   return count;
}

typedef int starts(const char *), stops(void), adds(const void *, size_t, const char *), forgets(const void *);

static int once(const char *path)
{
   void *library = dlopen(path, RTLD_NOW);
   if (!library)
      return fprintf(stderr, "loads: %s\n", dlerror()), 0;
   starts *start = (starts *)dlsym(library, "homing_start");
   stops *stop = (stops *)dlsym(library, "homing_stop");
   adds *area = (adds *)dlsym(library, "homing_area");
   forgets *forget = (forgets *)dlsym(library, "homing_area_forget");
   static char memory[10000];
   if (!start || !stop || !area || !forget || start(NULL) < 0)
      return fputs("loads: homing_start\n", stderr), 0;
   if (area(memory, sizeof memory, "memory") != 0 || forget(memory) != 0)
      return fputs("loads: homing_area\n", stderr), 0;
   stop();
   return dlclose(library) == 0;
}

int main(int argc, char **argv)
{
   if (argc < 3)
      return fputs("usage: loads LIBRARY TIMES | tls LIBRARY...\n", stderr), 2;
   if (strcmp(argv[1], "tls") == 0) {
      for (int i = 2; i < argc; i++) {
         void *library = dlopen(argv[i], RTLD_NOW);
         char *(*of_this_thread)(void) = library ? (char *(*)(void))dlsym(library, "of_this_thread") : NULL;
         if (of_this_thread)
            *of_this_thread() = 1;
         printf("%s %s\n", argv[i], of_this_thread ? "is there" : "has no room");
         if (library)
            dlclose(library);
      }
      return 0;
   }
   if (!once(argv[1]))
      return 1;
   int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
   long mappings = lines();
   for (int times = atoi(argv[2]); times > 0; times--)
      if (!once(argv[1]))
         return 1;
   threads = entries("/proc/self/task") - threads, files = entries("/proc/self/fd") - files;
   mappings = lines() - mappings;
   printf("loads: %d more threads, %d more files, %s mappings\n", threads, files, mappings > 20 ? "more" : "no more");
   return threads != 0 || files != 0 || mappings > 20;
}
