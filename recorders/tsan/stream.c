/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The wire's end in the recorded program: one stream of words for each thread, in segments of shared memory
 * (recorders/include/homing_wire.h, flavour PARALLEL).
 *
 * What is written is visible to `homing record` at once: the cursor of the hot path is the `words` field of the
 * header's open[] entry. So a program that ends, crashes or is killed needs no handler to keep what it recorded. */
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The cursor of a thread without a segment: never below any limit. */
static volatile unsigned long long nowhere;
__thread struct stream homing_self = {.cursor = &nowhere};
int homing_active;

static homing_wire_header *header;
static word first_segment;
static int credit_fd, full_fd;
/* Threads made so far, the first not counted. */
uint32_t homing_threads;
static uint64_t next_stamp, next_object = 16; /* below: objects that exist once */
/* Threads with a stream. */
static uint32_t live;
/* References that could not be sent, by reason. */
enum loss { LOST_AFTER_END, LOST_IN_HANDLER, LOSSES };
static uint64_t lost[LOSSES];
/* With lengths: strlen is a function of the program's that records. */
#define LOSS(text) {text, sizeof text - 1}
static const struct {
   const char *text;
   unsigned length;
} loss_names[LOSSES] = {LOSS("reference of a thread whose stream had ended"),
                        LOSS("reference or event of a signal handler that interrupted the recorder at a segment's end")};
static unsigned char slot_used[HOMING_WIRE_MAX_OPEN];
static pthread_key_t end_key;

enum { WAIT_BEFORE_COMPLAINING_MS = 10000, KEPT_FREE = 8 };

void homing_say(const char *text) { (void)!syscall(SYS_write, 2, text, strlen(text)); }

void *homing_next(const char *symbol)
{
   void *found = dlsym(RTLD_NEXT, symbol);
   if (found == NULL) {
      homing_say("homing: the program calls ");
      homing_say(symbol);
      homing_say(", but no library defines it: link dynamically, and with -fopenmp if the program uses OpenMP\n");
      _exit(127);
   }
   return found;
}

/* Nothing can be recorded any more: `homing record` is gone, or this is a child after fork. */
static void stop_recording(void)
{
   __atomic_store_n(&homing_active, 0, __ATOMIC_RELEASE);
   homing_self.limit = 0;
   homing_self.cursor = &nowhere;
}

/* Segments change with all signals blocked: a handler would find a stream that is neither in one nor in the next, and
 * might never return. Returns what to give to end_change(). */
static uint64_t begin_change(void)
{
   uint64_t all = ~0ULL, before = 0;
   syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
   homing_self.inside++;
   return before;
}

