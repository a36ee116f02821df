/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where signal handlers write that interrupt code of recorders/clang: that may be in the middle of a record, and a
 * handler cannot tell where. So handlers have a part of the segment of their own, at its end, which is taken behind the
 * record that the first of them interrupted. */
#include "runtime.h"

struct kept homing_begin_handler(void)
{
   struct stream *self = &homing_self;
   struct kept kept = {self->cursor, self->inline_limit, self->limit, homing_has_records && self->base != NULL,
                       self->handlers};
   self->muddled |= self->paused;
   if (!kept.begun)
      return kept;
   word start = homing_segment_end() - homing_handler_words() * sizeof(word) + HOMING_KEPT_FREE * sizeof(word);
   if (self->handler_end > start)
      start = self->handler_end;
   /* One that interrupts another cannot tell where that writes, either. */
   if (self->handlers++ == 0 && self->cursor != &self->nowhere && kept.limit < start && start < homing_segment_end()) {
      self->handler_start = start;
      self->interrupted_at = *self->cursor;
      *self->cursor = start;
      self->limit = homing_segment_end();
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
      if (wrote) {
         self->handler_end = *kept.cursor;
         self->posted += (self->handler_end - self->handler_start) / sizeof(word);
      }
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
      self->cursor = &homing_wire->open[self->slot].words;
      self->limit = self->inline_limit = 0;
   }
}
