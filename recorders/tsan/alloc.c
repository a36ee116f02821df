/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Allocations: malloc and its kin, and C++ new, with their call-sites; and what glibc's allocator maps behind them,
 * which no interposed mmap sees: the program break, and chunks that are mappings of their own. */
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);

/* The allocator below us: glibc's, or the one the program is linked with. Looking it up may itself allocate, and frees
 * what an earlier lookup left: so all of it is looked up at once, and nothing later on the way of malloc and free. */
static struct {
   void *(*malloc)(size_t);
   void *(*calloc)(size_t, size_t);
   void *(*realloc)(void *, size_t);
   void *(*memalign)(size_t, size_t);
   void (*free)(void *);
   void *(*sbrk)(intptr_t);
   int is_glibc;
} next;

static char early[8192];
static size_t early_used;

static void *early_allocation(size_t bytes)
{
   size_t at = __atomic_fetch_add(&early_used, (bytes + 15) & ~(size_t)15, __ATOMIC_RELAXED);
   return at + bytes <= sizeof early ? early + at : NULL;
}

static int is_early(const void *at) { return (const char *)at >= early && (const char *)at < early + sizeof early; }

/* 0 while the lookup is under way. */
static int ready(void)
{
   static __thread int looking __attribute__((tls_model("initial-exec")));
   if (LIKELY(__atomic_load_n(&next.free, __ATOMIC_ACQUIRE) != NULL))
      return 1;
   if (looking)
      return 0;
   looking = 1;
   next.malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
   next.calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
   next.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
   next.memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
   next.sbrk = (void *(*)(intptr_t))dlsym(RTLD_NEXT, "sbrk");
   next.is_glibc = next.malloc == __libc_malloc || (void *)next.malloc == dlsym(RTLD_DEFAULT, "__libc_malloc");
   __atomic_store_n(&next.free, (void (*)(void *))dlsym(RTLD_NEXT, "free"), __ATOMIC_RELEASE);
   looking = 0;
   return 1;
}

/* A chunk that glibc mapped for itself: bit 1 of the size word before it (malloc.c, IS_MMAPPED). */
static int is_mapping(const void *at) { return next.is_glibc && at != NULL && (((const size_t *)at)[-1] & 2); }

/* The mapping of such a chunk: the words before it are the offset in the mapping and the size with its flag bits. */
static void mapping_of(const void *at, word *start, word *bytes)
{
   const size_t *words = at;
   *start = (word)at - 16 - words[-2];
   *bytes = (words[-1] & ~(size_t)7) + words[-2];
}

/* Whoever gets memory comes after those who gave up any that lay near: blocks are split and joined. */
static void near(unsigned kind, word at, word bytes)
{
   enum { NEAR = 16 };
   if (homing_threads == 0)
      return;
   for (word piece = at >> NEAR; piece <= (at + bytes) >> NEAR; piece++)
      homing_sync(kind, piece << NEAR | 1);
}

static word last_break;

static int moved_break(word *before, word *now)
{
   *now = next.is_glibc ? (word)next.sbrk(0) : 0;
   *before = __atomic_load_n(&last_break, __ATOMIC_RELAXED);
   return *now != *before;
}

/* Sends the program break if the allocator moved it. Where it went down the cut comes first: another thread that raises
 * it again and uses what is new there has then either been reported, or comes behind the cut. */
