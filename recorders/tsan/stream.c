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
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The cursor of a thread without a segment: never below any limit, also not one that a signal handler has set since the
 * cursor was looked at. */
static volatile unsigned long long nowhere = 1ULL << 63;
__thread struct stream homing_self = {.cursor = &nowhere};
int homing_active, homing_has_records;

static homing_wire_header *header;
static word first_segment;
/* Threads made so far, the first not counted. */
uint32_t homing_threads;
/* The only thread so far has sent something that is to be published, when there are others. */
static int unpublished;
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
} loss_names[LOSSES] = {
    LOSS("reference of a thread whose stream had ended"),
    LOSS("reference or event of a signal handler that interrupted the recorder at a segment's end")};
static unsigned char slot_used[HOMING_WIRE_MAX_OPEN];
static pthread_key_t end_key;

enum { KEPT_FREE = 8 };

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

/* The thread has no segment now. */
static void leave_segment(void)
{
   homing_self.limit = homing_self.inline_limit = homing_self.handler_end = 0;
   homing_self.base = NULL;
   homing_self.cursor = &nowhere;
}

/* Nothing can be recorded any more: `homing record` is gone, or this is a child after fork. */
static void stop_recording(void)
{
   __atomic_store_n(&homing_active, 0, __ATOMIC_RELEASE);
   leave_segment();
}

/* As stop_recording, with the reason, from the pipes. Homing says that it ends; if it did not, it was killed, and what
 * it records ends with it, as the kernel sees to for the program that it started itself. */
static void stop_without(long reason)
{
   if (reason == HOMING_GONE && !__atomic_load_n(&header->stop, __ATOMIC_ACQUIRE))
      syscall(SYS_kill, getpid(), SIGKILL);
   stop_recording();
}

/* Segments change with all signals blocked: a handler would find a stream that is neither in one nor in the next, and
 * might never return. Returns what to give to homing_end_change(). */
uint64_t homing_begin_change(void)
{
   uint64_t all = ~0ULL, before = 0;
   syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
   homing_self.inside++;
   return before;
}

