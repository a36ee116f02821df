/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which code is the program's own: that of its file, of libraries in the same directory and below, and what the program
 * makes at run time. All else is libraries of the system.
 */
#include "homing.h"

Bool homing_only_program;

/* Of the core, which the tool is linked with, but not among the headers for tools. */
extern Int VG_(cl_exec_fd);
extern Bool VG_(resolve_filename)(Int fd, const HChar** name);

/* The program's file, and how many bytes of that all own files begin with. */
static HChar* program;
static SizeT common;

static void look_up_program(void)
{
   const HChar* name;
   if (!VG_(resolve_filename)(VG_(cl_exec_fd), &name))
      name = VG_(args_the_exename);
   program = VG_(strdup)("homing.own", name);
   const HChar* slash = VG_(strrchr)(program, '/');
   /* Of a program in the root directory only its file counts, all of it. */
   common = slash > program ? (SizeT)(slash + 1 - program) : VG_(strlen)(program) + 1;
}

Bool homing_is_own(Addr address)
{
   if (!homing_only_program)
      return True;
   if (program == NULL)
      look_up_program();
   const NSegment* segment = VG_(am_find_nsegment)(address);
   const HChar* file = segment != NULL ? VG_(am_get_filename)(segment) : NULL;
   if (file == NULL)
      return True;
   return VG_(strncmp)(file, program, common) == 0 && VG_(strstr)(file, "/vgpreload_") == NULL;
}
