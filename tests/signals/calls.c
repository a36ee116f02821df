/* Threads that wait in system calls of every kind that ends early, or with a part, when a thread is interrupted. There
 * are no signals, so each call must end as it does when nobody interferes. Runs until its input ends, then prints how
 * many calls of each kind were made and how many ended otherwise, and exits 1 if any did.
 *
 *     calls
 *
 * Its first line is `ready PID`: PID is a child that this program traces. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 192 << 10, LESS = 8 << 10 };
static char buffer[BYTES];
static const struct timespec two = {0, 2000000};
static atomic_int stop;

struct kind;
typedef int call(struct kind *); /* 1 if all went as it should */
struct kind {
   const char *name;
   call *call;
   int (*prepare)(struct kind *); /* 0 where the kernel or a filter refuses */
   int in, out;
   atomic_ulong calls, odd;
   int first_errno;
};

static void nap(long microseconds)
{
   struct timespec t = {0, microseconds * 1000};
   nanosleep(&t, NULL);
}

/* Processes at the other ends, which nobody holds. They end with their parent. */
static void slowly(int file, int writes)
{
   pid_t parent = getpid();
   if (fork() != 0)
      return;
   prctl(PR_SET_PDEATHSIG, SIGKILL);
   while (getppid() == parent) {
      long got = writes ? write(file, buffer, 1500) : read(file, buffer, 16 << 10);
      if (got <= 0 && errno != EAGAIN)
         break;
      nap(200);
   }
   _exit(0);
}

static int pair(struct kind *kind, int socket)
{
   int ends[2];
   if (socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends))
      return 0;
   kind->in = ends[0], kind->out = ends[1];
   return 1;
}

static int to_pipe(struct kind *k) { return pair(k, 0) && (slowly(k->in, 0), 1); }
static int from_pipe(struct kind *k) { return pair(k, 0) && (slowly(k->out, 1), 1); }
static int to_socket(struct kind *k) { return pair(k, 1) && (slowly(k->in, 0), 1); }
static int from_socket(struct kind *k) { return pair(k, 1) && (slowly(k->out, 1), 1); }
static int silent(struct kind *k) { return pair(k, 1); }
static int nothing(struct kind *k) { (void)k; return 1; }
static int to_terminal(struct kind *k)
{
   if (openpty(&k->in, &k->out, NULL, NULL, NULL))
      return 0;
   slowly(k->in, 0);
   return 1;
}
static int file_to_socket(struct kind *k)
{
   if (!to_socket(k))
      return 0;
   k->in = memfd_create("calls", 0);
   return k->in >= 0 && write(k->in, buffer, BYTES) == BYTES;
}
static int pipe_to_pipe(struct kind *k)
{
   struct kind other;
   if (!from_pipe(k) || !to_pipe(&other))
      return 0;
   k->out = other.out;
   return 1;
}

static struct iovec *four(void)
{
   static __thread struct iovec parts[4];
   for (int i = 0; i < 4; i++)
      parts[i] = (struct iovec){buffer, BYTES / 4};
   return parts;
}

