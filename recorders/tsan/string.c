/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Memory and string functions. The compilers leave their accesses to the library, so they are recorded here: as ranges
 * in pieces of 32 bytes, much as libc's vector code makes them, and the real function does the work.
 *
 * Built without the compiler's own knowledge of these names (-fno-builtin), or it would call them from themselves. */
#include "runtime.h"

#include <dlfcn.h>
#include <string.h>
#include <wchar.h>

/* The library's function; NULL while it is being looked up (the linker itself copies memory). */
#define LIBRARY(name)                                                                                                  \
   ({                                                                                                                  \
      static __typeof__(&name) real_;                                                                                  \
      static int looking_;                                                                                             \
      if (UNLIKELY(real_ == NULL) && !looking_) {                                                                      \
         looking_ = 1;                                                                                                 \
         real_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                                           \
         looking_ = 0;                                                                                                 \
      }                                                                                                                \
      real_;                                                                                                           \
   })

static inline void reads(const void *at, size_t bytes, word site)
{
   if (LIKELY(homing_active) && !homing_self.inside && !homing_only_program)
      homing_range((word)at, bytes, 0, site);
}

static inline void writes(const void *at, size_t bytes, word site)
{
   if (LIKELY(homing_active) && !homing_self.inside && !homing_only_program)
      homing_range((word)at, bytes, 1, site);
}

static void *copy(void *to, const void *from, size_t bytes, word site)
{
   reads(from, bytes, site);
   writes(to, bytes, site + 1);
   __typeof__(&memmove) library = LIBRARY(memmove);
   if (LIKELY(library != NULL))
      return library(to, from, bytes);
   for (size_t i = 0; i < bytes; i++)
      if ((char *)to <= (const char *)from)
         ((volatile char *)to)[i] = ((const char *)from)[i];
      else
         ((volatile char *)to)[bytes - 1 - i] = ((const char *)from)[bytes - 1 - i];
   return to;
}

static void *fill(void *at, int byte, size_t bytes, word site)
{
   writes(at, bytes, site);
   __typeof__(&memset) library = LIBRARY(memset);
   if (LIKELY(library != NULL))
      return library(at, byte, bytes);
   for (size_t i = 0; i < bytes; i++)
      ((volatile char *)at)[i] = (char)byte;
   return at;
}

EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t n) { return copy(to, from, n, CALLER); }
EXPORT void *memmove(void *to, const void *from, size_t n) { return copy(to, from, n, CALLER); }
EXPORT void *memset(void *at, int byte, size_t n) { return fill(at, byte, n, CALLER); }
EXPORT void *__tsan_memcpy(void *to, const void *from, size_t n) { return copy(to, from, n, CALLER); }
EXPORT void *__tsan_memmove(void *to, const void *from, size_t n) { return copy(to, from, n, CALLER); }
EXPORT void *__tsan_memset(void *at, int byte, size_t n) { return fill(at, byte, n, CALLER); }
EXPORT void *__memcpy_chk(void *to, const void *from, size_t n, size_t room)
{
   if (n > room)
      __builtin_trap();
   return copy(to, from, n, CALLER);
}
EXPORT void *__memset_chk(void *at, int byte, size_t n, size_t room)
{
   if (n > room)
      __builtin_trap();
   return fill(at, byte, n, CALLER);
}

EXPORT void *mempcpy(void *restrict to, const void *restrict from, size_t n)
{
   return (char *)copy(to, from, n, CALLER) + n;
}

EXPORT int memcmp(const void *a, const void *b, size_t n)
{
   const uint8_t *left = a, *right = b;
   size_t same = 0;
   while (same < n && left[same] == right[same])
      same++;
   reads(a, same < n ? same + 1 : n, CALLER);
   reads(b, same < n ? same + 1 : n, CALLER + 1);
   return same < n ? left[same] - right[same] : 0;
}

EXPORT size_t strlen(const char *text)
{
   __typeof__(&strlen) library = LIBRARY(strlen);
   size_t length = 0;
   if (LIKELY(library != NULL))
      length = library(text);
   else
      while (((const volatile char *)text)[length] != 0)
         length++;
   reads(text, length + 1, CALLER);
   return length;
}

EXPORT char *strcpy(char *restrict to, const char *restrict from)
{
   copy(to, from, REAL(strlen)(from) + 1, CALLER);
   return to;
}

EXPORT char *stpcpy(char *restrict to, const char *restrict from)
{
   size_t length = REAL(strlen)(from);
   copy(to, from, length + 1, CALLER);
   return to + length;
}

EXPORT char *strncpy(char *restrict to, const char *restrict from, size_t n)
{
   size_t length = REAL(strnlen)(from, n);
   reads(from, length < n ? length + 1 : n, CALLER);
   writes(to, n, CALLER + 1);
   return REAL(strncpy)(to, from, n);
}

EXPORT char *strcat(char *restrict to, const char *restrict from)
{
   size_t length = REAL(strlen)(to);
   reads(to, length + 1, CALLER);
   copy(to + length, from, REAL(strlen)(from) + 1, CALLER);
   return to;
}

/* Bytes that a comparison looks at. */
static size_t compared(const char *a, const char *b, size_t n)
{
   size_t at = 0;
   while (at < n && a[at] == b[at] && a[at] != 0)
      at++;
   return at < n ? at + 1 : n;
}

EXPORT int strcmp(const char *a, const char *b)
{
   size_t seen = compared(a, b, SIZE_MAX);
   reads(a, seen, CALLER);
   reads(b, seen, CALLER + 1);
   return ((const uint8_t *)a)[seen - 1] - ((const uint8_t *)b)[seen - 1];
}

EXPORT int strncmp(const char *a, const char *b, size_t n)
{
   size_t seen = compared(a, b, n);
   reads(a, seen, CALLER);
   reads(b, seen, CALLER + 1);
   return seen == 0 ? 0 : ((const uint8_t *)a)[seen - 1] - ((const uint8_t *)b)[seen - 1];
}

EXPORT char *strchr(const char *text, int byte)
{
   char *found = REAL(strchr)(text, byte);
   reads(text, (found != NULL ? (size_t)(found - text) : REAL(strlen)(text)) + 1, CALLER);
   return found;
}

EXPORT char *strrchr(const char *text, int byte)
{
   reads(text, REAL(strlen)(text) + 1, CALLER);
   return REAL(strrchr)(text, byte);
}

EXPORT void *memchr(const void *at, int byte, size_t n)
{
   const char *found = REAL(memchr)(at, byte, n);
   reads(at, found != NULL ? (size_t)(found - (const char *)at) + 1 : n, CALLER);
   return (void *)found;
}
