/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The region of interest: from the first entry of one function to the first entry of another after that. The tool only
 * says where it begins and ends; homing drops what lies outside, and keeps who touched each page first.
 */
#include "homing.h"

/* Of the core, which the tool is linked with, but not among the headers for tools. */
extern Bool VG_(get_fnname_raw)(DiEpoch epoch, Addr address, const HChar** name);

const HChar *homing_from, *homing_to;

static enum { UNKNOWN, BEFORE, INSIDE, AFTER } place;

static Bool begins_with(const HChar* text, const HChar* start)
{
   return VG_(strncmp)(text, start, VG_(strlen)(start)) == 0;
}

/* What may follow a function's name: its parameters, its version, or that the compiler has made a variant of it. */
static Bool ends_name(const HChar* rest)
{
   return *rest == 0 || *rest == '(' || *rest == '@' || begins_with(rest, ".constprop.")
       || begins_with(rest, ".isra.");
}

/* Whether a symbol is a function of that name: as the linker knows it, or demangled, with or without parameters; the
 * type that a template returns may stand before it. */
static Bool is_called(const HChar* symbol, const HChar* name)
{
   SizeT length = VG_(strlen)(name);
   for (const HChar* at = symbol; *at != 0 && (at == symbol || at[-1] != '('); at++)
      if ((at == symbol || at[-1] == ' ') && VG_(strncmp)(at, name, length) == 0 && ends_name(at + length))
         return True;
   return False;
}

static Bool enters(Addr address, const HChar* name)
{
   DiEpoch epoch = VG_(current_DiEpoch)();
   const HChar* symbol;
   if (name == NULL || !VG_(get_fnname_if_entry)(epoch, address, &symbol))
      return False;
   if (is_called(symbol, name))
      return VG_(strstr)(symbol, "[clone .cold") == NULL && VG_(strstr)(symbol, "[clone .part") == NULL;
   return VG_(get_fnname_raw)(epoch, address, &symbol) && is_called(symbol, name);
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

void homing_region_after_fork(void)
{
   look_up_place();
   if (place != BEFORE)
      homing_control(HOMING_REGION, place == INSIDE, 0, NULL);
}
