/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mappings that the program makes itself: mmap, munmap, mremap, brk and sbrk. A mapping goes away before the call that
 * removes it, and appears after the call that makes it. */
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

static void *mapped(void *at, size_t length, int protection, int flags, int file, off_t offset)
{
   if (at == MAP_FAILED || !homing_active)
      return at;
   int saved = errno;
   if (homing_threads > 0) /* whoever unmapped this address before */
      homing_sync(HOMING_SYNC_ACQUIRE, OBJECT_MAPPINGS);
   word name = flags & MAP_ANONYMOUS ? 0 : file_name(file);
   word *room = homing_reserve(5);
   if (room != NULL) {
      room[0] = HOMING_WORD(HOMING_MMAP, (word)(unsigned)(protection & 0xffffff) << 32 | (flags & 0xffff));
      room[1] = (word)at;
      room[2] = length;
      room[3] = (word)offset;
      room[4] = name;
   }
   errno = saved;
   return at;
}

EXPORT void *mmap(void *hint, size_t length, int protection, int flags, int file, off_t offset)
{
   void *at = (void *)syscall(SYS_mmap, hint, length, protection, flags, file, offset);
   return mapped(at, length, protection, flags, file, offset);
}

EXPORT void *mmap64(void *hint, size_t length, int protection, int flags, int file, off_t offset)
{
   return mmap(hint, length, protection, flags, file, offset);
}

EXPORT int munmap(void *at, size_t length)
{
   if (homing_active) {
      homing_send(3, HOMING_WORD(HOMING_MUNMAP, 0), (word)at, length, 0, 0);
      if (homing_threads > 0)
         homing_sync(HOMING_SYNC_RELEASE, OBJECT_MAPPINGS);
   }
   return (int)syscall(SYS_munmap, at, length);
}

EXPORT void *mremap(void *at, size_t old_length, size_t new_length, int flags, ...)
{
   va_list arguments;
   va_start(arguments, flags);
   void *target = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
   va_end(arguments);
   void *moved = (void *)syscall(SYS_mremap, at, old_length, new_length, flags, target);
   if (moved != MAP_FAILED && homing_active)
      homing_send(5, HOMING_WORD(HOMING_MREMAP, 0), (word)at, old_length, (word)moved, new_length);
   return moved;
}

static void broke(word before, word now)
{
   if (before != now && homing_active)
      homing_send(3, HOMING_WORD(HOMING_BRK, 0), before, now, 0, 0);
}

EXPORT int brk(void *end)
{
   word before = (word)REAL(sbrk)(0);
   int result = REAL(brk)(end);
   if (result == 0)
      broke(before, (word)end);
   return result;
}

EXPORT void *sbrk(intptr_t more)
{
   void *before = REAL(sbrk)(more);
   if (before != (void *)-1)
      broke((word)before, (word)before + (word)more);
   return before;
}
