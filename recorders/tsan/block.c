/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls that may wait in the kernel for long: a thread that sleeps there keeps no segment when segments are scarce, so
 * that a program with more threads than segments runs on. Those that fill memory are in kernel.c. */
#include "runtime.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAITING(type, name, parameters, arguments)                                                                     \
   EXPORT type name parameters                                                                                         \
   {                                                                                                                   \
      homing_may_block();                                                                                              \
      return REAL(name) arguments;                                                                                     \
   }

WAITING(int, accept, (int s, struct sockaddr *restrict from, socklen_t *restrict l), (s, from, l))
WAITING(int, accept4, (int s, struct sockaddr *restrict from, socklen_t *restrict l, int flags), (s, from, l, flags))
WAITING(int, poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))
WAITING(int, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *mask), (fds, n, t, mask))
WAITING(int, select, (int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict e, struct timeval *restrict t),
        (n, r, w, e, t))
WAITING(int, epoll_wait, (int e, struct epoll_event *events, int n, int timeout), (e, events, n, timeout))
WAITING(int, epoll_pwait, (int e, struct epoll_event *events, int n, int timeout, const sigset_t *mask),
        (e, events, n, timeout, mask))
WAITING(int, nanosleep, (const struct timespec *t, struct timespec *left), (t, left))
WAITING(int, clock_nanosleep, (clockid_t c, int flags, const struct timespec *t, struct timespec *left),
        (c, flags, t, left))
WAITING(int, usleep, (useconds_t t), (t))
WAITING(unsigned, sleep, (unsigned t), (t))
WAITING(pid_t, wait, (int *status), (status))
WAITING(pid_t, waitpid, (pid_t child, int *status, int options), (child, status, options))
WAITING(int, pause, (void), ())
WAITING(int, sigwait, (const sigset_t *restrict set, int *restrict signal), (set, signal))
