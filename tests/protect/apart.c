/* Programs that the source `protect` must leave alone, each by its name: what uses their memory besides their threads
 * would meet a protected page, or a protected page could not be given back. Each runs for SECONDS.
 *
 *   apart helper SECONDS       another process has the same memory (clone with CLONE_VM)
 *   apart ring SECONDS         io_uring with rings in the program's own memory, of which no mapping tells
 *   apart registered SECONDS   the same without a descriptor
 *   apart area SECONDS         an area for restartable sequences in its own memory
 *   apart limit SECONDS        less data are permitted than there are
 *   apart queued SECONDS       signals come while it changes between stacks in its own memory
 *   apart pending SECONDS      no timer is permitted, and a new thread cannot be asked
 *   apart calls SECONDS        threads run, then sleep in calls, none of which may end early */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef IORING_SETUP_NO_MMAP
#define IORING_SETUP_NO_MMAP (1U << 14)
#endif
#ifndef IORING_SETUP_REGISTERED_FD_ONLY
#define IORING_SETUP_REGISTERED_FD_ONLY (1U << 15)
#endif
#ifndef IORING_ENTER_REGISTERED_RING
#define IORING_ENTER_REGISTERED_RING (1U << 4)
#endif

enum { PAGE = 4096, PAGES = 4096 };

static volatile char *array;
static double seconds;
static struct timespec begun;
static volatile int over;

static void fail(const char *what)
{
   printf("not ok apart: %s\n", what);
   fflush(stdout);
   _exit(1);
}

static void *memory(size_t bytes, int flags)
{
   void *new = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
   if (new == MAP_FAILED)
      fail("mmap");
   return memset(new, 0, bytes);
}

static int goes_on(void)
{
   struct timespec now;
   clock_gettime(CLOCK_MONOTONIC, &now);
   return (double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9 < seconds;
}

static void touch_all(void)
{
   for (int page = 0; page < PAGES; page++)
      array[page * PAGE]++;
}

static int help(void *data)
{
   (void)data;
   while (!over)
      for (int page = 0; page < PAGES; page++)
	 array[page * PAGE + 64]++;
   return 0;
}

static void helper(void)
{
   enum { STACK = 256 * 1024 };
   char *stack = memory(STACK, MAP_PRIVATE);
   pid_t child = clone(help, stack + STACK, CLONE_VM | SIGCHLD, NULL);
   if (child < 0)
      fail("clone");
   while (goes_on())
      touch_all();
   over = 1;
   int status;
   if (waitpid(child, &status, 0) != child || status != 0)
      fail("the helper was ended");
}

/* Reads from a pipe into some pages, and works on all of them until they have come. It makes no call meanwhile, for
 * longer than a thread that reads and writes is left alone. */
static void ring(unsigned flags)
{
   enum { READS = 32, BYTES = 512, STEP = PAGES / READS };
   struct io_uring_params setup = {.flags = IORING_SETUP_NO_MMAP | flags};
   char *rings = memory(PAGE, MAP_SHARED | MAP_POPULATE);
   struct io_uring_sqe *entries = memory(PAGE, MAP_SHARED | MAP_POPULATE);
   /* Where `user_addr` is, which older headers have no name for: the last word of each. */
   memcpy((char *)(&setup.cq_off + 1) - 8, &(uint64_t){(uintptr_t)rings}, 8);
   memcpy((char *)(&setup.sq_off + 1) - 8, &(uint64_t){(uintptr_t)entries}, 8);
   int fd = (int)syscall(SYS_io_uring_setup, READS, &setup), ends[2];
   if (fd < 0) {
      printf("SKIPPED ring: io_uring_setup: %s\n", strerror(errno));
      exit(0);
   }
   if (pipe(ends) != 0)
      fail("pipe");
   if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char text[BYTES];
      memset(text, 7, sizeof text);
      usleep(1200000);
      for (int i = 0; i < READS && write(ends[1], text, sizeof text) > 0; i++)
	 usleep(40000);
      pause();
   }
   volatile unsigned *places = (void *)(rings + setup.sq_off.array), *filled = (void *)(rings + setup.cq_off.tail);
   for (unsigned i = 0; i < READS; i++) {
      entries[i] = (struct io_uring_sqe){
         .opcode = IORING_OP_READ, .fd = ends[0], .len = BYTES, .off = -1ULL,
         .addr = (uintptr_t)(array + i * STEP * PAGE + BYTES)};
      places[i] = i;
   }
   __atomic_store_n((unsigned *)(rings + setup.sq_off.tail), READS, __ATOMIC_RELEASE);
   unsigned enter = flags & IORING_SETUP_REGISTERED_FD_ONLY ? IORING_ENTER_REGISTERED_RING : 0;
   if (syscall(SYS_io_uring_enter, fd, READS, 0, enter, NULL, 0) != READS)
      fail("io_uring_enter");
   while (__atomic_load_n(filled, __ATOMIC_ACQUIRE) < READS)
      touch_all();
   const struct io_uring_cqe *done = (void *)(rings + setup.cq_off.cqes);
   for (unsigned i = 0; i < READS; i++)
      if (done[i].res != BYTES || array[i * STEP * PAGE + BYTES] != 7)
	 fail("a read into its memory failed");
}

