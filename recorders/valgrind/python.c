/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What Python code a thread of the recorded program is in.
 */
#include "homing.h"

static Bool read_guest(void* out, Addr address, SizeT bytes)
{
   if (!VG_(am_is_valid_for_client)(address, bytes, VKI_PROT_READ))
      return False;
   VG_(memcpy)(out, (void*)address, bytes);
   return True;
}

#define HOMING_PYTHON_READ(out, address, bytes) read_guest(out, address, bytes)
#define HOMING_PYTHON_THREAD() ((Addr)VG_(gettid)())
#include "homing_python.h"

void homing_python_is_here(Addr runtime, Addr version, Addr code_type)
{
   homing_python.runtime = runtime;
   homing_python.version = version;
   homing_python.code_type = code_type;
}

UInt homing_frames_of_python(HomingPythonFrame* frames, UInt most)
{
   homing_python_frame found[PYTHON_FRAMES_PASSED];
   UInt count = homing_python_frames(found, most < PYTHON_FRAMES_PASSED ? most : PYTHON_FRAMES_PASSED);
   for (UInt i = 0; i < count; i++)
      frames[i] = (HomingPythonFrame){ found[i].code, found[i].instruction, found[i].lines };
   return count;
}

void homing_name_python_frame(const HomingPythonFrame* frame, HChar* text, SizeT room)
{
   homing_python_frame of = { frame->code, frame->instruction, frame->lines };
   HChar file[400], function[200];
   homing_python_names(&of, file, sizeof file, function, sizeof function);
   VG_(snprintf)(text, room, "%s:%d in %s", file, homing_python_line(&of), function);
}
