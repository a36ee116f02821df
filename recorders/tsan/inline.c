/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the code calls that the compiler pass of recorders/clang adds to a program. It writes records itself, at the
 * cursor of the thread's stream: the head of a code block and its addresses. Here are the definitions of these blocks,
 * and where a record goes when there is no room. */
#include "runtime.h"

void *__libc_malloc(size_t bytes);

/* Words of a loop record before its starts, and the most accesses with a step. */
enum { HOMING_LOOP_HEAD = 2, HOMING_LOOP_REGULAR = 64 };
_Static_assert(HOMING_LOOP_HEAD + 2 * HOMING_LOOP_REGULAR + 32 < HOMING_RECORD_MAX, "a record has its room at once");

/* While nothing is recorded, records go to memory that nobody reads. Threads share it when there are many. */
enum { NOWHERES = 64, NOWHERE_WORDS = 8192 };
static word nowhere[NOWHERES][NOWHERE_WORDS] __attribute__((aligned(NOWHERE_WORDS * sizeof(word))));
static unsigned next_nowhere;

void homing_go_nowhere(void)
{
   struct stream *self = &homing_self;
   word base = (word)self->nowhere & ~(sizeof nowhere[0] - 1);
   if (self->nowhere == 0) {
      unsigned number = __atomic_fetch_add(&next_nowhere, 1, __ATOMIC_RELAXED);
      self->shares = number >= NOWHERES;
      base = (word)nowhere[number % NOWHERES];
   } else if (self->cursor == &self->nowhere && self->paused) {
      word words = (self->nowhere - base) / sizeof(word);
      self->unseen += words;
      homing_count_progress(words);
   } else if (self->cursor == &self->nowhere) {
      homing_lose_records((self->nowhere - base) / sizeof(word));
   }
   self->nowhere = self->looked = base;
   self->cursor = &self->nowhere;
   self->limit = 0;
   self->inline_limit = base + sizeof nowhere[0] - HOMING_RECORD_MAX * sizeof(word);
}

static word nowhere_begin(void) { return (word)homing_self.nowhere & ~(sizeof nowhere[0] - 1); }

void homing_go_on_nowhere(void)
{
   struct stream *self = &homing_self;
   if (self->nowhere == 0) {
      homing_go_nowhere();
      return;
   }
   self->cursor = &self->nowhere;
   self->limit = 0;
   self->inline_limit = nowhere_begin() + sizeof nowhere[0] - HOMING_RECORD_MAX * sizeof(word);
}

void homing_look_at_nowhere(void)
{
   struct stream *self = &homing_self;
   if (!self->paused || self->nowhere == self->looked || self->inside || homing_interrupted() || self->handlers > 0)
      return;
   homing_look_for_touches((const word *)self->looked, (const word *)self->nowhere);
   self->looked = self->nowhere;
}

void homing_count_nowhere(void)
{
   enum { MUCH = 256 };
   struct stream *self = &homing_self;
   if (self->cursor == &self->nowhere && self->looked == self->nowhere &&
       self->nowhere - nowhere_begin() >= MUCH * sizeof(word) && self->handlers == 0 && !homing_interrupted())
      homing_go_nowhere();
}

/* Called by __homing_room, which keeps all registers. */
HIDDEN __attribute__((used)) void homing_inline_room(void)
{
   homing_look_for_recorder();
   homing_look_at_nowhere();
   if (homing_self.paused)
      homing_go_nowhere(); /* what is counted there may open a window */
   if (!homing_record_room())
      homing_go_nowhere();
}

/* The loop record at the cursor, whose next words would be at `at`, ends here and goes on in another one, where there
 * is room. `regular` and `irregular` words: those with a step, and those of each iteration. */
HIDDEN __attribute__((used)) void homing_inline_loop(word *at, word regular, word irregular)
{
   struct stream *self = &homing_self;
   word *record = (word *)*self->cursor, *first = record + HOMING_LOOP_HEAD + 2 * regular;
   word head = record[0], done = (word)(at - first) / irregular, state[2 * HOMING_LOOP_REGULAR];
   for (word i = 0; i < 2 * regular; i += 2) {
      state[i + 1] = record[HOMING_LOOP_HEAD + i + 1];
      state[i] = record[HOMING_LOOP_HEAD + i] + done * state[i + 1];
   }
   if (done > 0) {
      record[1] = (word)at - (word)record;
      __atomic_store_n(self->cursor, (word)at, __ATOMIC_RELEASE);
   } else {
      for (word *old = record; old < first; old++)
         *old = 0;
   }
   homing_inline_room();
   record = (word *)*self->cursor;
   for (word i = 0; i < 2 * regular; i++)
      record[HOMING_LOOP_HEAD + i] = state[i];
   record[1] = 0;
   homing_head(record, head);
}

/* void __homing_room(void): room for a record at the cursor; and __homing_loop(at, regular, irregular). With LLVM's
 * calling convention preserve_all, which keeps all registers but r11. */
static char has_avx __attribute__((used));
#define EACH_VECTOR(instruction) \
   "\t.irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t" instruction "\n\t.endr\n"
