/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * References and events that could not be sent, counted by reason. */
#include "runtime.h"

enum loss { LOST_AFTER_END, LOST_IN_HANDLER, LOST_TOUCH, LOSSES };
static uint64_t lost[LOSSES];
/* With lengths: strlen is a function of the program's that records. */
#define LOSS(text) {text, sizeof text - 1}
static const struct {
   const char *text;
   unsigned length;
} loss_names[LOSSES] = {
    LOSS("reference of a thread whose stream had ended"),
    LOSS("reference or event of a signal handler that interrupted the recorder at a segment's end"),
    LOSS("first touch of a page between windows, of more than 3 million, or of a signal handler")};

void homing_send_losses(void)
{
   if (LIKELY((lost[LOST_AFTER_END] | lost[LOST_IN_HANDLER] | lost[LOST_TOUCH]) == 0))
      return;
   for (unsigned reason = 0; reason < LOSSES; reason++) {
      uint64_t count = __atomic_exchange_n(&lost[reason], 0, __ATOMIC_RELAXED);
      if (count > 0) {
         word name = homing_name(loss_names[reason].text, loss_names[reason].length);
         homing_send(2, HOMING_WORD(HOMING_LOST, count), name, 0, 0, 0);
      }
   }
}

void homing_count_loss(void)
{
   if (homing_self.state == STREAM_ENDED)
      __atomic_add_fetch(&lost[LOST_AFTER_END], 1, __ATOMIC_RELAXED);
   else if (homing_active && (homing_self.inside || homing_interrupted()))
      __atomic_add_fetch(&lost[LOST_IN_HANDLER], 1, __ATOMIC_RELAXED);
}

void homing_lose_touch(void) { __atomic_add_fetch(&lost[LOST_TOUCH], 1, __ATOMIC_RELAXED); }

void homing_lose_records(word words)
{
   if (homing_self.state == STREAM_ENDED)
      __atomic_add_fetch(&lost[LOST_AFTER_END], words, __ATOMIC_RELAXED);
   else if (homing_active && homing_self.handlers > 0)
      __atomic_add_fetch(&lost[LOST_IN_HANDLER], words, __ATOMIC_RELAXED);
}

void homing_forget_losses(void)
{
   for (unsigned reason = 0; reason < LOSSES; reason++)
      lost[reason] = 0;
}