static int writes(struct kind *k) { return write(k->out, buffer, BYTES) == BYTES; }
static int writevs(struct kind *k) { return writev(k->out, four(), 4) == BYTES; }
static int pwritevs(struct kind *k) { return pwritev2(k->out, four(), 4, -1, 0) == BYTES; }
static int terminals(struct kind *k) { return write(k->out, buffer, LESS) == LESS; }
static int sends(struct kind *k) { return send(k->out, buffer, BYTES, 0) == BYTES; }
static int sendmsgs(struct kind *k)
{
   struct msghdr message = {.msg_iov = four(), .msg_iovlen = 4};
   return sendmsg(k->out, &message, 0) == BYTES;
}
static int receives(struct kind *k)
{
   char here[LESS];
   return recv(k->in, here, sizeof here, MSG_WAITALL) == sizeof here;
}
static int reads(struct kind *k)
{
   char here[1000];
   return read(k->in, here, sizeof here) > 0;
}
static int sendfiles(struct kind *k)
{
   off_t at = 0;
   return sendfile(k->out, k->in, &at, BYTES) == BYTES;
}
/* These wait for room, or for something, and then do what can be done at once. */
static int vmsplices(struct kind *k) { return vmsplice(k->out, four(), 4, 0) > 0; }
static int splices(struct kind *k) { return splice(k->in, NULL, k->out, NULL, 1000, 0) > 0; }
static int tees(struct kind *k)
{
   char here[LESS];
   /* What was copied is taken away, so that the next one waits again. */
   long copied = tee(k->in, k->out, 1000, 0);
   return copied > 0 && read(k->in, here, sizeof here) > 0;
}
static int futexes(struct kind *k)
{
   int word = 0;
   (void)k;
   return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &two, NULL, 0) == -1 && errno == ETIMEDOUT;
}
static int epolls(struct kind *k)
{
   struct epoll_event event;
   return epoll_wait(k->in, &event, 1, 2) == 0;
}
static int new_epoll(struct kind *k) { return (k->in = epoll_create1(0)) >= 0; }
static int polls(struct kind *k)
{
   struct pollfd poll_in = {k->in, POLLIN, 0};
   return poll(&poll_in, 1, 2) == 0;
}
static int selects(struct kind *k)
{
   struct timeval time = {0, 2000};
   (void)k;
   return select(0, NULL, NULL, NULL, &time) == 0;
}
static int timed_receives(struct kind *k)
{
   char byte;
   struct timeval limit = {0, 2000};
   setsockopt(k->in, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
   return recv(k->in, &byte, 1, 0) == -1 && errno == EAGAIN;
}
static int sleeps(struct kind *k)
{
   struct timespec rest = {7, 7};
   (void)k;
   return nanosleep(&two, &rest) == 0 && rest.tv_sec == 7;
}
static int clock_sleeps(struct kind *k)
{
   struct timespec rest = {7, 7};
   (void)k;
   return clock_nanosleep(CLOCK_MONOTONIC, 0, &two, &rest) == 0 && rest.tv_sec == 7;
}
static int semaphores(struct kind *k)
{
   struct sembuf wait = {0, -1, 0};
   return semtimedop(k->in, &wait, 1, &two) == -1 && errno == EAGAIN;
}
static int new_semaphore(struct kind *k) { return (k->in = semget(IPC_PRIVATE, 1, 0600)) >= 0; }
static int signals(struct kind *k)
{
   sigset_t one;
   (void)k;
   sigemptyset(&one);
   sigaddset(&one, SIGRTMIN);
   return sigtimedwait(&one, NULL, &two) == -1 && errno == EAGAIN;
}
static int timers(struct kind *k)
{
   struct itimerspec once = {{0, 0}, two};
   unsigned long expirations = 0;
   return timerfd_settime(k->in, 0, &once, NULL) == 0 && read(k->in, &expirations, 8) == 8 && expirations == 1;
}
static int new_timer(struct kind *k) { return (k->in = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0; }

/* The end of this child sends no signal: one that a program ignores is none for a thread that is traced. */
static int waits(struct kind *k)
{
   int status;
   (void)k;
   pid_t child = syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
   if (child == 0) {
      nap(1000);
      _exit(7);
   }
   return waitpid(child, &status, __WALL) == child && WEXITSTATUS(status) == 7;
}

/* Another process has the lock now and then. */
static int new_lock(struct kind *k)
{
   char name[] = "/tmp/calls-XXXXXX";
   pid_t parent = getpid();
   k->in = mkstemp(name);
   if (k->in < 0)
      return 0;
   if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int own = open(name, O_RDWR);
      unlink(name);
      while (own >= 0 && getppid() == parent) {
         flock(own, LOCK_EX);
         nap(1500);
         flock(own, LOCK_UN);
         nap(100);
      }
      _exit(0);
   }
   return 1;
}
static int locks(struct kind *k) { return flock(k->in, LOCK_EX) == 0 && flock(k->in, LOCK_UN) == 0; }

/* A request that takes two milliseconds, waited for. */
static struct io_uring_params ring;
static char *queue;
static struct io_uring_sqe *entries;
static int new_ring(struct kind *k)
{
   k->in = syscall(SYS_io_uring_setup, 1, &ring);
   if (k->in < 0 || !(ring.features & IORING_FEAT_SINGLE_MMAP))
      return 0;
   queue = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, k->in, IORING_OFF_SQ_RING);
   entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, k->in, IORING_OFF_SQES);
   return queue != MAP_FAILED && entries != MAP_FAILED;
}
static int rings(struct kind *k)
{
   atomic_uint *tail = (atomic_uint *)(queue + ring.sq_off.tail), *head = (atomic_uint *)(queue + ring.cq_off.head);
   struct __kernel_timespec time = {0, 2000000};
   *entries = (struct io_uring_sqe){.opcode = IORING_OP_TIMEOUT, .fd = -1, .addr = (unsigned long)&time, .len = 1};
   ((unsigned *)(queue + ring.sq_off.array))[0] = 0;
   atomic_fetch_add(tail, 1);
   int submitted = syscall(SYS_io_uring_enter, k->in, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
   atomic_fetch_add(head, 1);
   return submitted == 1;
}

static struct kind kinds[] = {
   {"write", writes, to_pipe}, {"writev", writevs, to_pipe}, {"pwritev2", pwritevs, to_pipe},
   {"read", reads, from_pipe}, {"tty", terminals, to_terminal}, {"send", sends, to_socket},
   {"sendmsg", sendmsgs, to_socket}, {"recv", receives, from_socket}, {"sendfile", sendfiles, file_to_socket},
   {"splice", splices, pipe_to_pipe}, {"vmsplice", vmsplices, to_pipe}, {"tee", tees, pipe_to_pipe},
   {"futex", futexes, nothing}, {"epoll_wait", epolls, new_epoll}, {"poll", polls, silent},
   {"select", selects, nothing}, {"recv with a limit", timed_receives, silent}, {"nanosleep", sleeps, nothing},
   {"clock_nanosleep", clock_sleeps, nothing}, {"semtimedop", semaphores, new_semaphore},
   {"sigtimedwait", signals, nothing}, {"timerfd", timers, new_timer}, {"waitpid", waits, nothing},
   {"flock", locks, new_lock}, {"io_uring_enter", rings, new_ring},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void *repeat(void *data)
{
   struct kind *kind = data;
   while (!stop) {
      for (volatile int i = 0; i < 100000; i++) {}
      errno = 0;
      int whole = kind->call(kind);
      kind->calls++;
      if (!whole && kind->odd++ == 0)
         kind->first_errno = errno;
   }
   return NULL;
}

static void *compute(void *unused)
{
   while (!stop) {}
   return unused;
}

/* A child that this program traces and that does nothing but run. */
static pid_t traced(void)
{
   pid_t child = fork();
   if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {}
   }
   return ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0 ? child : -1;
}

int main(void)
{
   pthread_t threads[KINDS], computes;
   char byte;
   int refused[KINDS], failed = 0, status;
   for (int i = 0; i < KINDS; i++)
      refused[i] = !kinds[i].prepare(&kinds[i]);
   pid_t child = traced();
   for (int i = 0; i < KINDS; i++)
      if (!refused[i])
         pthread_create(&threads[i], NULL, repeat, &kinds[i]);
   pthread_create(&computes, NULL, compute, NULL);
   printf("ready %d\n", child);
   fflush(stdout);
   if (read(0, &byte, 1) != 0)
      failed = printf("read: errno %d\n", errno);
   stop = 1;
   pthread_join(computes, NULL);
   for (int i = 0; i < KINDS; i++) {
      if (refused[i]) {
         printf("SKIPPED %s: refused\n", kinds[i].name);
         continue;
      }
      pthread_join(threads[i], NULL);
      unsigned long calls = kinds[i].calls, odd = kinds[i].odd;
      printf("%s: %lu of %lu odd, errno %d\n", kinds[i].name, odd, calls, kinds[i].first_errno);
      failed |= odd > 0 || calls == 0;
   }
   /* Nobody but this program has stopped it. */
   if (waitpid(child, &status, WNOHANG | __WALL) != 0)
      failed = printf("the traced child stopped with status %x\n", status);
   kill(child, SIGKILL);
   semctl(kinds[19].in, 0, IPC_RMID);
   return failed != 0;
}