/* The kernel writes there whenever the thread was interrupted. */
static void area(void)
{
   enum { UNREGISTER = 1, BYTES = 32, SIGNATURE = 0x53053053 };
   extern const ptrdiff_t __rseq_offset __attribute__((weak));
   if (&__rseq_offset != NULL) {
      char *old = (char *)__builtin_thread_pointer() + __rseq_offset;
      long whole = (long)getauxval(27), bytes[] = {BYTES, whole <= BYTES ? BYTES : (whole + 31) / 32 * 32};
      for (int i = 0; i < 2; i++)
	 syscall(SYS_rseq, old, bytes[i], UNREGISTER, SIGNATURE);
   }
   uint32_t *own = (uint32_t *)(array + 100 * PAGE);
   own[1] = (uint32_t)-1;
   if (syscall(SYS_rseq, own, BYTES, 0, SIGNATURE) != 0) {
      printf("SKIPPED area: rseq: %s\n", strerror(errno));
      exit(0);
   }
   while (goes_on()) {
      for (int page = 0; page < PAGES; page++)
         if (page != 100)
            array[page * PAGE]++;
   }
   if (own[1] == (uint32_t)-1)
      fail("the kernel says no CPU");
}

static void limit(void)
{
   struct rlimit now;
   getrlimit(RLIMIT_DATA, &now);
   now.rlim_cur = 1 << 20;
   if (setrlimit(RLIMIT_DATA, &now) != 0)
      fail("setrlimit");
   while (goes_on())
      touch_all();
}

/* Changes to another stack: what is kept lies on the old one. */
void change(void **from, void *to);
__asm__("change:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	" mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
	" pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");

enum { STACKS = 32, STACK = 16 * PAGE };

static void *home_stack, *stacks[STACKS];
static int present;
static volatile long got, sum;

static void on_signal(int signal, siginfo_t *info, void *context)
{
   (void)signal, (void)context;
   got++, sum += info->si_value.sival_int;
}

static void routine(void)
{
   for (;;) {
      /* Without a touch of the stack. */
      for (uint64_t i = 0; i < 20000; i++)
	 __asm__ volatile("" : : "r"(i));
      change(&stacks[present], home_stack);
   }
}

static void queued(void)
{
   enum { SIGNALS = 3000 };
   struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
   sigaction(SIGRTMIN + 1, &action, NULL);
   for (int i = 0; i < STACKS; i++) {
      void **top = (void **)(array + (i + 1) * STACK) - 2;
      *top = (void *)routine;
      stacks[i] = top - 6;
   }
   pid_t parent = getpid(), child = fork();
   if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int i = 0; i < SIGNALS; i++) {
	 while (sigqueue(parent, SIGRTMIN + 1, (union sigval){.sival_int = i}) != 0)
	    if (errno != EAGAIN)
	       _exit(1);
	 usleep(300);
      }
      _exit(0);
   }
   /* All were sent, and come before the call returns; those that are lost do not come at all. */
   for (siginfo_t ended = {0}; ended.si_pid == 0;) {
      for (int turn = 0; turn < 200; turn++)
	 for (present = 0; present < STACKS; present++)
	    change(&home_stack, stacks[present]);
      if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG) != 0)
	 fail("waitid");
   }
   if (got != SIGNALS || sum != SIGNALS * (SIGNALS - 1L) / 2) {
      printf("%ld of %d signals, sum %ld\n", got, SIGNALS, sum);
      fail("signals are lost");
   }
}

