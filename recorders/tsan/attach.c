/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Recordings that begin while the program runs. `homing record --pid` listens at an abstract socket that is called
 * after the process. Threads that execute compiled code or synchronise look now and then whether it is there: one that
 * finds it asks for a wire, as recorders/valgrind/follow.c does, and gets its descriptors. Without such a socket a look
 * is one system call, every tenth of a second at most. HOMING_ATTACH=0 in the environment turns this off. */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* Between two looks, and how long homing may take to answer. */
enum { EACH_MS = 100, PATIENCE_MS = 2000 };
enum { DESCRIPTORS = 3, COMMAND_BYTES = 4096 };

static long now(void)
{
   struct timespec time;
   clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
   return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Anybody may have taken the name: only our own user, or root, is told what runs here. */
static int is_homing(int file)
{
   struct ucred peer = {0, (uid_t)-1, (gid_t)-1};
   socklen_t length = sizeof peer;
   return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

/* A connection to who waits for this process; -1 if nobody does. */
static int find_recorder(void)
{
   struct sockaddr_un name = {.sun_family = AF_UNIX};
   int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, HOMING_ATTACH_SOCKET "%d", (int)getpid());
   int file = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
   if (file < 0)
      return -1;
   long connected = syscall(SYS_connect, file, &name, offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
   if (connected == 0 && is_homing(file))
      return file;
   syscall(SYS_close, file);
   return -1;
}

/* "attach", the recorder's name and the command line, each ended by a zero byte. */
static int ask(int file)
{
   static char question[COMMAND_BYTES]; /* one thread looks at a time, and may have little room */
   const char *recorder = homing_has_records ? "clang" : "tsan";
   size_t length = (size_t)snprintf(question, sizeof question, "attach%c%s", 0, recorder) + 1;
   int command = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
   long got = command < 0 ? 0 : syscall(SYS_read, command, question + length, sizeof question - 1 - length);
   if (command >= 0)
      syscall(SYS_close, command);
   length += got > 0 ? (size_t)got : 0;
   return syscall(SYS_sendto, file, question, length, MSG_NOSIGNAL, NULL, 0) == (long)length &&
          syscall(SYS_shutdown, file, SHUT_WR) == 0;
}

/* The wire's descriptors, if they come; `what` is HOMING_ATTACH_ONLY_PROGRAM or another byte. */
static int receive(int file, int descriptors[DESCRIPTORS], char *what)
{
   union {
      struct cmsghdr head;
      char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
   } control;
   struct iovec data = {what, 1};
   struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
   struct pollfd ready = {.fd = file, .events = POLLIN};
   struct timespec patience = {PATIENCE_MS / 1000, 0};
   if (syscall(SYS_ppoll, &ready, 1, &patience, NULL, 0) != 1 ||
       syscall(SYS_recvmsg, file, &message, MSG_CMSG_CLOEXEC) != 1)
      return 0;
   struct cmsghdr *head = CMSG_FIRSTHDR(&message);
   if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
       head->cmsg_len != CMSG_LEN(DESCRIPTORS * sizeof(int)))
      return 0;
   for (unsigned i = 0; i < DESCRIPTORS; i++)
      descriptors[i] = ((const int *)CMSG_DATA(head))[i];
   return 1;
}

/* Whether a recording has begun. */
static int look(void)
{
   char what = 0;
   int descriptors[DESCRIPTORS], file = find_recorder();
   if (file < 0)
      return 0;
   int answered = ask(file) && receive(file, descriptors, &what);
   syscall(SYS_close, file);
   return answered && homing_attach(descriptors, what == HOMING_ATTACH_ONLY_PROGRAM);
}

int homing_look_for_recorder(void)
{
   static long next;
   static int looking;
   if (LIKELY(homing_active) || !homing_may_be_attached || homing_in_handler() || homing_interrupted() ||
       homing_self.inside)
      return 0;
   long time = now();
   if (time < __atomic_load_n(&next, __ATOMIC_RELAXED) || __atomic_exchange_n(&looking, 1, __ATOMIC_ACQUIRE))
      return 0;
   int saved = errno, began = 0;
   if (!homing_active)
      began = look();
   __atomic_store_n(&next, now() + EACH_MS, __ATOMIC_RELAXED);
   __atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
   errno = saved;
   return began;
}