static void end_change(uint64_t before)
{
   homing_self.inside--;
   syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* Takes a segment number from the credit pipe; -1 when there is nobody at its other end. */
static long take_credit(void)
{
   struct pollfd credit = {.fd = credit_fd, .events = POLLIN};
   int complained = 0;
   for (;;) {
      struct timespec wait = {WAIT_BEFORE_COMPLAINING_MS / 1000, 0};
      long ready = syscall(SYS_ppoll, &credit, 1, complained ? NULL : &wait, NULL, 0);
      if (ready == 0 && !complained) {
         homing_say("homing: a thread has waited 10 s for a free segment; if the recording stands still, too many "
                    "threads hold one: raise --segments\n");
         complained = 1;
      }
      if (ready <= 0)
         continue;
      uint32_t segment;
      long got = syscall(SYS_read, credit_fd, &segment, sizeof segment);
      if (got == (long)sizeof segment)
         return segment;
      if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
         return -1;
   }
}

/* Posts the thread's segment. It is withdrawn from open[] first: a kill in between loses it, but never counts it twice. */
static void post_segment(void)
{
   struct stream *self = &homing_self;
   homing_wire_full full = {.segment = header->open[self->slot].segment_plus_1 - 1,
                            .words = (uint32_t)((*self->cursor - (word)self->base) / sizeof(word)),
                            .stream = self->thread,
                            .index = self->index++};
   header->open[self->slot].segment_plus_1 = 0;
   self->cursor = &nowhere;
   self->limit = 0;
   /* A pipe without a reader would raise SIGPIPE and kill the program. */
   struct pollfd pipe = {.fd = full_fd, .events = POLLOUT};
   struct timespec now = {0, 0};
   if (syscall(SYS_ppoll, &pipe, 1, &now, NULL, 0) == 1 && (pipe.revents & POLLERR)) {
      stop_recording();
      return;
   }
   while (syscall(SYS_write, full_fd, &full, sizeof full) < 0 && errno == EINTR) {
   }
}

/* Opens a segment for the thread; 0 when there is none to be had. */
static int open_segment(void)
{
   struct stream *self = &homing_self;
   long segment = header->stop ? -1 : take_credit();
   if (segment < 0) {
      stop_recording();
      return 0;
   }
   self->base = (word *)first_segment + (uint64_t)segment * header->segment_words;
   header->open[self->slot].words = (word)self->base;
   header->open[self->slot].thread = self->thread;
   __atomic_store_n(&header->open[self->slot].segment_plus_1, (uint32_t)segment + 1, __ATOMIC_RELEASE);
   self->cursor = &header->open[self->slot].words;
   self->limit = (word)(self->base + header->segment_words - KEPT_FREE);
   return 1;
}

/* An entry of open[] that no other live thread uses. Entries are four to a cache line, and their cursors are written
 * at every reference: the first quarter of the threads get lines of their own. */
static long take_slot(void)
{
   uint64_t first = (64 - offsetof(homing_wire_header, open[0].words) % 64) % 64 / sizeof header->open[0];
   for (uint32_t pass = 0; pass < 4; pass++)
      for (uint64_t slot = (first + pass) % 4; slot < HOMING_WIRE_MAX_OPEN; slot += 4)
         if (!slot_used[slot] && !__atomic_exchange_n(&slot_used[slot], 1, __ATOMIC_ACQ_REL))
            return (long)slot;
   return -1;
}

/* The virtual time of function entries, in the room that `limit` keeps free: it also takes the words of code that
 * signal handlers interrupted between its test of the limit and its taking of room. */
static void send_advance(void)
{
   struct stream *self = &homing_self;
   if (self->advance == 0 || self->cursor == &nowhere || *self->cursor > self->limit)
      return;
   word advance = self->advance;
   self->advance = 0;
   *(word *)homing_take(self->cursor, sizeof(word)) = HOMING_WORD(HOMING_ADVANCE, advance);
}

/* Returns 1 if nobody has announced the thread: it was made by a raw clone(2). */
static int open_stream(void)
{
   struct stream *self = &homing_self;
   int known = self->thread != 0 || syscall(SYS_gettid) == getpid();
   long slot = take_slot();
   if (slot < 0) {
      homing_say("homing: more than 4096 threads at once: the references of a further thread are lost\n");
      self->state = STREAM_ENDED;
      return 0;
   }
   self->slot = (uint32_t)slot;
   self->state = STREAM_OPEN;
   __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
   if (!known)
      self->thread = homing_new_thread();
   pthread_setspecific(end_key, (void *)1);
   return open_segment() && !known;
}

static void send_losses(void)
{
   for (unsigned reason = 0; reason < LOSSES; reason++) {
      uint64_t count = __atomic_exchange_n(&lost[reason], 0, __ATOMIC_RELAXED);
      if (count > 0) {
         word name = homing_name(loss_names[reason].text, loss_names[reason].length);
         homing_send(2, HOMING_WORD(HOMING_LOST, count), name, 0, 0, 0);
      }
   }
}

word *homing_reserve(unsigned n)
{
   struct stream *self = &homing_self;
   if (!__atomic_load_n(&homing_active, __ATOMIC_RELAXED))
      return NULL;
   int interrupted = homing_interrupted();
   if (self->inside)
      return NULL;
   if (UNLIKELY(lost[LOST_AFTER_END] | lost[LOST_IN_HANDLER]) && self->state == STREAM_OPEN && !interrupted)
      send_losses();
   int full = *self->cursor + n * sizeof(word) > self->limit;
   if (self->state == STREAM_NEW || (full && self->state == STREAM_OPEN && !interrupted)) {
      int saved = errno, unannounced = 0;
      uint64_t mask = begin_change();
      if (self->state == STREAM_NEW)
         unannounced = open_stream();
      else {
         if (self->cursor != &nowhere) {
            send_advance();
            post_segment();
         }
         if (homing_active)
            open_segment();
      }
      end_change(mask);
      errno = saved;
      if (unannounced)
         homing_send(2, HOMING_WORD(HOMING_THREAD_START, self->thread), self->thread, 0, 0, 0);
   }
   if (*self->cursor + n * sizeof(word) > self->limit)
      return NULL;
   word at = homing_take(self->cursor, n * sizeof(word));
   if (LIKELY(at + n * sizeof(word) <= self->limit))
      return (word *)at;
   /* A signal handler took the room in between; it has returned, so this gives back just what was taken. */
   homing_take(self->cursor, -(word)(n * sizeof(word)));
   return homing_reserve(n);
}

/* After homing_reserve() found no room. */
static void count_loss(void)
{
   if (homing_self.state == STREAM_ENDED)
      __atomic_add_fetch(&lost[LOST_AFTER_END], 1, __ATOMIC_RELAXED);
   else if (homing_active && (homing_self.inside || homing_interrupted()))
      __atomic_add_fetch(&lost[LOST_IN_HANDLER], 1, __ATOMIC_RELAXED);
}

void homing_reference_slow(word reference)
{
   if (!homing_active)
      return;
   word *room = homing_reserve(1);
   if (room != NULL)
      *room = reference;
   else
      count_loss();
}

void homing_send(unsigned n, word head, word a, word b, word c, word d)
{
   const word words[5] = {head, a, b, c, d};
   word *room = homing_reserve(n);
   for (unsigned i = 0; room != NULL && i < n; i++)
      room[i] = words[i];
   /* The runtime's own calls are dropped on purpose. */
   if (room == NULL && !homing_self.inside)
      count_loss();
}

void homing_sync(unsigned kind, word object)
{
   if (!homing_active || homing_self.inside)
      return;
   send_advance();
   word *room = homing_reserve(3);
   if (room == NULL)
      return;
   room[0] = HOMING_WORD(HOMING_SYNC, kind);
   room[1] = object;
   room[2] = __atomic_add_fetch(&next_stamp, 1, __ATOMIC_SEQ_CST);
}

word homing_object(void) { return __atomic_add_fetch(&next_object, 8, __ATOMIC_RELAXED) | 1; }

uint32_t homing_new_thread(void) { return __atomic_add_fetch(&homing_threads, 1, __ATOMIC_RELAXED); }

void homing_begin_thread(uint32_t thread) { homing_self.thread = thread; }

void homing_may_block(void)
{
   struct stream *self = &homing_self;
   if (!homing_active || self->inside || self->cursor == &nowhere || 2 * live <= header->segments || homing_interrupted())
      return;
   int saved = errno;
   uint64_t mask = begin_change();
   send_advance();
   post_segment();
   end_change(mask);
   errno = saved;
}

void homing_end_thread(void)
{
   struct stream *self = &homing_self;
   if (!homing_active || self->state == STREAM_ENDED)
      return;
   homing_send(1, HOMING_WORD(HOMING_THREAD_END, self->thread), 0, 0, 0, 0);
   uint64_t mask = begin_change();
   if (self->cursor != &nowhere)
      post_segment();
   if (self->state == STREAM_OPEN) {
      __atomic_store_n(&slot_used[self->slot], 0, __ATOMIC_RELEASE);
      __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
   }
   self->state = STREAM_ENDED;
   end_change(mask);
}

/* Key destructors of the program may still refer to memory: the stream ends in the last round of them. */
static void end_of_thread(void *round)
{
   if ((uintptr_t)round < PTHREAD_DESTRUCTOR_ITERATIONS)
      pthread_setspecific(end_key, (void *)((uintptr_t)round + 1));
   else
      homing_end_thread();
}

static void in_forked_child(void)
{
   if (!homing_active)
      return;
   stop_recording();
   close(credit_fd);
   close(full_fd);
}

/* Parses "MEMFD,CREDIT_FD,FULL_FD" and maps the shared memory; 0 if that fails. */
static int map_wire(const char *wire)
{
   int memory;
   if (sscanf(wire, "%d,%d,%d", &memory, &credit_fd, &full_fd) != 3)
      return 0;
   struct stat status;
   if (fstat(memory, &status) != 0)
      return 0;
   void *at = (void *)syscall(SYS_mmap, NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
   if (at == MAP_FAILED)
      return 0;
   header = at;
   first_segment = (word)at + header->header_bytes;
   for (int i = 0; i < 3; i++) /* programs that this one executes must not hold the wire open */
      fcntl((int[]){memory, credit_fd, full_fd}[i], F_SETFD, FD_CLOEXEC);
   close(memory);
   return header->magic == HOMING_WIRE_MAGIC && header->segment_words > HOMING_RESERVE_MAX + KEPT_FREE;
}

void homing_child(void) { __atomic_add_fetch(&header->children, 1, __ATOMIC_RELAXED); }

/* One process records into a wire: the first. Others run as usual and say so. */
static int claim_wire(void)
{
   unsigned int flavour = 0;
   header->version = HOMING_WIRE_VERSION;
   if (__atomic_compare_exchange_n(&header->flavour, &flavour, HOMING_FLAVOUR_PARALLEL, 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
      return 1;
   if (flavour == HOMING_FLAVOUR_SERIAL) {
      homing_say("homing: this program is linked with the homing runtime (homing ldflags): record it with "
                 "--recorder tsan, or build it without the runtime to record it with --recorder valgrind\n");
      _exit(3);
   }
   homing_child();
   homing_say("homing: another process is being recorded already: this one runs without being recorded\n");
   close(credit_fd);
   close(full_fd);
   return 0;
}

/* -fsanitize=thread at the link brings libtsan as well, and both would be half in charge. */
static void refuse_libtsan(void)
{
   if (dlsym(RTLD_NEXT, "__tsan_init") == NULL)
      return;
   homing_say("homing: this program was linked with -fsanitize=thread, which brings libtsan beside the homing runtime: "
              "compile with `homing cflags`, but link without them, with `homing ldflags` only\n");
   _exit(3);
}

void homing_start(void)
{
   static int started;
   if (__atomic_exchange_n(&started, 1, __ATOMIC_ACQ_REL))
      return;
   refuse_libtsan();
   const char *wire = getenv(HOMING_WIRE_ENV);
   if (wire == NULL)
      return;
   if (!map_wire(wire)) {
      homing_say("homing: " HOMING_WIRE_ENV " names no wire that this program can use: it does not record itself. Under --recorder "
                 "valgrind that is so: record it with --recorder tsan, or build it without `homing cflags`\n");
      unsetenv(HOMING_WIRE_ENV);
      return;
   }
   unsetenv(HOMING_WIRE_ENV);
   if (!claim_wire())
      return;
   header->cursor_base = first_segment;
   pthread_key_create(&end_key, end_of_thread);
   pthread_atfork(NULL, NULL, in_forked_child);
   __atomic_store_n(&homing_active, 1, __ATOMIC_RELEASE);
   homing_send_maps();
}

__attribute__((constructor(101))) static void start_early(void) { homing_start(); }
