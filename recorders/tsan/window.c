/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Recording in windows (`homing record --windows`), which open and close by a number in the wire's header. Homing says
 * when that is, in words of references or in marks of a name; threads count theirs there, all together, and the number
 * is raised where they meet next. They look at it where they synchronise and where they need room. Between windows a
 * thread's references go where nobody reads them, and are counted in words; mappings, allocations, threads and marks
 * are sent all the same, for which the thread turns back to its segment for a moment. What a thread has sent in one
 * window comes before what others send in the next: one edge a window. */
#include "runtime.h"
#include "../include/homing_function.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* In a window, words between two looks: threads that leave it later than others go on alone, as they would not have. */
enum { LOOK_EACH = 4096 };

/* Whether the threads of the program meet at barriers. Windows open and close there, since no thread is ahead of
 * another. Elsewhere a thread that is behind would look as though it worked alone. After PATIENCE words without a
 * meeting, the next thread that counts opens or closes the window. */
enum { PATIENCE = 1 << 22 };
static int meets;

/* The mark that windows go by: none if they go by words. And the count of marks at which the last window opened: it
 * closes at the next one, whether or not homing has said so by then. */
static const char *mark;
static word opened;

/* Words that the thread has sent in this recording, of references alone: other words are sent between windows, too. */
static word sent(void)
{
   struct stream *self = &homing_self;
   word open = self->base == NULL ? 0 : (*self->cursor - (word)self->base) / sizeof(word);
   return self->posted + open - self->control;
}

void homing_turn_to_wire(void)
{
   struct stream *self = &homing_self;
   if (LIKELY(!self->paused) || self->turned++ > 0)
      return;
   self->cursor = self->aside.cursor;
   self->limit = self->aside.limit;
   self->inline_limit = self->aside.inline_limit;
}

void homing_turn_away(void)
{
   struct stream *self = &homing_self;
   if (LIKELY(self->turned == 0) || --self->turned > 0 || !self->paused)
      return;
   self->aside = (struct cursor){self->cursor, self->inline_limit, self->limit};
   homing_go_on_nowhere();
}

word *homing_reserve_aside(unsigned n)
{
   if (!homing_active || homing_interrupted() || homing_self.inside)
      return NULL;
   int saved = errno;
   uint64_t mask = homing_begin_change();
   word *room = homing_make_room(n) ? (word *)homing_take(homing_self.cursor, n * sizeof(word)) : NULL;
   homing_self.control += room == NULL ? 0 : n;
   homing_end_change(mask);
   errno = saved;
   return room;
}

/* With all signals blocked: a handler finds the thread in a window, or between two. */
static void pause_recording(void)
{
   int saved = errno;
   homing_know_touches();
   errno = saved;
   uint64_t mask = homing_begin_change();
   homing_self.paused = homing_self.turned = 1;
   homing_end_change(mask);
}

static void resume_recording(void)
{
   homing_look_at_nowhere();
   homing_go_nowhere(); /* counts what went there */
   uint64_t mask = homing_begin_change();
   homing_self.paused = homing_self.turned = 0;
   homing_end_change(mask);
}

/* The number that the window is to have next, if it is to have it for `patience` words; 0 if it is not yet. */
static uint32_t due(word progress, word patience)
{
   uint32_t window = __atomic_load_n(&homing_wire->window, __ATOMIC_RELAXED), next = window + 1;
   word at = __atomic_load_n(&homing_wire->window_at[next % 2], __ATOMIC_ACQUIRE);
   if (mark != NULL && next % 2 == 0)
      at = __atomic_load_n(&opened, __ATOMIC_RELAXED) + HOMING_PLACE + next % HOMING_PLACE;
   progress |= HOMING_PLACE - 1; /* places are no more exact than that */
   return window != 0 && progress >= at && progress - at >= patience && (at - next) % HOMING_PLACE == 0 ? next : 0;
}

