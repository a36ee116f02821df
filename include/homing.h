/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Marks that a program makes while Homing records it: where its iterations end and its phases begin. Policies that
 * learn from one iteration for the next need them (docs/recording.md, "Marks").
 *
 *    #include "homing.h"
 *    for (int i = 0; i < steps; i++) {
 *       homing_phase("forces");  ...
 *       homing_phase("move");    ...
 *       homing_iteration();
 *    }
 *
 * There is nothing to link with. Without a recorder a mark is a test of one pointer. One thread at a time should mark.
 */
#ifndef HOMING_H
#define HOMING_H

#ifdef __cplusplus
extern "C" {
#endif

/* Defined by the recorder, if there is one, else by libhoming, if the program is linked with it. (A statically linked
 * program has no recorder.) */
extern void homing_mark(const char *name) __attribute__((weak));

/* An iteration of the program's outer loop ends here. */
static inline void homing_iteration(void)
{
   if (homing_mark)
      homing_mark("iteration");
}

/* A phase begins here; phases that do the same have the same name (at most 200 bytes count). */
static inline void homing_phase(const char *name)
{
   if (homing_mark)
      homing_mark(name);
}

#ifdef __cplusplus
}
#endif
#endif