static void send_break(void)
{
   word before, now;
   if (!moved_break(&before, &now))
      return;
   struct cut cut = {0, 0};
   if (now < before) {
      cut = homing_begin_cut();
      moved_break(&before, &now);
   }
   int ours = __atomic_compare_exchange_n(&last_break, &before, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
   int words = ours && before != 0 && now != before ? 3 : 0;
   homing_end_cut(cut, (struct event){words, {HOMING_WORD(HOMING_BRK, 0), before, now}});
}

/* What malloc and its kin gave to the program. `known`: an event has reported its mapping, if it is one. */
static void *allocated(unsigned function, void *at, size_t bytes, word site, int known)
{
   if (LIKELY(!homing_active) || at == NULL)
      return at;
   int saved = errno;
   near(HOMING_SYNC_ACQUIRE, (word)at, bytes);
   send_break();
   if (is_mapping(at) && !known) {
      word start, length, access = PROT_READ | PROT_WRITE;
      mapping_of(at, &start, &length);
      homing_await_cut();
      homing_send(5, HOMING_WORD(HOMING_MMAP, access << 32 | MAP_PRIVATE | MAP_ANONYMOUS), start, length, 0, 0);
   }
   homing_send(4, HOMING_WORD(HOMING_ALLOC, function), (word)at, bytes, homing_site(site), 0);
   errno = saved;
   return at;
}

/* Before the memory goes back: afterwards another thread may get it, and say so first. */
static void freeing(void *at)
{
   homing_send(2, HOMING_WORD(HOMING_FREE, 0), (word)at, 0, 0, 0);
   near(HOMING_SYNC_RELEASE, (word)at, malloc_usable_size(at));
}

EXPORT void *malloc(size_t bytes)
{
   if (UNLIKELY(!ready()))
      return early_allocation(bytes);
   return allocated(HOMING_ALLOC_MALLOC, next.malloc(bytes), bytes, CALLER, 0);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
   if (UNLIKELY(!ready()))
      return early_allocation(count * bytes); /* static memory is zero */
   return allocated(HOMING_ALLOC_CALLOC, next.calloc(count, bytes), count * bytes, CALLER, 0);
}

EXPORT void free(void *at)
{
   if (UNLIKELY(is_early(at)) || UNLIKELY(!ready()))
      return;
   if (LIKELY(!homing_active) || at == NULL) {
      next.free(at);
      return;
   }
   freeing(at);
   if (is_mapping(at)) {
      word start, length;
      mapping_of(at, &start, &length);
      homing_cut((struct event){3, {HOMING_WORD(HOMING_MUNMAP, 0), start, length}});
   }
   next.free(at);
   send_break();
}

/* A block that is a mapping of its own: it is moved as such, or copied and given back. */
static void *resize_mapping(void *at, size_t bytes, word site)
{
   word start, length, new_start, new_length;
   mapping_of(at, &start, &length);
   struct cut cut = homing_begin_cut();
   void *moved = next.realloc(at, bytes);
   struct event event = {3, {HOMING_WORD(HOMING_MUNMAP, 0), start, length}};
   int still = is_mapping(moved);
   if (still) {
      mapping_of(moved, &new_start, &new_length);
      event = (struct event){5, {HOMING_WORD(HOMING_MREMAP, 0), start, length, new_start, new_length}};
   }
   if (still ? start == new_start && length == new_length : moved == NULL && bytes > 0)
      event.words = 0;
   homing_end_cut(cut, event);
   if (moved == NULL && bytes > 0) /* failed: the old block lives on */
      return allocated(HOMING_ALLOC_REALLOC, at, malloc_usable_size(at), site, 1), moved;
   return allocated(HOMING_ALLOC_REALLOC, moved, bytes, site, 1);
}

static void *resize(void *at, size_t bytes, word site)
{
   if (UNLIKELY(!ready()) || UNLIKELY(is_early(at))) {
      void *copy = ready() ? next.malloc(bytes) : early_allocation(bytes);
      for (size_t i = 0; copy != NULL && at != NULL && i < bytes && (char *)at + i < early + sizeof early; i++)
         ((char *)copy)[i] = ((char *)at)[i];
      return copy;
   }
   if (UNLIKELY(homing_active) && at != NULL) {
      freeing(at);
      if (is_mapping(at))
         return resize_mapping(at, bytes, site);
   }
   void *moved = next.realloc(at, bytes);
   if (moved == NULL && bytes > 0 && at != NULL) /* failed: the old block lives on */
      return allocated(HOMING_ALLOC_REALLOC, at, malloc_usable_size(at), site, 0), moved;
   return allocated(HOMING_ALLOC_REALLOC, moved, bytes, site, 0);
}

EXPORT void *realloc(void *at, size_t bytes) { return resize(at, bytes, CALLER); }

EXPORT void *reallocarray(void *at, size_t count, size_t bytes)
{
   size_t product;
   if (__builtin_mul_overflow(count, bytes, &product)) {
      errno = ENOMEM;
      return NULL;
   }
   return resize(at, product, CALLER);
}

static void *aligned(unsigned function, size_t alignment, size_t bytes, word site)
{
   if (!ready())
      return NULL;
   return allocated(function, next.memalign(alignment, bytes), bytes, site, 0);
}

EXPORT void *memalign(size_t alignment, size_t bytes)
{
   return aligned(HOMING_ALLOC_MEMALIGN, alignment, bytes, CALLER);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
   return aligned(HOMING_ALLOC_MEMALIGN, alignment, bytes, CALLER);
}

EXPORT void *valloc(size_t bytes)
{
   return aligned(HOMING_ALLOC_MEMALIGN, (size_t)sysconf(_SC_PAGESIZE), bytes, CALLER);
}

EXPORT void *pvalloc(size_t bytes)
{
   size_t page = (size_t)sysconf(_SC_PAGESIZE);
   return aligned(HOMING_ALLOC_MEMALIGN, page, (bytes + page - 1) & ~(page - 1), CALLER);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t bytes)
{
   if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0)
      return EINVAL;
   int saved = errno;
   void *at = aligned(HOMING_ALLOC_MEMALIGN, alignment, bytes, CALLER);
   errno = saved;
   if (at == NULL)
      return ENOMEM;
   *result = at;
   return 0;
}

