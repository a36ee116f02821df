/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mappings that go away under other threads. Segments arrive when they are full, so an event alone would not say which
 * of the other threads' references come before it. The thread that removes a mapping therefore notes how far each of
 * them has written (HOMING_CUT), and posts that with the event before the mapping is gone. What homing gets behind it
 * and beyond the cuts comes after.
 *
 * A mapping that moves is known only afterwards. Until that is posted no mapping made by another thread may be used: it
 * may lie where the one that moved has been. */
#include "runtime.h"

#include <errno.h>

/* One cut at a time, so that what lies before one never holds another that has not been posted. Its holder needs
 * nothing of other threads: it has made room before. */
static int cutting;
static uint32_t cuts_made;

/* The streams that may have a segment, and what each of them but our own has written, into room that was made. */
static unsigned most_cuts(void) { return __atomic_load_n(&homing_wire->open_end, __ATOMIC_ACQUIRE); }

static word *take_control(unsigned words)
{
   homing_self.control += words;
   return (word *)homing_take(homing_self.cursor, words * sizeof(word));
}

static void write_cuts(unsigned most)
{
   for (unsigned slot = 0; slot < most; slot++) {
      __typeof__(homing_wire->open[0]) *entry = &homing_wire->open[slot];
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
      word begin = (word)homing_segment(segment - 1);
      word words = (written - begin) / sizeof(word); /* for a moment perhaps beyond the segment's end */
      if (words > homing_wire->segment_words)
         words = homing_wire->segment_words;
      word *room = take_control(HOMING_CUT_WORDS);
      room[1] = (word)(segment - 1) << 32 | index;
      homing_head(room, HOMING_WORD(HOMING_CUT, (word)thread << 32 | words));
   }
}

struct cut homing_begin_cut(void)
{
   struct cut cut = {0, 0};
   if (!homing_active || homing_interrupted() || homing_self.inside)
      return cut;
   int saved = errno;
   homing_reserve(0); /* begins the thread's stream */
   cut.mask = homing_begin_change();
   cut.begun = homing_self.state == STREAM_OPEN && homing_active;
   while (cut.begun) {
      unsigned most = homing_is_alone() ? 0 : most_cuts();
      cut.begun = homing_make_room(HOMING_CUT_WORDS * most + HOMING_EVENT_MAX);
      if (!cut.begun)
         break;
      homing_lock(&cutting);
      if (homing_is_alone() || most == most_cuts()) {
         write_cuts(most);
         break;
      }
      homing_unlock(&cutting);
   }
   if (!cut.begun)
      homing_end_change(cut.mask);
   errno = saved;
   return cut;
}

void homing_end_cut(struct cut cut, struct event event)
{
   if (!cut.begun) {
      if (event.words > 0)
         homing_send(event.words, event.word[0], event.word[1], event.word[2], event.word[3], event.word[4]);
      return;
   }
   int saved = errno;
   if (event.words > 0) {
      word *room = take_control(event.words);
      for (unsigned i = 1; i < event.words; i++)
         room[i] = event.word[i];
      homing_head(room, event.word[0]);
      homing_post();
   }
   __atomic_add_fetch(&cuts_made, 1, __ATOMIC_RELEASE);
   homing_unlock(&cutting);
   homing_make_room(1); /* a signal handler that comes right now shall find some */
   homing_end_change(cut.mask);
   errno = saved;
}

void homing_cut(struct event event) { homing_end_cut(homing_begin_cut(), event); }

void homing_await_cut(void)
{
   uint32_t before = __atomic_load_n(&cuts_made, __ATOMIC_ACQUIRE);
   while (__atomic_load_n(&cutting, __ATOMIC_ACQUIRE) && __atomic_load_n(&cuts_made, __ATOMIC_ACQUIRE) == before)
      syscall(SYS_sched_yield);
}
