/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The region of interest: from the first entry of one function, or a mark, to the next such after that. The tool only
 * says where it begins and ends; homing drops what lies outside, and keeps who touched each page first.
 */
#include "homing.h"
#include "homing_function.h"

/* Of the core, which the tool is linked with, but not among the headers for tools. */
extern Bool VG_(get_fnname_raw)(DiEpoch epoch, Addr address, const HChar** name);

const HChar *homing_from, *homing_to;

static enum { UNKNOWN, BEFORE, INSIDE, AFTER } place;

static Bool enters(Addr address, const HChar* name)
{
   DiEpoch epoch = VG_(current_DiEpoch)();
   const HChar* symbol;
   if (name == NULL || !VG_(get_fnname_if_entry)(epoch, address, &symbol))
      return False;
   if (homing_is_called(symbol, name))
      return !homing_is_part(symbol);
   return VG_(get_fnname_raw)(epoch, address, &symbol) && homing_is_called(symbol, name);
}

UInt homing_region_entry(Addr address)
{
   return (enters(address, homing_from) ? HOMING_ENTERS_FROM : 0) | (enters(address, homing_to) ? HOMING_ENTERS_TO : 0);
}

/* The place before any function is entered. */
static void look_up_place(void)
{
   if (place == UNKNOWN)
      place = homing_from != NULL ? BEFORE : INSIDE;
}

void homing_enter(ULong entry)
{
   look_up_place();
   if (place == BEFORE && (entry & HOMING_ENTERS_FROM) != 0)
      place = INSIDE;
   else if (place == INSIDE && (entry & HOMING_ENTERS_TO) != 0)
      place = AFTER;
   else
      return;
   homing_control(HOMING_REGION, place == INSIDE, 0, NULL);
}

void homing_region_mark(const HChar* mark)
{
   homing_enter((homing_is_mark(homing_from, mark) ? HOMING_ENTERS_FROM : 0) |
                (homing_is_mark(homing_to, mark) ? HOMING_ENTERS_TO : 0));
}

void homing_region_after_fork(void)
{
   look_up_place();
   if (place != BEFORE)
      homing_control(HOMING_REGION, place == INSIDE, 0, NULL);
}
