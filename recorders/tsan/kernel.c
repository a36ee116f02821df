/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the kernel places for a thread in memory that nobody has referred to yet: what it reads from files and sockets,
 * and pages that it is asked to have ready. */
#include "runtime.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static void kernel_wrote(const void *at, long bytes)
{
   int saved = errno;
   if (bytes > 0 && homing_active && !homing_self.inside)
      homing_send(3, HOMING_WORD(HOMING_KERNEL_ACCESS, (word)bytes), (word)at, 1, 0, 0);
   errno = saved;
}

static void huge_pages(const void *at, size_t bytes, int wanted)
{
   if (homing_active && !homing_self.inside)
      homing_send(3, HOMING_WORD(HOMING_HUGE, wanted), (word)at, bytes, 0, 0);
}

static void kernel_wrote_all(const struct iovec *parts, int count, long bytes)
{
   for (int i = 0; i < count && bytes > 0; i++) {
      long here = (long)parts[i].iov_len < bytes ? (long)parts[i].iov_len : bytes;
      kernel_wrote(parts[i].iov_base, here);
      bytes -= here;
   }
}

EXPORT ssize_t read(int file, void *at, size_t bytes)
{
   homing_may_block();
   ssize_t got = REAL(read)(file, at, bytes);
   kernel_wrote(at, got);
   return got;
}

EXPORT ssize_t pread(int file, void *at, size_t bytes, off_t offset)
{
   ssize_t got = REAL(pread)(file, at, bytes, offset);
   kernel_wrote(at, got);
   return got;
}

EXPORT ssize_t pread64(int file, void *at, size_t bytes, off64_t offset)
{
   ssize_t got = REAL(pread64)(file, at, bytes, offset);
   kernel_wrote(at, got);
   return got;
}

EXPORT ssize_t readv(int file, const struct iovec *parts, int count)
{
   homing_may_block();
   ssize_t got = REAL(readv)(file, parts, count);
   kernel_wrote_all(parts, count, got);
   return got;
}

EXPORT ssize_t recv(int file, void *at, size_t bytes, int flags)
{
   homing_may_block();
   ssize_t got = REAL(recv)(file, at, bytes, flags);
   kernel_wrote(at, got < (ssize_t)bytes ? got : (ssize_t)bytes);
   return got;
}

EXPORT ssize_t recvfrom(int file, void *at, size_t bytes, int flags, struct sockaddr *restrict from,
                        socklen_t *restrict length)
{
   homing_may_block();
   ssize_t got = REAL(recvfrom)(file, at, bytes, flags, from, length);
   kernel_wrote(at, got < (ssize_t)bytes ? got : (ssize_t)bytes);
   return got;
}

EXPORT ssize_t recvmsg(int file, struct msghdr *message, int flags)
{
   homing_may_block();
   ssize_t got = REAL(recvmsg)(file, message, flags);
   if (got > 0)
      kernel_wrote_all(message->msg_iov, (int)message->msg_iovlen, got);
   return got;
}

/* The C library reads what is larger than its buffer right into the program's memory, and copies the rest there. */
EXPORT size_t fread(void *at, size_t size, size_t count, FILE *file)
{
   size_t got = REAL(fread)(at, size, count, file);
   kernel_wrote(at, (long)(got * size));
   return got;
}

EXPORT int mlock(const void *at, size_t bytes)
{
   int result = (int)syscall(SYS_mlock, at, bytes);
   if (result == 0)
      kernel_wrote(at, (long)bytes);
   return result;
}

EXPORT int madvise(void *at, size_t bytes, int advice)
{
   int result = (int)syscall(SYS_madvise, at, bytes, advice);
   if (result == 0 && (advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE))
      kernel_wrote(at, (long)bytes);
   if (result == 0 && (advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE))
      huge_pages(at, bytes, advice == MADV_HUGEPAGE);
   return result;
}