static void *touch(void *data)
{
   while (goes_on())
      touch_all();
   return data;
}

static void pending(void)
{
   struct rlimit none = {0, 0};
   pthread_t thread;
   if (setrlimit(RLIMIT_SIGPENDING, &none) != 0 || pthread_create(&thread, NULL, touch, NULL) != 0)
      fail("no limit, or no thread");
   pthread_join(thread, NULL);
}

/* A child that reads what comes, with pauses, or writes a little at a time. */
static void other_end(int file, int writes)
{
   if (fork() != 0)
      return;
   prctl(PR_SET_PDEATHSIG, SIGKILL);
   static char text[16384];
   for (long turn = 1; (writes ? write(file, text, 4096) : read(file, text, sizeof text)) > 0; turn++)
      if (turn % 4 == 0)
	 usleep(100);
   _exit(0);
}

enum { KINDS = 6, WHOLE = 1 << 20 };

static int pipe_ends[2], out[2], in[2], events;
static long begun_calls[KINDS], early[KINDS];

/* True if the call did what it does undisturbed. */
static int whole(long kind, char *text)
{
   struct timespec nap = {0, 2000000};
   struct epoll_event event;
   struct pollfd nothing = {.fd = -1};
   switch (kind) {
   case 0:
      return write(pipe_ends[1], text, WHOLE) == WHOLE;
   case 1:
      return send(out[1], text, WHOLE, 0) == WHOLE;
   case 2:
      return recv(in[0], text, 65536, MSG_WAITALL) == 65536;
   case 3:
      return nanosleep(&nap, NULL) == 0;
   case 4:
      return epoll_wait(events, &event, 1, 2) == 0;
   default:
      return poll(&nothing, 1, 2) == 0;
   }
}

static void *call(void *data)
{
   long kind = (long)(intptr_t)data;
   static char text[KINDS][WHOLE];
   while (goes_on()) {
      /* Without a call for a while, so that it is asked. */
      for (int turn = 0; turn < 20; turn++)
	 for (int page = 0; page < PAGES; page++)
	    array[page * PAGE + kind * 64]++;
      begun_calls[kind]++, early[kind] += !whole(kind, text[kind]);
   }
   return NULL;
}

static void calls(void)
{
   pthread_t threads[KINDS];
   if (pipe(pipe_ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, out) != 0 ||
       socketpair(AF_UNIX, SOCK_STREAM, 0, in) != 0 || (events = epoll_create1(0)) < 0)
      fail("descriptors");
   other_end(pipe_ends[0], 0), other_end(out[0], 0), other_end(in[1], 1);
   for (int kind = 0; kind < KINDS; kind++)
      pthread_create(&threads[kind], NULL, call, (void *)(intptr_t)kind);
   for (int kind = 0; kind < KINDS; kind++)
      pthread_join(threads[kind], NULL);
   for (int kind = 0; kind < KINDS; kind++) {
      if (early[kind] != 0)
	 printf("kind %d: %ld of %ld calls ended early\n", kind, early[kind], begun_calls[kind]);
      early[0] += kind == 0 ? 0 : early[kind];
   }
   if (early[0] != 0)
      fail("calls ended early");
}

int main(int argc, char **argv)
{
   const char *kind = argc == 3 ? argv[1] : "";
   seconds = argc == 3 ? atof(argv[2]) : 0;
   array = memory((size_t)PAGES * PAGE, MAP_PRIVATE);
   clock_gettime(CLOCK_MONOTONIC, &begun);
   if (!strcmp(kind, "helper"))
      helper();
   else if (!strcmp(kind, "ring"))
      ring(0);
   else if (!strcmp(kind, "registered"))
      ring(IORING_SETUP_REGISTERED_FD_ONLY);
   else if (!strcmp(kind, "area"))
      area();
   else if (!strcmp(kind, "limit"))
      limit();
   else if (!strcmp(kind, "queued"))
      queued();
   else if (!strcmp(kind, "pending"))
      pending();
   else if (!strcmp(kind, "calls"))
      calls();
   else
      return fputs("usage: apart helper|ring|registered|area|limit|queued|pending|calls SECONDS\n", stderr), 2;
   printf("ok apart %s\n", kind);
   return 0;
}
