/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mappings that the program makes itself: mmap, munmap, mremap, brk and sbrk. */
#include "runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The path behind a descriptor. */
static word file_name(int file)
{
   char link[32], path[512];
   if (file < 0 || !homing_active || homing_self.inside)
      return 0;
   snprintf(link, sizeof link, "/proc/self/fd/%d", file);
   long length = readlink(link, path, sizeof path);
   return length > 0 ? homing_name(path, (unsigned)length) : 0;
}

static void mappings(unsigned kind)
{
   if (!homing_is_alone())
      homing_sync(kind, OBJECT_MAPPINGS);
}

EXPORT void *mmap(void *hint, size_t length, int protection, int flags, int file, off_t offset)
{
   if (!homing_active)
      return (void *)syscall(SYS_mmap, hint, length, protection, flags, file, offset);
   struct event event = {5, {HOMING_WORD(HOMING_MMAP, (word)(unsigned)(protection & 0xffffff) << 32 | (flags & 0xffff)),
                             0, length, (word)offset, flags & MAP_ANONYMOUS ? 0 : file_name(file)}};
   int replaces = flags & MAP_FIXED;
   struct cut cut = replaces ? homing_begin_cut() : (struct cut){0, 0};
   void *at = (void *)syscall(SYS_mmap, hint, length, protection, flags, file, offset);
   int saved = errno;
   if (at == MAP_FAILED)
      event.words = 0;
   event.word[1] = (word)at;
   homing_end_cut(cut, event);
   if (at != MAP_FAILED) {
      homing_await_cut();
      mappings(HOMING_SYNC_ACQUIRE); /* whoever unmapped this address before */
   }
   errno = saved;
   return at;
}

EXPORT void *mmap64(void *hint, size_t length, int protection, int flags, int file, off_t offset)
{
   return mmap(hint, length, protection, flags, file, offset);
}

EXPORT int munmap(void *at, size_t length)
{
   if (homing_active) {
      mappings(HOMING_SYNC_RELEASE);
      homing_cut((struct event){3, {HOMING_WORD(HOMING_MUNMAP, 0), (word)at, length}});
   }
   return (int)syscall(SYS_munmap, at, length);
}

EXPORT void *mremap(void *at, size_t old_length, size_t new_length, int flags, ...)
{
   va_list arguments;
   va_start(arguments, flags);
   void *target = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
   va_end(arguments);
   if (!homing_active)
      return (void *)syscall(SYS_mremap, at, old_length, new_length, flags, target);
   mappings(HOMING_SYNC_RELEASE);
   struct cut cut = homing_begin_cut();
   void *moved = (void *)syscall(SYS_mremap, at, old_length, new_length, flags, target);
   int saved = errno;
   homing_end_cut(cut, (struct event){moved == MAP_FAILED ? 0 : 5,
                                      {HOMING_WORD(HOMING_MREMAP, 0), (word)at, old_length, (word)moved, new_length}});
   if (moved != MAP_FAILED) {
      homing_await_cut();
      mappings(HOMING_SYNC_ACQUIRE);
   }
   errno = saved;
   return moved;
}

/* The program break, which the kernel lowers before we know that it did as asked. */
static struct cut before_break(word before, word wanted)
{
   return homing_active && wanted < before ? homing_begin_cut() : (struct cut){0, 0};
}

static void after_break(struct cut cut, word before, word now)
{
   if (homing_active)
      homing_end_cut(cut, (struct event){before == now ? 0 : 3, {HOMING_WORD(HOMING_BRK, 0), before, now}});
}

EXPORT int brk(void *end)
{
   word before = (word)REAL(sbrk)(0);
   struct cut cut = before_break(before, (word)end);
   int result = REAL(brk)(end), saved = errno;
   after_break(cut, before, result == 0 ? (word)end : before);
   errno = saved;
   return result;
}

EXPORT void *sbrk(intptr_t more)
{
   word start = (word)REAL(sbrk)(0);
   struct cut cut = before_break(start, start + (word)more);
   void *before = REAL(sbrk)(more);
   int saved = errno;
   after_break(cut, (word)before, before == (void *)-1 ? (word)before : (word)before + (word)more);
   errno = saved;
   return before;
}