/* `met`: where threads meet. That they do not is written before the number, so that whoever sees the window sees it. */
static void raise_to(uint32_t next, int met)
{
   uint32_t window = next - 1;
   if (next != 0 && !met)
      __atomic_store_n(&homing_wire->window_apart, next, __ATOMIC_RELAXED);
   if (next % 2 == 1)
      __atomic_store_n(&opened, __atomic_load_n(&homing_wire->progress, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
   if (next != 0 &&
       __atomic_compare_exchange_n(&homing_wire->window, &window, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
       mark != NULL && next % 2 == 0)
      raise_to(due(__atomic_load_n(&homing_wire->progress, __ATOMIC_RELAXED), 0), met); /* begins where it ends */
}

void homing_count_progress(word words)
{
   if (words > 0 && homing_wire->window != 0 && mark == NULL)
      raise_to(due(__atomic_add_fetch(&homing_wire->progress, words, __ATOMIC_RELAXED), meets ? PATIENCE : 0), 0);
}

static uint32_t is_due(void)
{
   if (!homing_active || __atomic_load_n(&homing_wire->window, __ATOMIC_RELAXED) == 0)
      return 0;
   meets = 1;
   return due(__atomic_load_n(&homing_wire->progress, __ATOMIC_RELAXED), 0);
}

void homing_know_window_mark(void)
{
   mark = secure_getenv(HOMING_WINDOW_MARK_ENV);
   mark = mark != NULL ? strdup(mark) : NULL;
   unsetenv(HOMING_WINDOW_MARK_ENV);
}

/* Windows open and close where threads next meet; where they do not, here. */
void homing_window_mark(const char *name)
{
   if (!homing_is_mark(mark, name) || homing_wire->window == 0)
      return;
   word marks = __atomic_add_fetch(&homing_wire->progress, HOMING_PLACE, __ATOMIC_RELAXED);
   raise_to(due(marks, meets ? HOMING_PLACE : 0), 0);
   homing_follow_window();
}

int homing_counts_meetings(void) { return (homing_active && mark != NULL) || is_due() != 0; }

void homing_are_idle(void) { raise_to(is_due(), 1); }

/* By words, only those are counted that come when it is due: so it is the first barrier to which all do. By marks, all
 * are: so it is the first barrier after the mark, wherever the other threads are when it is made. */
void homing_meet(word barrier, unsigned threads)
{
   static int lock;
   static word at;
   static unsigned come;
   if (!homing_counts_meetings())
      return;
   homing_lock(&lock);
   come = at == barrier ? come + 1 : 1;
   at = barrier;
   if (come == threads) {
      come = 0;
      raise_to(is_due(), 1);
   }
   homing_unlock(&lock);
}

void homing_count_window(void)
{
   struct stream *self = &homing_self;
   if (self->paused || !(self->window & 1))
      return;
   word now = sent();
   homing_count_progress(now - self->counted);
   self->counted = now;
}

void homing_look_again_soon(void)
{
   struct stream *self = &homing_self;
   if (LIKELY(!(self->window & 1)) || self->base == NULL)
      return;
   word soon = *self->cursor + LOOK_EACH * sizeof(word), end = self->limit - HOMING_RECORD_MAX * sizeof(word);
   self->inline_limit = soon < end ? soon : end;
}

/* What the recorder says of a window: its number, and whether it opened or closed where threads do not meet. */
static word described(uint32_t number)
{
   uint32_t apart = __atomic_load_n(&homing_wire->window_apart, __ATOMIC_RELAXED);
   return HOMING_WORD(HOMING_WINDOW, (word)(apart - 1) / 2 == number ? (word)1 << 33 : 0) | (word)number << 1;
}

static void end_window(uint32_t number)
{
   homing_count_window();
   homing_send(2, described(number), sent() - homing_self.sent_before, 0, 0, 0);
   homing_sync_always(HOMING_SYNC_RELEASE, OBJECT_WINDOW);
}

static void begin_window(uint32_t number)
{
   struct stream *self = &homing_self;
   word unseen = self->unseen;
   self->unseen = 0;
   homing_sync_always(HOMING_SYNC_ACQUIRE, OBJECT_WINDOW);
   homing_send(2, described(number) | 1, unseen, 0, 0, 0);
   self->sent_before = self->counted = sent();
   homing_look_again_soon();
}

static void follow(void)
{
   struct stream *self = &homing_self;
   if (homing_interrupted() || homing_in_handler() || self->inside || self->handlers > 0 || self->begins_recording)
      return;
   homing_reserve(0); /* begins the thread's stream in this recording */
   uint32_t now = __atomic_load_n(&homing_wire->window, __ATOMIC_ACQUIRE);
   if (!homing_active || self->state != STREAM_OPEN || now == self->window)
      return;
   if (!self->paused) {
      if (self->window & 1)
         end_window(self->window >> 1);
      pause_recording();
   }
   self->window = now;
   if (now & 1) {
      resume_recording();
      begin_window(now >> 1);
   }
}

void homing_follow_window(void)
{
   if (UNLIKELY(homing_active && __atomic_load_n(&homing_wire->window, __ATOMIC_RELAXED) != homing_self.window))
      follow();
}
