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

/* Of the recording that goes on, or of the last one. */
homing_wire_header *homing_wire;
static word first_segment;
/* Threads made so far, the first not counted. */
uint32_t homing_threads;
/* Recordings so far: a thread's stream belongs to one. */
static uint32_t recording;
/* This one began while the program ran. */
static int attached;
/* The only thread so far has sent something that is to be published, when there are others. */
static int unpublished;
static uint64_t next_stamp, next_object = 16; /* below: objects that exist once */
/* Threads with a stream. */
static uint32_t live;
static unsigned char slot_used[HOMING_WIRE_MAX_OPEN];
static pthread_key_t end_key;

/* References and synchronisations that are not recorded between two looks for a recorder. */
enum { LOOKS_EACH = 4096, LOOKS_EACH_SYNC = 16 };
/* References between windows that are counted in the header together. */
enum { COUNTED_AT_ONCE = 4096 };

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
   homing_self.paused = 0;
   leave_segment();
}

/* As stop_recording, with the reason, from the pipes. Homing says that it ends; if it did not, it was killed, and what
 * it started ends with it, as the kernel sees to for the program itself. */
static void stop_without(long reason)
{
   if (!attached && reason == HOMING_GONE && !__atomic_load_n(&homing_wire->stop, __ATOMIC_ACQUIRE))
      syscall(SYS_kill, getpid(), SIGKILL);
   stop_recording();
}

uint32_t homing_recording(void) { return recording; }

int homing_is_alone(void) { return homing_threads == 0 && !attached; }

/* Whether this thread sends what it does. The one that begins a recording does so before all others. */
static int is_recording(void)
{
   return __atomic_load_n(&homing_active, __ATOMIC_RELAXED) || homing_self.begins_recording;
}

/* The thread's stream is of the recording that goes on; what it was of an earlier one is over. */
static void join_recording(void)
{
   struct stream *self = &homing_self;
   if (LIKELY(self->recording == recording))
      return;
   leave_segment();
   self->recording = recording;
   self->thread = self->index = 0;
   self->advance = self->handler_end = 0;
   self->window = self->paused = self->turned = 0;
   self->posted = self->control = self->unseen = 0;
   self->seen_at = NULL;
   if (self->state == STREAM_OPEN)
      self->state = STREAM_NEW;
}

/* Segments change with all signals blocked: a handler would find a stream that is neither in one nor in the next, and
 * might never return. Returns what to give to homing_end_change(). */
uint64_t homing_begin_change(void)
{
   uint64_t all = ~0ULL, before = 0;
   syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
   homing_self.inside++;
   homing_turn_to_wire();
   return before;
}

