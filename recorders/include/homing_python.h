/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What Python code a thread of CPython is in: read from the interpreter's memory, whose layout is known for some
 * versions. For others, and wherever something does not fit, there are no Python frames.
 *
 * Each recorder includes this once and says before how it reads memory of the program that may not be there
 * (HOMING_PYTHON_READ(out, address, bytes), false if it is not), and which thread it is in for the kernel
 * (HOMING_PYTHON_THREAD()).
 */
#ifndef HOMING_PYTHON_H
#define HOMING_PYTHON_H

typedef unsigned long python_word;

/* A frame of Python code: addresses of its code, its instruction, and the code's table of lines. */
typedef struct {
   python_word code, instruction, lines;
} homing_python_frame;

/* Where CPython's variables _PyRuntime, Py_Version and PyCode_Type are; 0 where the program has none. */
static struct {
   python_word runtime, version, code_type;
} homing_python;

/* Where the fields of CPython's structures are, in bytes. */
typedef struct {
   unsigned version; /* major and minor, as in Py_Version */
   unsigned main_interpreter, first_thread, next_thread, native_id;
   /* From the thread to its frame: over an object of the C stack, or directly (0). */
   unsigned c_frame, frame;
   unsigned code, previous, instruction, owner;
   unsigned file, function, lines, first_line, instructions;
   unsigned ascii, compact; /* where the letters of a text begin */
} python_layout;

static const python_layout python_layouts[] = {
   { 0x030b, 48, 16, 8, 160, 56, 8, 32, 48, 56, 69, 112, 128, 136, 72, 184, 48, 72 },
   { 0x030c, 48, 72, 8, 144, 56, 0, 0, 8, 56, 70, 112, 128, 136, 68, 192, 40, 56 },
   { 0x030d, 640, 7344, 8, 160, 0, 72, 0, 8, 56, 70, 112, 128, 136, 68, 200, 40, 56 },
};

enum {
   /* The same in all of them: of an object, a text and a string of bytes. */
   PYTHON_TYPE = 8, PYTHON_SIZE = 16, PYTHON_TEXT_STATE = 32, PYTHON_BYTES = 32,
   /* Owner of a frame that stands for C code. */
   PYTHON_C_STACK = 3,
   /* Of what is looked through. */
   PYTHON_THREADS = 1024, PYTHON_FRAMES_PASSED = 64, PYTHON_LETTERS = 4096, PYTHON_LINE_BYTES = 1 << 20
};

/* A word of the program's; 0 where there is none. */
static python_word python_word_at(python_word address)
{
   python_word word = 0;
   return address != 0 && HOMING_PYTHON_READ(&word, address, sizeof word) ? word : 0;
}

static const python_layout *python_layout_of_program(void)
{
   if (homing_python.runtime == 0 || homing_python.version == 0 || homing_python.code_type == 0)
      return 0;
   unsigned version = (unsigned)python_word_at(homing_python.version) >> 16;
   for (unsigned i = 0; i < sizeof python_layouts / sizeof python_layouts[0]; i++)
      if (python_layouts[i].version == version)
         return &python_layouts[i];
   return 0;
}

/* The frame that this thread is in, or 0. */
static python_word python_current_frame(const python_layout *at)
{
   python_word own = HOMING_PYTHON_THREAD();
   python_word thread = python_word_at(python_word_at(homing_python.runtime + at->main_interpreter) + at->first_thread);
   for (unsigned i = 0; thread != 0 && i < PYTHON_THREADS; i++) {
      if (python_word_at(thread + at->native_id) == own)
         return python_word_at((at->c_frame == 0 ? thread : python_word_at(thread + at->c_frame)) + at->frame);
      thread = python_word_at(thread + at->next_thread);
   }
   return 0;
}

