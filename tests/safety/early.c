/* An allocator that is preloaded to count who calls it before `main`, and that allocates, makes mappings and starts a
 * thread before any other library has begun. What it gives comes from the C library's own. `early_calls` says how many
 * calls were made. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static unsigned long calls;
static int own;

unsigned long early_calls(void)
{
   return calls;
}

static void count(void)
{
   if (!__atomic_load_n(&own, __ATOMIC_RELAXED))
      __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes)
{
   count();
   return __libc_malloc(bytes);
}

void *calloc(size_t count_of, size_t each)
{
   count();
   return __libc_calloc(count_of, each);
}

void *realloc(void *old, size_t bytes)
{
   count();
   return __libc_realloc(old, bytes);
}

void free(void *memory)
{
   __libc_free(memory);
}

static void *work(void *argument)
{
   return argument;
}

/* The library that stands before this one has not begun. By way of `volatile` the calls go to whoever is first. */
__attribute__((constructor)) static void begin(void)
{
   void *(*volatile allocate)(size_t) = malloc, *(*volatile clear)(size_t, size_t) = calloc;
   pthread_t thread;
   own = 1;
   void *first = allocate(300000), *second = clear(1000, 300);
   void *mapping = mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (!first || !second || mapping == MAP_FAILED || pthread_create(&thread, NULL, work, NULL) != 0)
      abort();
   memset(first, 1, 300000), memset(mapping, 1, 300000);
   pthread_join(thread, NULL);
   free(first), free(second), munmap(mapping, 300000);
   own = 0;
}
