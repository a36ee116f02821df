/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What Python code a thread of a recorded CPython is in: read from the interpreter's memory, whose layout is known for
 * some versions. For others, and wherever something does not fit, there are no Python frames.
 */
#include "homing.h"

/* Where the fields of CPython's structures are, in bytes. */
typedef struct {
   ULong version; /* major and minor, as in Py_Version */
   UInt main_interpreter, first_thread, next_thread, native_id;
   /* From the thread to its frame: over an object of the C stack, or directly (0). */
   UInt c_frame, frame;
   UInt code, previous, instruction, owner;
   UInt file, function, lines, first_line, instructions;
   UInt ascii, compact; /* where the letters of a text begin */
} Layout;

static const Layout layouts[] = {
   { 0x030b, 48, 16, 8, 160, 56, 8, 32, 48, 56, 69, 112, 128, 136, 72, 184, 48, 72 },
   { 0x030c, 48, 72, 8, 144, 56, 0, 0, 8, 56, 70, 112, 128, 136, 68, 192, 40, 56 },
   { 0x030d, 640, 7344, 8, 160, 0, 72, 0, 8, 56, 70, 112, 128, 136, 68, 200, 40, 56 },
};

/* The same in all of them: of an object, a text and a string of bytes. */
enum { TYPE = 8, SIZE = 16, TEXT_STATE = 32, BYTES = 32 };
/* A frame that stands for C code. */
enum { OWNED_BY_C_STACK = 3 };
enum { MOST_THREADS = 1024, MOST_FRAMES_PASSED = 64, MOST_LINE_BYTES = 1 << 20 };

static Addr runtime, version, code_type;

void homing_python_is_here(Addr its_runtime, Addr its_version, Addr its_code_type)
{
   runtime = its_runtime;
   version = its_version;
   code_type = its_code_type;
}

static Bool readable(Addr address, SizeT bytes)
{
   return VG_(am_is_valid_for_client)(address, bytes, VKI_PROT_READ);
}

/* A word of the program's; 0 where there is none. */
static Addr word_at(Addr address)
{
   return readable(address, sizeof(Addr)) ? *(Addr*)address : 0;
}

static const Layout* layout_of_program(void)
{
   if (runtime == 0 || version == 0 || code_type == 0)
      return NULL;
   ULong wanted = (word_at(version) & 0xffffffff) >> 16;
   for (UInt i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
      if (layouts[i].version == wanted)
         return &layouts[i];
   return NULL;
}

/* The frame that this thread is in, or 0. */
static Addr current_frame(const Layout* at)
{
   Addr own = VG_(gettid)();
   Addr thread = word_at(word_at(runtime + at->main_interpreter) + at->first_thread);
   for (UInt i = 0; thread != 0 && i < MOST_THREADS; i++) {
      if (word_at(thread + at->native_id) == own)
         return word_at((at->c_frame == 0 ? thread : word_at(thread + at->c_frame)) + at->frame);
      thread = word_at(thread + at->next_thread);
   }
   return 0;
}

UInt homing_python_frames(HomingPythonFrame* frames, UInt most)
{
   const Layout* at = layout_of_program();
   Addr frame = at == NULL ? 0 : current_frame(at);
   UInt count = 0;
   for (UInt i = 0; frame != 0 && count < most && i < MOST_FRAMES_PASSED; i++) {
      Addr code = word_at(frame + at->code);
      Bool of_c = (word_at(frame + (at->owner & ~7u)) >> 8 * (at->owner & 7) & 0xff) == OWNED_BY_C_STACK;
      if (!of_c && word_at(code + TYPE) == code_type)
         frames[count++] =
            (HomingPythonFrame){ code, word_at(frame + at->instruction), word_at(code + at->lines) };
      frame = word_at(frame + at->previous);
   }
   return count;
}

/* Copies a Python text; letters that are not ASCII become question marks. */
static void copy_text(const Layout* at, Addr text, HChar* out, SizeT room)
{
   SizeT length = word_at(text + SIZE), used = 0;
   UInt state = (UInt)word_at(text + TEXT_STATE);
   UInt bytes = state >> 2 & 7;
   Addr letters = text + (state >> 6 & 1 ? at->ascii : at->compact);
   Bool fits = (state >> 5 & 1) && (bytes == 1 || bytes == 2 || bytes == 4) && length < 4096;
   if (fits && readable(letters, length * bytes))
      for (; used < length && used + 1 < room; used++) {
         Addr letter = letters + used * bytes;
         UInt value = bytes == 1 ? *(UChar*)letter : bytes == 2 ? *(UShort*)letter : *(UInt*)letter;
         out[used] = value < 128 ? (HChar)value : '?';
      }
   out[used] = 0;
}

/* A number in pieces of 6 bits, and the same with its sign in bit 0. */
static UInt varint(const UChar** at, const UChar* end)
{
   UInt value = 0, shift = 0;
   while (*at < end && shift < 30) {
      UChar byte = *(*at)++;
      value |= (UInt)(byte & 63) << shift;
      shift += 6;
      if (!(byte & 64))
         break;
   }
   return value;
}

static Int signed_varint(const UChar** at, const UChar* end)
{
   UInt value = varint(at, end);
   return value & 1 ? -(Int)(value >> 1) : (Int)(value >> 1);
}

/* The line of an instruction, from the code's table of positions (Objects/locations.md of CPython). */
static Int line_of(const Layout* at, const HomingPythonFrame* frame)
{
   enum { ENTRY = 128, NO_LINE = 15, LONG = 14, NO_COLUMN = 13, ONE_LINE = 10, UNIT = 2 };
   SizeT size = word_at(frame->lines + SIZE);
   Int line = (Int)word_at(frame->code + at->first_line);
   Long wanted = (Long)(frame->instruction - (frame->code + at->instructions)), reached = 0;
   if (size > MOST_LINE_BYTES || !readable(frame->lines + BYTES, size))
      return line;
   const UChar *p = (const UChar*)(frame->lines + BYTES), *end = p + size;
   while (p < end) {
      UChar first = *p++;
      UInt kind = first >> 3 & 15;
      if (kind == LONG || kind == NO_COLUMN)
         line += signed_varint(&p, end);
      else if (kind >= ONE_LINE && kind < NO_COLUMN)
         line += (Int)kind - ONE_LINE;
      reached += UNIT * ((first & 7) + 1);
      if (reached > wanted)
         break;
      while (p < end && !(*p & ENTRY))
         p++;
   }
   return line;
}

void homing_name_python_frame(const HomingPythonFrame* frame, HChar* text, SizeT room)
{
   const Layout* at = layout_of_program();
   HChar file[400], function[200];
   copy_text(at, word_at(frame->code + at->file), file, sizeof file);
   copy_text(at, word_at(frame->code + at->function), function, sizeof function);
   VG_(snprintf)(text, room, "%s:%d in %s", file, line_of(at, frame), function);
}
