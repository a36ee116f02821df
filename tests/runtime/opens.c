/* A program without OpenMP that opens a library with it, as interpreters do.   opens LIBRARY ROUNDS */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
   void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
   long (*inside)(long) = library ? (long (*)(long))dlsym(library, "inside") : NULL;
   if (!inside)
      return fprintf(stderr, "opens: %s\n", argc == 3 ? dlerror() : "usage: opens LIBRARY ROUNDS"), 1;
   printf("%ld\n", inside(atol(argv[2])));
   return 0;
}
