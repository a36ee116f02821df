/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The two pipes to homing. Many programs close descriptors that they do not know, or put files in their place: ours
 * have high numbers, are closed by no call of libc, and are looked at before each use. Where they are gone nonetheless,
 * recording ends with a message, and nothing is written into a file of the program's. */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum { WAIT_BEFORE_COMPLAINING_MS = 10000, HIGH = 4096, BELOW_LIMIT = 16 };

struct own {
   int file;
   dev_t device;
   ino_t inode;
};
static struct own credit = {.file = -1}, full = {.file = -1};
static int said_lost;

static int own(int file) { return homing_active && file >= 0 && (file == credit.file || file == full.file); }

static int is_there(const struct own *pipe)
{
   struct stat status;
   return fstat(pipe->file, &status) == 0 && status.st_dev == pipe->device && status.st_ino == pipe->inode;
}

static int is_lost(const struct own *pipe)
{
   if (is_there(pipe))
      return 0;
   if (pipe->file >= 0 && !__atomic_exchange_n(&said_lost, 1, __ATOMIC_RELAXED))
      homing_say("homing: the program has closed the recorder's descriptors: it runs on without being recorded\n");
   return 1;
}

static struct own keep(int file)
{
   struct rlimit most = {1024, 1024};
   getrlimit(RLIMIT_NOFILE, &most);
   long above = (long)(most.rlim_cur < HIGH ? most.rlim_cur : HIGH) - BELOW_LIMIT;
   int high = above > 0 ? fcntl(file, F_DUPFD_CLOEXEC, (int)above) : -1;
   if (high >= 0)
      syscall(SYS_close, file);
   else
      fcntl(file, F_SETFD, FD_CLOEXEC);
   struct own pipe = {.file = high >= 0 ? high : file};
   struct stat status = {0};
   fstat(pipe.file, &status);
   pipe.device = status.st_dev;
   pipe.inode = status.st_ino;
   return pipe;
}

void homing_open_pipes(int credit_fd, int full_fd)
{
   homing_close_pipes(); /* of the recording before */
   credit = keep(credit_fd);
   full = keep(full_fd);
}

void homing_close_pipes(void)
{
   if (is_there(&credit))
      syscall(SYS_close, credit.file);
   if (is_there(&full))
      syscall(SYS_close, full.file);
   credit.file = full.file = -1;
}

long homing_take_credit(void)
{
   struct pollfd ready = {.fd = credit.file, .events = POLLIN};
   int complained = 0;
   for (;;) {
      struct timespec wait = {WAIT_BEFORE_COMPLAINING_MS / 1000, 0};
      long found = syscall(SYS_ppoll, &ready, 1, complained ? NULL : &wait, NULL, 0);
      if (found == 0 && !complained) {
         homing_say("homing: a thread has waited 10 s for a free segment; if the recording stands still, more "
                    "threads hold one than there are, and wait where the recorder does not see it\n");
         complained = 1;
      }
      if (found <= 0)
         continue;
      if (is_lost(&credit))
         return HOMING_PIPE_LOST;
      uint32_t segment;
      long got = syscall(SYS_read, credit.file, &segment, sizeof segment);
      if (got == (long)sizeof segment)
         return segment;
      if (got == 0)
         return HOMING_GONE;
      if (got < 0 && errno != EINTR && errno != EAGAIN)
         return HOMING_PIPE_LOST;
   }
}

long homing_send_full(const homing_wire_full *message)
{
   /* A pipe without a reader would raise SIGPIPE and kill the program. */
   struct pollfd ready = {.fd = full.file, .events = POLLOUT};
   struct timespec now = {0, 0};
   if (is_lost(&full))
      return HOMING_PIPE_LOST;
   if (syscall(SYS_ppoll, &ready, 1, &now, NULL, 0) == 1 && (ready.revents & POLLERR))
      return HOMING_GONE;
   while (syscall(SYS_write, full.file, message, sizeof *message) < 0 && errno == EINTR) {
   }
   return 0;
}

/* --- what closes descriptors: system calls, since signal handlers and children after vfork may make them -----------
 * */

EXPORT int close(int file)
{
   if (own(file)) {
      errno = EBADF;
      return -1;
   }
   return (int)syscall(SYS_close, file);
}

/* A descriptor that is to become what is ours: we go elsewhere. Another thread may be about to use the old number, and
 * then finds that it is another file. */
static void give_way(int file)
{
   if (own(file)) {
      struct own *pipe = file == credit.file ? &credit : &full;
      int other = fcntl(file, F_DUPFD_CLOEXEC, file + 1);
      if (other >= 0)
         __atomic_store_n(&pipe->file, other, __ATOMIC_RELEASE);
   }
}

EXPORT int dup2(int old, int new)
{
   if (own(old)) {
      errno = EBADF;
      return -1;
   }
   give_way(new);
   return (int)syscall(SYS_dup2, old, new);
}

EXPORT int dup3(int old, int new, int flags)
{
   if (own(old)) {
      errno = EBADF;
      return -1;
   }
   give_way(new);
   return (int)syscall(SYS_dup3, old, new, flags);
}

static int close_between(unsigned first, unsigned last, int flags)
{
   return first > last ? 0 : (int)syscall(SYS_close_range, first, last, flags);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
   if (!homing_active || first > last)
      return (int)syscall(SYS_close_range, first, last, flags);
   unsigned ours[2] = {(unsigned)credit.file, (unsigned)full.file};
   if (ours[0] > ours[1]) {
      ours[0] = (unsigned)full.file;
      ours[1] = (unsigned)credit.file;
   }
   for (int i = 0; i < 2; i++)
      if (first <= ours[i] && ours[i] <= last) {
         if (ours[i] > 0 && close_between(first, ours[i] - 1, flags) != 0)
            return -1;
         first = ours[i] + 1;
      }
   return close_between(first, last, flags);
}

EXPORT void closefrom(int first) { close_range(first < 0 ? 0 : (unsigned)first, ~0U, 0); }
