/* Pages that one thread gives up and another gets anew at the same address, for the tests of the runtime: in each round
 * somebody maps the page, thread 0 writes it 3 times and thread 1 5 times, somebody gives it up, in changing roles. The
 * threads wait for each other by a barrier, or by a flag and a futex that the runtime knows nothing of. Prints the
 * page's address and how often it was mapped. */
#define _GNU_SOURCE 1
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 3000, PAGE = 4096, BLOCK = 1 << 20 };

static char *place, *elsewhere, *volatile here;
static int at_first;
static pthread_barrier_t barrier;
static int use_futex;
static volatile long sink[2][1 << 12];

__attribute__((no_sanitize("thread"))) static void by_futex(void)
{
   static int arrived, turn;
   int now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE);
   if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == 2) {
      arrived = 0;
      __atomic_store_n(&turn, now + 1, __ATOMIC_RELEASE);
      syscall(SYS_futex, &turn, FUTEX_WAKE, 1, NULL, NULL, 0);
   }
   while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) == now)
      syscall(SYS_futex, &turn, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void meet(void)
{
   if (use_futex)
      by_futex();
   else
      pthread_barrier_wait(&barrier);
}

static char *map_at(char *at, int flags)
{
   return mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Ways to get the page and to give it up. */
static char *by_hint(void) { return map_at(place, 0); }
static char *fixed(void) { return map_at(place, MAP_FIXED); }
static char *by_break(void) { return sbrk(PAGE); }
static char *by_malloc(void) { return malloc(BLOCK); }
static void release(char *at) { free(at); }
static void unmap(char *at) { munmap(at, PAGE); }
static void keep(char *at) { (void)at; }
static void lower(char *at) { (void)at, sbrk(-PAGE); }
static void move(char *at) { munmap(mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), PAGE); }
static void resize(char *at) { free(realloc(at, 8 * BLOCK)); }

static const struct {
   const char *name;
   char *(*get)(void);
   void (*give)(char *);
} ways[] = {{"unmap", by_hint, unmap}, {"fixed", fixed, keep},       {"move", by_hint, move},
            {"break", by_break, lower}, {"free", by_malloc, release}, {"resize", by_malloc, resize}};
static size_t way;

static void *run(void *argument)
{
   uintptr_t self = (uintptr_t)argument;
   for (unsigned round = 0; round < ROUNDS; round++) {
      if (round % 2 == self) {
         here = ways[way].get();
         if (round == 0)
            place = here;
         at_first += here == place;
      }
      meet();
      volatile long *page = (volatile long *)(here + 64);
      for (uintptr_t i = 0; i < (self ? 5 : 3); i++)
         page[8 * i] = round;
      /* The threads' segments are full at other times. */
      for (unsigned i = 0; i < (self ? round % 7 : round * 13 % 11) * 64; i++)
         sink[self][i] = round;
      meet();
      if (round / 2 % 2 == self)
         ways[way].give(here);
      meet();
   }
   return NULL;
}

int main(int count, char **arguments)
{
   if (count < 3)
      return 2;
   while (way < sizeof ways / sizeof ways[0] && strcmp(ways[way].name, arguments[1]) != 0)
      way++;
   use_futex = strcmp(arguments[2], "futex") == 0;
   mallopt(M_MMAP_THRESHOLD, BLOCK / 2);
   mallopt(M_ARENA_MAX, 1);
   elsewhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   place = map_at(NULL, 0);
   munmap(place, PAGE);
   pthread_barrier_init(&barrier, NULL, 2);
   pthread_t other;
   pthread_create(&other, NULL, run, (void *)1);
   run(NULL);
   pthread_join(other, NULL);
   printf("%lx %d\n", (long)place, at_first);
   return 0;
}