/* C++ new and delete. Where memory is short, the library's own new calls the handler or throws. */
typedef struct nothrow nothrow;

static void *throwing(unsigned function, const char *symbol, size_t alignment, size_t bytes, word site)
{
   void *at = !ready() ? early_allocation(bytes)
              : alignment == 0 ? next.malloc(bytes ? bytes : 1)
                               : next.memalign(alignment, bytes ? bytes : 1);
   if (UNLIKELY(at == NULL)) {
      void *library = homing_next(symbol);
      at =
          alignment == 0 ? ((void *(*)(size_t))library)(bytes) : ((void *(*)(size_t, size_t))library)(bytes, alignment);
   }
   return allocated(function, at, bytes, site, 0);
}

static void *quiet(unsigned function, size_t alignment, size_t bytes, word site)
{
   if (!ready())
      return early_allocation(bytes);
   void *at = alignment == 0 ? next.malloc(bytes ? bytes : 1) : next.memalign(alignment, bytes ? bytes : 1);
   return allocated(function, at, bytes, site, 0);
}

#define NEW(mangled, function)                                                                                         \
   EXPORT void *mangled##m(size_t bytes) { return throwing(function, #mangled "m", 0, bytes, CALLER); }                \
   EXPORT void *mangled##mSt11align_val_t(size_t bytes, size_t alignment)                                              \
   {                                                                                                                   \
      return throwing(function, #mangled "mSt11align_val_t", alignment, bytes, CALLER);                                \
   }                                                                                                                   \
   EXPORT void *mangled##mRKSt9nothrow_t(size_t bytes, const nothrow *tag)                                             \
   {                                                                                                                   \
      (void)tag;                                                                                                       \
      return quiet(function, 0, bytes, CALLER);                                                                        \
   }                                                                                                                   \
   EXPORT void *mangled##mSt11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const nothrow *tag)            \
   {                                                                                                                   \
      (void)tag;                                                                                                       \
      return quiet(function, alignment, bytes, CALLER);                                                                \
   }

NEW(_Znw, HOMING_ALLOC_NEW)
NEW(_Zna, HOMING_ALLOC_NEW_ARRAY)

#define DELETE(name, ...)                                                                                              \
   EXPORT void name(void *at, ##__VA_ARGS__) { free(at); }

#pragma GCC diagnostic ignored "-Wunused-parameter"
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm, size_t bytes)
DELETE(_ZdaPvm, size_t bytes)
DELETE(_ZdlPvSt11align_val_t, size_t alignment)
DELETE(_ZdaPvSt11align_val_t, size_t alignment)
DELETE(_ZdlPvmSt11align_val_t, size_t bytes, size_t alignment)
DELETE(_ZdaPvmSt11align_val_t, size_t bytes, size_t alignment)
DELETE(_ZdlPvRKSt9nothrow_t, const nothrow *tag)
DELETE(_ZdaPvRKSt9nothrow_t, const nothrow *tag)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, size_t alignment, const nothrow *tag)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, size_t alignment, const nothrow *tag)