void homing_end_change(uint64_t before)
{
   homing_self.inside--;
   syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* Posts the thread's segment, and withdraws it from open[] afterwards: who looks there sees every word in one place or
 * the other. */
static void post_segment(void)
{
   struct stream *self = &homing_self;
   word end = header->open[self->slot].words;
   if (self->handler_end > end)
      end = self->handler_end;
   homing_wire_full full = {.segment = header->open[self->slot].segment_plus_1 - 1,
                            .words = (uint32_t)((end - (word)self->base) / sizeof(word)),
                            .stream = self->thread,
                            .index = self->index++};
   leave_segment();
   long sent = homing_send_full(&full);
   if (sent == 0)
      __atomic_store_n(&header->open[self->slot].segment_plus_1, 0, __ATOMIC_RELEASE);
   else
      stop_without(sent); /* and homing finds the segment there */
}

/* How far a segment may be filled, */
static word end_of_segment(void) { return (word)(homing_self.base + header->segment_words - KEPT_FREE); }

/* and how much of that is for signal handlers where code of recorders/clang may be interrupted. */
static word handler_words(void) { return header->segment_words >= 1 << 14 ? 1 << 12 : header->segment_words / 4; }

/* Opens a segment for the thread; 0 when there is none to be had. */
static int open_segment(void)
{
   struct stream *self = &homing_self;
   long segment = header->stop ? HOMING_PIPE_LOST : homing_take_credit();
   if (segment < 0) {
      stop_without(segment);
      return 0;
   }
   self->base = (word *)first_segment + (uint64_t)segment * header->segment_words;
   header->open[self->slot].words = (word)self->base;
   header->open[self->slot].thread = self->thread;
   header->open[self->slot].index = self->index;
   __atomic_store_n(&header->open[self->slot].segment_plus_1, (uint32_t)segment + 1, __ATOMIC_RELEASE);
   self->cursor = &header->open[self->slot].words;
   self->limit = end_of_segment() - (homing_has_records ? handler_words() * sizeof(word) : 0);
   self->inline_limit = self->limit - HOMING_RECORD_MAX * sizeof(word);
   return 1;
}

/* An entry of open[] that no other live thread uses; -1 if a segment has no room for more cuts. */
static long take_slot(void)
{
   uint32_t most = (header->segment_words - KEPT_FREE - HOMING_EVENT_MAX) / HOMING_CUT_WORDS;
   for (uint32_t slot = 0; slot < HOMING_WIRE_MAX_OPEN && slot < most; slot++)
      if (!slot_used[slot] && !__atomic_exchange_n(&slot_used[slot], 1, __ATOMIC_ACQ_REL)) {
         uint32_t end = __atomic_load_n(&header->open_end, __ATOMIC_RELAXED);
         while (end <= slot && !__atomic_compare_exchange_n(&header->open_end, &end, slot + 1, 0, __ATOMIC_ACQ_REL,
                                                            __ATOMIC_RELAXED)) {
         }
         return slot;
      }
   return -1;
}

/* The virtual time of function entries, in the room that `limit` keeps free: it also takes the words of code that
 * signal handlers interrupted between its test of the limit and its taking of room. */
static void send_advance(void)
{
   struct stream *self = &homing_self;
   if (self->advance == 0 || self->base == NULL || *self->cursor > self->limit)
      return;
   word advance = self->advance;
   self->advance = 0;
   *(word *)homing_take(self->cursor, sizeof(word)) = HOMING_WORD(HOMING_ADVANCE, advance);
}

void homing_post(void)
{
   if (homing_threads == 0) {
      unpublished = 1;
      return;
   }
   send_advance();
   post_segment();
}

int homing_make_room(unsigned n)
{
   struct stream *self = &homing_self;
   if (self->base != NULL) {
      if (*self->cursor + n * sizeof(word) <= self->limit)
         return 1;
      send_advance();
      post_segment();
   }
   return homing_active && open_segment();
}

void homing_publish(void)
{
   struct stream *self = &homing_self;
   if (!homing_active || homing_interrupted() || self->inside || self->base == NULL)
      return;
   if (homing_threads == 0) {
      unpublished = 1;
      return;
   }
   int saved = errno;
   uint64_t mask = homing_begin_change();
   homing_post();
   homing_end_change(mask);
   errno = saved;
}

unsigned homing_most_cuts(void) { return __atomic_load_n(&header->open_end, __ATOMIC_ACQUIRE); }

void homing_write_cuts(unsigned most)
{
   for (unsigned slot = 0; slot < most; slot++) {
      __typeof__(header->open[0]) *entry = &header->open[slot];
      uint32_t segment, index, thread;
      word written;
      do { /* it may change while it is looked at */
         segment = __atomic_load_n(&entry->segment_plus_1, __ATOMIC_ACQUIRE);
         index = __atomic_load_n(&entry->index, __ATOMIC_ACQUIRE);
         thread = __atomic_load_n(&entry->thread, __ATOMIC_ACQUIRE);
         written = __atomic_load_n(&entry->words, __ATOMIC_ACQUIRE);
      } while (segment != __atomic_load_n(&entry->segment_plus_1, __ATOMIC_ACQUIRE) ||
               index != __atomic_load_n(&entry->index, __ATOMIC_ACQUIRE));
      if (segment == 0 || slot == homing_self.slot)
         continue;
      word begin = first_segment + (word)(segment - 1) * header->segment_words * sizeof(word);
      word words = (written - begin) / sizeof(word); /* for a moment perhaps beyond the segment's end */
      if (words > header->segment_words)
         words = header->segment_words;
      word *room = (word *)homing_take(homing_self.cursor, HOMING_CUT_WORDS * sizeof(word));
      room[1] = (word)(segment - 1) << 32 | index;
      homing_head(room, HOMING_WORD(HOMING_CUT, (word)thread << 32 | words));
   }
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

/* Whether there is room for n words, which is made if need be. */
static int have_room(unsigned n)
{
   struct stream *self = &homing_self;
   if (!__atomic_load_n(&homing_active, __ATOMIC_RELAXED))
      return 0;
   int interrupted = homing_interrupted();
   if (self->inside)
      return 0;
   if (UNLIKELY(lost[LOST_AFTER_END] | lost[LOST_IN_HANDLER]) && self->state == STREAM_OPEN && !interrupted)
      send_losses();
   int full = *self->cursor + n * sizeof(word) > self->limit;
   if (self->state == STREAM_NEW || (full && self->state == STREAM_OPEN && !interrupted)) {
      int saved = errno, unannounced = 0;
      uint64_t mask = homing_begin_change();
      if (self->state == STREAM_NEW)
         unannounced = open_stream();
      else
         homing_make_room(n);
      homing_end_change(mask);
      errno = saved;
      if (unannounced)
         homing_send(2, HOMING_WORD(HOMING_THREAD_START, self->thread), self->thread, 0, 0, 0);
   }
   if (*self->cursor + n * sizeof(word) <= self->limit)
      return 1;
   /* A signal handler that came just now has put the segment's end here (homing_end_handler). */
   return self->handler_end != 0 && self->state == STREAM_OPEN && !homing_interrupted() && have_room(n);
}

word *homing_reserve(unsigned n)
{
   if (!have_room(n))
      return NULL;
   struct stream *self = &homing_self;
   word at = homing_take(self->cursor, n * sizeof(word));
   if (LIKELY(at + n * sizeof(word) <= self->limit))
      return (word *)at;
   /* A signal handler took the room in between; it has returned, so this gives back just what was taken. */
   homing_take(self->cursor, -(word)(n * sizeof(word)));
   return homing_reserve(n);
}

int homing_record_room(void) { return have_room(HOMING_RECORD_MAX + 1); }

struct kept homing_begin_handler(void)
{
   struct stream *self = &homing_self;
   struct kept kept = {self->cursor, self->inline_limit, self->limit, homing_has_records && self->base != NULL,
                       self->handlers};
   if (!kept.begun)
      return kept;
   word start = end_of_segment() - handler_words() * sizeof(word) + KEPT_FREE * sizeof(word);
   if (self->handler_end > start)
      start = self->handler_end;
   /* One that interrupts another cannot tell where that writes, either. */
   if (self->handlers++ == 0 && self->cursor != &self->nowhere && kept.limit < start && start < end_of_segment()) {
      self->handler_start = start;
      self->interrupted_at = *self->cursor;
      *self->cursor = start;
      self->limit = end_of_segment();
      self->inline_limit = self->limit - HOMING_RECORD_MAX * sizeof(word);
   } else {
      homing_go_nowhere();
   }
   return kept;
}

void homing_end_handler(struct kept kept)
{
   struct stream *self = &homing_self;
   if (!kept.begun || !homing_active)
      return;
   if (self->cursor == &self->nowhere)
      homing_go_nowhere(); /* counts what it has written */
   int wrote = 0;
   self->handlers = kept.handlers;
   if (kept.handlers == 0 && self->handler_start != 0) {
      wrote = *kept.cursor > self->handler_start;
      if (wrote)
         self->handler_end = *kept.cursor;
      *kept.cursor = self->interrupted_at;
      self->handler_start = 0;
   }
   self->cursor = kept.cursor;
   /* What the handler wrote comes next, behind the record that it interrupted: that ends the segment. */
   self->limit = wrote ? 0 : kept.limit;
   self->inline_limit = wrote ? 0 : kept.inline_limit;
}

void homing_abandon_handler(void)
{
   struct stream *self = &homing_self;
   if (self->handlers == 0)
      return;
   self->handlers = 0;
   if (self->handler_start == 0)
      return;
   /* The record that it interrupted is never completed. Of a loop's the words so far count. */
   word *record = (word *)self->interrupted_at, *end = (word *)self->handler_start;
   self->handler_start = 0;
   if ((*record & HOMING_WORD(0xff, 0)) == HOMING_WORD(HOMING_LOOP, 0)) {
      if (record[1] == 0) {
         while (end[-1] == 0)
            end--;
         record[1] = (word)end - (word)record;
      }
   } else {
      for (; record < end; record++)
         *record = 0;
   }
   if (self->cursor == &self->nowhere) { /* from one that had interrupted it */
      self->cursor = &header->open[self->slot].words;
      self->limit = self->inline_limit = 0;
   }
}

/* After homing_reserve() found no room. */
static void count_loss(void)
{
   if (homing_self.state == STREAM_ENDED)
      __atomic_add_fetch(&lost[LOST_AFTER_END], 1, __ATOMIC_RELAXED);
   else if (homing_active && (homing_self.inside || homing_interrupted()))
      __atomic_add_fetch(&lost[LOST_IN_HANDLER], 1, __ATOMIC_RELAXED);
}

void homing_lose_records(word words)
{
   if (homing_self.state == STREAM_ENDED)
      __atomic_add_fetch(&lost[LOST_AFTER_END], words, __ATOMIC_RELAXED);
   else if (homing_active && homing_self.handlers > 0)
      __atomic_add_fetch(&lost[LOST_IN_HANDLER], words, __ATOMIC_RELAXED);
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
   if (room != NULL) {
      for (unsigned i = 1; i < n; i++)
         room[i] = words[i];
      homing_head(room, head);
   }
   /* The runtime's own calls are dropped on purpose; and what libc frees of a thread behind its end. */
   if (room == NULL && !homing_self.inside && homing_self.state != STREAM_ENDED)
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
   room[1] = object;
   room[2] = __atomic_add_fetch(&next_stamp, 1, __ATOMIC_SEQ_CST);
   homing_head(room, HOMING_WORD(HOMING_SYNC, kind));
}

word homing_object(void) { return __atomic_add_fetch(&next_object, 8, __ATOMIC_RELAXED) | 1; }

uint32_t homing_new_thread(void)
{
   uint32_t thread = __atomic_add_fetch(&homing_threads, 1, __ATOMIC_RELAXED);
   if (unpublished && !homing_self.inside) {
      unpublished = 0;
      homing_publish();
   }
   return thread;
}

void homing_begin_thread(uint32_t thread)
{
   struct stream *self = &homing_self;
   uint64_t mask = homing_begin_change();
   if (self->state == STREAM_OPEN) { /* a signal handler came first, and counts as a thread of its own */
      if (self->base != NULL)
         post_segment();
      self->index = 0;
   }
   self->thread = thread;
   homing_end_change(mask);
}

void homing_may_block(void)
{
   if (homing_active && 2 * live > header->segments)
      homing_publish();
}

void homing_end_thread(void)
{
   struct stream *self = &homing_self;
   if (!homing_active || self->state == STREAM_ENDED)
      return;
   homing_send(1, HOMING_WORD(HOMING_THREAD_END, self->thread), 0, 0, 0, 0);
   uint64_t mask = homing_begin_change();
   if (self->base != NULL)
      post_segment();
   if (self->state == STREAM_OPEN) {
      __atomic_store_n(&slot_used[self->slot], 0, __ATOMIC_RELEASE);
      __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
   }
   self->state = STREAM_ENDED;
   homing_end_change(mask);
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
   homing_close_pipes();
}

/* Parses "MEMFD,CREDIT_FD,FULL_FD" and maps the shared memory; 0 if that fails. */
static int map_wire(const char *wire)
{
   int memory, credit, full;
   if (sscanf(wire, "%d,%d,%d", &memory, &credit, &full) != 3)
      return 0;
   struct stat status;
   if (fstat(memory, &status) != 0)
      return 0;
   void *at = (void *)syscall(SYS_mmap, NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
   if (at == MAP_FAILED)
      return 0;
   header = at;
   first_segment = (word)at + header->header_bytes;
   homing_open_pipes(credit, full);
   syscall(SYS_close, memory);
   return header->magic == HOMING_WIRE_MAGIC && header->segment_words > HOMING_RESERVE_MAX + KEPT_FREE;
}

void homing_child(void)
{
   if (header != NULL)
      __atomic_add_fetch(&header->children, 1, __ATOMIC_RELAXED);
}

/* One process records into a wire: the first. Others run as usual and say so. */
int homing_only_program;

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
   homing_close_pipes();
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
      homing_say("homing: " HOMING_WIRE_ENV " names no wire that this program can use: it does not record itself. "
                 "Under --recorder "
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
   homing_look_for_python();
   homing_region_start();
   homing_only_program = getenv(HOMING_ONLY_PROGRAM_ENV) != NULL;
   unsetenv(HOMING_ONLY_PROGRAM_ENV);
   __atomic_store_n(&homing_active, 1, __ATOMIC_RELEASE);
   homing_send_maps();
}

__attribute__((constructor(101))) static void start_early(void) { homing_start(); }
