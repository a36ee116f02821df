/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Homing's Valgrind tool: start, options, end.
 */
#include "homing.h"

static Bool option(const HChar* arg)
{
   return VG_BINT_CLO(arg, "--homing-slice", homing_slice, 10, 100000)
       || VG_STR_CLO(arg, "--homing-wire", homing_wire_address)
       || VG_STR_CLO(arg, "--homing-from", homing_from)
       || VG_STR_CLO(arg, "--homing-to", homing_to)
       || VG_BOOL_CLO(arg, "--homing-only-program", homing_only_program)
       || VG_BOOL_CLO(arg, "--homing-go", homing_go);
}

static void usage(void)
{
   VG_(printf)("    --homing-only-program=no|yes  leave out code of the system's libraries [no]\n");
   VG_(printf)("    --homing-slice=<number>   blocks that a thread runs before the next one's turn [100000]\n");
   VG_(printf)("    --homing-wire=<numbers>   where the wire is found again after an exec; or @NAME, a socket that\n"
               "                              gives each process a wire of its own\n"
               "    --homing-from=<function>  the region of interest begins where it is first entered\n"
               "    --homing-to=<function>    ... and ends where this is first entered after that\n"
               "    --homing-go=no|yes        allocations of Go programs have call sites [no]\n");
}

static void no_debug_usage(void)
{
   VG_(printf)("    (none)\n");
}

static void after_options(void)
{
   homing_wire_attach();
   homing_track_threads();
   homing_track_syscalls();
   homing_track_allocations();
}

static void finish(Int exit_code)
{
   homing_wire_close();
}

static void before_options(void)
{
   VG_(details_name)("homing");
   VG_(details_version)(NULL);
   VG_(details_description)("records every data reference");
   VG_(details_copyright_author)("GPL version 2 or later.");
   VG_(details_bug_reports_to)("the Homing project");
   VG_(details_avg_translation_sizeB)(400);
   VG_(basic_tool_funcs)(after_options, homing_instrument, finish);
   VG_(needs_command_line_options)(option, usage, no_debug_usage);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