#define KEEPING_REGISTERS(name, function)                                                                              \
   __asm__(".pushsection .text\n"                                                                                     \
           "\t.globl " name "\n"                                                                                      \
           "\t.type " name ", @function\n" name ":\n"                                                                 \
           "\t.cfi_startproc\n"                                                                                       \
           "\tpushq %rbp\n"                                                                                           \
           "\t.cfi_def_cfa_offset 16\n"                                                                               \
           "\t.cfi_offset %rbp, -16\n"                                                                                \
           "\tmovq %rsp, %rbp\n"                                                                                      \
           "\t.cfi_def_cfa_register %rbp\n"                                                                           \
           "\tpushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tpushq %rsi\n"                                                 \
           "\tpushq %rdi\n\tpushq %r8\n\tpushq %r9\n\tpushq %r10\n"                                                   \
           "\tsubq $512, %rsp\n"                                                                                      \
           "\tandq $-32, %rsp\n"                                                                                      \
           "\tcmpb $0, has_avx(%rip)\n"                                                                               \
           "\tjne 1f\n" EACH_VECTOR("movaps %xmm\\n, 32*\\n(%rsp)")                                                  \
           "\tcall " function "\n" EACH_VECTOR("movaps 32*\\n(%rsp), %xmm\\n")                                      \
           "\tjmp 2f\n"                                                                                               \
           "1:\n" EACH_VECTOR("vmovaps %ymm\\n, 32*\\n(%rsp)")                                                       \
           "\tvzeroupper\n"                                                                                           \
           "\tcall " function "\n" EACH_VECTOR("vmovaps 32*\\n(%rsp), %ymm\\n")                                     \
           "2:\tleaq -64(%rbp), %rsp\n"                                                                               \
           "\tpopq %r10\n\tpopq %r9\n\tpopq %r8\n\tpopq %rdi\n"                                                       \
           "\tpopq %rsi\n\tpopq %rdx\n\tpopq %rcx\n\tpopq %rax\n"                                                     \
           "\tpopq %rbp\n"                                                                                            \
           "\t.cfi_def_cfa %rsp, 8\n"                                                                                 \
           "\tret\n"                                                                                                  \
           "\t.cfi_endproc\n"                                                                                         \
           "\t.size " name ", . - " name "\n"                                                                         \
           "\t.popsection")
KEEPING_REGISTERS("__homing_room", "homing_inline_room");
KEEPING_REGISTERS("__homing_loop", "homing_inline_loop");

/* Numbers of blocks given so far. */
static word next_block;

/* The blocks of a compiled file, with a copy of their definitions: a library may be gone when a recording begins. */
struct file {
   struct file *next;
   word first, count, words;
   word definitions[]; /* then where that of each block begins */
};
static struct file *files;

/* What a definition takes, behind the head of HOMING_DEFINE. */
static unsigned definition_words(const word *definition) { return 2 + (unsigned)(definition[0] >> 32); }

static void send_definitions(word first, word count, const word *definitions)
{
   for (word i = 0; i < count; i++) {
      unsigned words = definition_words(definitions);
      word *room = homing_reserve(1 + words);
      for (unsigned k = 0; room != NULL && k < words; k++)
         room[1 + k] = definitions[k];
      if (room != NULL)
         homing_head(room, HOMING_WORD(HOMING_DEFINE, first + i));
      definitions += words;
   }
}

void homing_send_blocks(void)
{
   for (struct file *file = __atomic_load_n(&files, __ATOMIC_ACQUIRE); file != NULL; file = file->next)
      send_definitions(file->first, file->count, file->definitions);
}

const word *homing_definition(word block)
{
   const struct file *file = __atomic_load_n(&files, __ATOMIC_ACQUIRE);
   while (file != NULL && block - file->first >= file->count)
      file = file->next;
   return file == NULL ? NULL : file->definitions + file->definitions[file->words + (block - file->first)];
}

static int is_of(const struct file *file, word count, const word *definitions, word words)
{
   word same = 0;
   while (file->count == count && file->words == words && same < words &&
          file->definitions[same] == definitions[same])
      same++;
   return file->count == count && same == words;
}

/* Gives numbers to blocks: new ones, or those that the same blocks had when their library was loaded before. */
static word number_blocks(word count, const word *definitions)
{
   word words = 0;
   for (word i = 0; i < count; i++)
      words += definition_words(definitions + words);
   for (struct file *file = __atomic_load_n(&files, __ATOMIC_ACQUIRE); file != NULL; file = file->next)
      if (is_of(file, count, definitions, words))
         return file->first;
   struct file *file = __libc_malloc(sizeof *file + (words + count) * sizeof(word));
   word first = __atomic_fetch_add(&next_block, count, __ATOMIC_RELAXED);
   if (file == NULL) {
      homing_may_be_attached = 0;
      return first;
   }
   file->first = first;
   file->count = count;
   file->words = words;
   for (word i = 0; i < words; i++)
      file->definitions[i] = definitions[i];
   for (word i = 0, at = 0; i < count; i++) {
      file->definitions[words + i] = at;
      at += definition_words(definitions + at);
   }
   file->next = __atomic_load_n(&files, __ATOMIC_RELAXED);
   while (!__atomic_compare_exchange_n(&files, &file->next, file, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
   }
   return first;
}

/* The code blocks of a compiled file, before any of its code runs. Each has the operation of its head there, and gets
 * its number; its definition is what follows the head of HOMING_DEFINE. */
EXPORT void __homing_blocks(word *heads, word count, const word *definitions)
{
   has_avx = __builtin_cpu_supports("avx") != 0;
   homing_has_records = 1;
   homing_start();
   homing_send_libraries();
   word first = number_blocks(count, definitions);
   send_definitions(first, count, definitions);
   for (word i = 0; i < count; i++)
      heads[i] = HOMING_WORD(heads[i], first + i);
   homing_publish(); /* other threads' executions shall find the definitions */
}