/* The innermost frames of the Python code that the running thread is in: how many. */
static unsigned homing_python_frames(homing_python_frame *frames, unsigned most)
{
   const python_layout *at = python_layout_of_program();
   python_word frame = at == 0 ? 0 : python_current_frame(at);
   unsigned count = 0;
   for (unsigned i = 0; frame != 0 && count < most && i < PYTHON_FRAMES_PASSED; i++) {
      python_word code = python_word_at(frame + at->code);
      python_word owner = python_word_at(frame + (at->owner & ~7u)) >> 8 * (at->owner & 7) & 0xff;
      if (owner != PYTHON_C_STACK && python_word_at(code + PYTHON_TYPE) == homing_python.code_type) {
         frames[count].code = code;
         frames[count].instruction = python_word_at(frame + at->instruction);
         frames[count++].lines = python_word_at(code + at->lines);
      }
      frame = python_word_at(frame + at->previous);
   }
   return count;
}

/* Copies a Python text; letters that are not ASCII become question marks. */
static void python_copy(const python_layout *at, python_word text, char *out, unsigned room)
{
   python_word length = python_word_at(text + PYTHON_SIZE);
   unsigned state = (unsigned)python_word_at(text + PYTHON_TEXT_STATE), bytes = state >> 2 & 7, used = 0;
   python_word letters = text + (state >> 6 & 1 ? at->ascii : at->compact);
   int fits = (state >> 5 & 1) && (bytes == 1 || bytes == 2 || bytes == 4) && length < PYTHON_LETTERS;
   while (fits && used < length && used + 1 < room) {
      unsigned letter = 0;
      if (!HOMING_PYTHON_READ(&letter, letters + used * bytes, bytes))
         break;
      out[used++] = letter < 128 ? (char)letter : '?';
   }
   out[used] = 0;
}

/* The table of lines as it is read, a byte after the other. */
typedef struct {
   python_word at, end;
} python_bytes;

static unsigned python_byte(python_bytes *bytes)
{
   unsigned char byte = 0;
   if (bytes->at >= bytes->end || !HOMING_PYTHON_READ(&byte, bytes->at, 1))
      bytes->at = bytes->end;
   else
      bytes->at++;
   return byte;
}

/* A number with its sign in bit 0, in pieces of 6 bits. */
static int python_signed(python_bytes *bytes)
{
   unsigned value = 0, shift = 0, byte;
   do {
      byte = python_byte(bytes);
      value |= (byte & 63) << shift;
      shift += 6;
   } while ((byte & 64) && shift < 30);
   return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

/* The line of an instruction, from the code's table of positions (Objects/locations.md of CPython). */
static int homing_python_line(const homing_python_frame *frame)
{
   enum { ENTRY = 128, LONG = 14, NO_COLUMN = 13, ONE_LINE = 10, UNIT = 2 };
   const python_layout *at = python_layout_of_program();
   if (at == 0)
      return 0;
   python_word size = python_word_at(frame->lines + PYTHON_SIZE);
   python_bytes bytes = { frame->lines + PYTHON_BYTES, frame->lines + PYTHON_BYTES };
   bytes.end += size <= PYTHON_LINE_BYTES ? size : 0;
   int line = (int)python_word_at(frame->code + at->first_line);
   long wanted = (long)(frame->instruction - (frame->code + at->instructions)), reached = 0;
   unsigned first = python_byte(&bytes);
   while (bytes.at < bytes.end) {
      unsigned kind = first >> 3 & 15;
      if (kind == LONG || kind == NO_COLUMN)
         line += python_signed(&bytes);
      else if (kind >= ONE_LINE && kind < NO_COLUMN)
         line += (int)kind - ONE_LINE;
      reached += UNIT * ((first & 7) + 1);
      if (reached > wanted)
         break;
      do
         first = python_byte(&bytes);
      while (bytes.at < bytes.end && !(first & ENTRY));
   }
   return line;
}

/* The file and the function of a frame. */
static void homing_python_names(const homing_python_frame *frame, char *file, unsigned file_room, char *function,
                                unsigned function_room)
{
   const python_layout *at = python_layout_of_program();
   file[0] = function[0] = 0;
   if (at == 0)
      return;
   python_copy(at, python_word_at(frame->code + at->file), file, file_room);
   python_copy(at, python_word_at(frame->code + at->function), function, function_room);
}

#endif
