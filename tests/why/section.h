/* Where the part of a planted program begins and ends that its remedy is for: its pages are made, and its threads use
 * them. In a trace it is the phase `section`; in the lab it is what `homing lab run --marked` counts. */
#ifndef SECTION_H
#define SECTION_H

#include "../../include/homing.h"
#include "../../lab/guest/homing_section.h"

static inline void section_begin(void)
{
   homing_phase("section");
   HOMING_SECTION_BEGIN();
}

static inline void section_end(void)
{
   HOMING_SECTION_END();
   homing_phase("end");
}

#endif