void homing_end_change(uint64_t before)
{
   homing_turn_away();
   homing_self.inside--;
   syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* Posts the thread's segment, and withdraws it from open[] afterwards: who looks there sees every word in one place or
 * the other. */
static void post_segment(void)
{
   struct stream *self = &homing_self;
   homing_count_window();
   word end = homing_wire->open[self->slot].words;
   self->posted += (end - (word)self->base) / sizeof(word);
   if (self->handler_end > end)
      end = self->handler_end;
   homing_wire_full full = {.segment = homing_wire->open[self->slot].segment_plus_1 - 1,
                            .words = (uint32_t)((end - (word)self->base) / sizeof(word)),
                            .stream = self->thread,
                            .index = self->index++};
   leave_segment();
   long sent = homing_send_full(&full);
   if (sent == 0)
      __atomic_store_n(&homing_wire->open[self->slot].segment_plus_1, 0, __ATOMIC_RELEASE);
   else
      stop_without(sent); /* and homing finds the segment there */
}

/* How far a segment may be filled, */
word homing_segment_end(void) { return (word)(homing_self.base + homing_wire->segment_words - HOMING_KEPT_FREE); }

/* and how much of that is for signal handlers where code of recorders/clang may be interrupted. */
word homing_handler_words(void)
{
   return homing_wire->segment_words >= 1 << 14 ? 1 << 12 : homing_wire->segment_words / 4;
}

word *homing_segment(word number) { return (word *)first_segment + number * homing_wire->segment_words; }

/* Opens a segment for the thread; 0 when there is none to be had. */
static int open_segment(void)
{
   struct stream *self = &homing_self;
   long segment = homing_wire->stop ? HOMING_PIPE_LOST : homing_take_credit();
   if (segment < 0) {
      stop_without(segment);
      return 0;
   }
   if (self->recording != recording) /* it waited until the next one */
      return 0;
   self->base = homing_segment((word)segment);
   homing_wire->open[self->slot].words = (word)self->base;
   homing_wire->open[self->slot].thread = self->thread;
   homing_wire->open[self->slot].index = self->index;
   __atomic_store_n(&homing_wire->open[self->slot].segment_plus_1, (uint32_t)segment + 1, __ATOMIC_RELEASE);
   self->cursor = &homing_wire->open[self->slot].words;
   self->limit = homing_segment_end() - (homing_has_records ? homing_handler_words() * sizeof(word) : 0);
   self->inline_limit = self->limit - HOMING_RECORD_MAX * sizeof(word);
   return 1;
}

/* An entry of open[] that no other live thread uses; -1 if a segment has no room for more cuts. */
static long take_slot(void)
{
   uint32_t most = (homing_wire->segment_words - HOMING_KEPT_FREE - HOMING_EVENT_MAX) / HOMING_CUT_WORDS;
   for (uint32_t slot = 0; slot < HOMING_WIRE_MAX_OPEN && slot < most; slot++)
      if (!slot_used[slot] && !__atomic_exchange_n(&slot_used[slot], 1, __ATOMIC_ACQ_REL)) {
         uint32_t end = __atomic_load_n(&homing_wire->open_end, __ATOMIC_RELAXED);
         while (end <= slot && !__atomic_compare_exchange_n(&homing_wire->open_end, &end, slot + 1, 0, __ATOMIC_ACQ_REL,
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
   self->control++;
   *(word *)homing_take(self->cursor, sizeof(word)) = HOMING_WORD(HOMING_ADVANCE, advance);
}

void homing_post(void)
{
   if (homing_is_alone()) {
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
   return is_recording() && open_segment();
}

void homing_publish(void)
{
   struct stream *self = &homing_self;
   if (!is_recording() || homing_interrupted() || self->inside || self->base == NULL || self->recording != recording)
      return;
   if (homing_is_alone()) {
      unpublished = 1;
      return;
   }
   int saved = errno;
   uint64_t mask = homing_begin_change();
   homing_post();
   homing_end_change(mask);
   errno = saved;
}

/* Returns 1 if nobody has announced the thread: it was made by a raw clone(2), or before the recording began. */
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

/* Whether there is room for n words, which is made if need be. */
static int have_room(unsigned n)
{
   struct stream *self = &homing_self;
   if (!is_recording())
      return 0;
   int interrupted = homing_interrupted();
   if (self->inside || (interrupted && self->recording != recording))
      return 0;
   join_recording();
   if (self->state == STREAM_OPEN && !interrupted)
      homing_send_losses();
   int full = *self->cursor + n * sizeof(word) > self->limit;
   if (self->state == STREAM_NEW || (full && self->state == STREAM_OPEN && !interrupted)) {
      int saved = errno, unannounced = 0, begins = self->state == STREAM_NEW;
      uint64_t mask = homing_begin_change();
      if (self->state == STREAM_NEW)
         unannounced = open_stream();
      else
         homing_make_room(n);
      homing_end_change(mask);
      errno = saved;
      if (unannounced)
         homing_send(2, HOMING_WORD(HOMING_THREAD_START, self->thread), self->thread, 0, 0, 0);
      if (begins)
         homing_follow_window();
   }
   if (*self->cursor + n * sizeof(word) <= self->limit)
      return 1;
   /* A signal handler that came just now has put the segment's end here (homing_end_handler). */
   return self->handler_end != 0 && self->state == STREAM_OPEN && !homing_interrupted() && have_room(n);
}

word *homing_reserve(unsigned n)
{
   struct stream *self = &homing_self;
   int paused = self->paused && self->recording == recording && self->state == STREAM_OPEN;
   if (UNLIKELY(paused) || !have_room(n))
      return self->paused ? homing_reserve_aside(n) : NULL;
   word at = homing_take(self->cursor, n * sizeof(word));
   if (LIKELY(at + n * sizeof(word) <= self->limit)) {
      self->control += n;
      return (word *)at;
   }
   /* A signal handler took the room in between; it has returned, so this gives back just what was taken. */
   homing_take(self->cursor, -(word)(n * sizeof(word)));
   return homing_reserve(n);
}

int homing_record_room(void)
{
   if (homing_active)
      homing_count_window();
   homing_follow_window();
   if ((homing_self.paused && homing_active) || !have_room(HOMING_RECORD_MAX + 1))
      return 0;
   homing_look_again_soon();
   return 1;
}

void homing_reference_slow(word reference)
{
   static __thread unsigned calls;
   if (!homing_active && (++calls % LOOKS_EACH != 0 || !homing_look_for_recorder()))
      return;
   homing_follow_window();
   if (homing_self.paused) {
      if (++homing_self.unseen % COUNTED_AT_ONCE == 0)
         homing_count_progress(COUNTED_AT_ONCE);
      homing_touch(reference);
      return;
   }
   word *room = homing_reserve(1);
   if (room == NULL) {
      homing_count_loss();
      return;
   }
   *room = reference;
   homing_self.control--;
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
      homing_count_loss();
}

void homing_sync(unsigned kind, word object)
{
   static __thread unsigned calls;
   if (!homing_active && ++calls % LOOKS_EACH_SYNC == 0)
      homing_look_for_recorder();
   homing_follow_window();
   if (!homing_active || homing_self.inside)
      return;
   if (!homing_self.paused)
      homing_sync_always(kind, object);
   else if (kind != HOMING_SYNC_ACQUIRE) {
      homing_look_at_nowhere();
      homing_count_nowhere();
   }
}

void homing_sync_always(unsigned kind, word object)
{
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
   homing_look_at_nowhere();
   uint32_t thread = __atomic_add_fetch(&homing_threads, 1, __ATOMIC_RELAXED);
   if (unpublished && !homing_self.inside) {
      unpublished = 0;
      homing_publish();
   }
   return thread;
}

void homing_begin_thread(uint32_t thread, uint32_t of_recording)
{
   struct stream *self = &homing_self;
   if (of_recording != recording) /* another one has begun since the thread was announced */
      return;
   join_recording();
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
   if (homing_active && 2 * live > homing_wire->segments)
      homing_publish();
}

void homing_end_thread(void)
{
   struct stream *self = &homing_self;
   if (!homing_active || self->state == STREAM_ENDED || self->recording != recording)
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
   self->paused = 0;
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

void homing_prepare_streams(void) { pthread_key_create(&end_key, end_of_thread); }

void homing_begin_recording(homing_wire_header *shared, int while_running)
{
   homing_wire = shared;
   first_segment = (word)shared + shared->header_bytes;
   homing_wire->cursor_base = first_segment;
   attached = while_running;
   live = homing_threads = 0;
   unpublished = 0;
   for (unsigned i = 0; i < HOMING_WIRE_MAX_OPEN; i++)
      slot_used[i] = 0;
   homing_forget_losses();
   __atomic_store_n(&recording, recording + 1, __ATOMIC_RELEASE);
}

/* This is a child after fork: the recording is its parent's. */
void homing_leave_recording(void)
{
   if (homing_active)
      stop_recording();
}

void homing_child(void)
{
   if (homing_wire != NULL)
      __atomic_add_fetch(&homing_wire->children, 1, __ATOMIC_RELAXED);
}
