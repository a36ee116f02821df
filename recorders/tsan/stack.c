/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Call stacks of allocations. The unwinder of the compiler's library walks them, which takes microseconds. So a stack
 * is kept with the places of its return addresses: where the same call comes at the same place of the same thread's
 * stack, and all of them are still there, it is the same stack. */
#include "runtime.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

/* Stacks that are told apart; of further ones only the innermost frame counts. Probes: entries looked at for one. */
enum { STACKS = 1 << 14, PROBES = 64, RECENT = 1 << 11 };
/* Of the text of a stack: threads may have little room. */
enum { SITE_BYTES = 2048 };

static int read_own(void *out, word address, size_t bytes)
{
   struct iovec to = {out, bytes}, from = {(void *)address, bytes};
   return syscall(SYS_process_vm_readv, (long)getpid(), &to, 1L, &from, 1L, 0L) == (long)bytes;
}

/* By way of the kernel: the interpreter may be another than its version says. */
#define HOMING_PYTHON_READ(out, address, bytes) read_own(out, address, bytes)
#define HOMING_PYTHON_THREAD() ((word)syscall(SYS_gettid))
#include "../include/homing_python.h"

void homing_look_for_python(void)
{
   homing_python.runtime = (word)dlsym(RTLD_DEFAULT, "_PyRuntime");
   homing_python.version = (word)dlsym(RTLD_DEFAULT, "Py_Version");
   homing_python.code_type = (word)dlsym(RTLD_DEFAULT, "PyCode_Type");
}

/* Return addresses, the innermost first, and where on the stack they are; and the Python code that called. */
struct stack {
   unsigned count, python_count;
   homing_python_frame python[HOMING_PYTHON_FRAMES];
   word address[HOMING_STACK_FRAMES];
   const word *place[HOMING_STACK_FRAMES];
};

/* Open addressing by a hash of the return addresses; an entry is claimed by its key and filled by its claimer. */
static struct {
   word key;
   word name;
} stacks[STACKS];

/* Stacks of late, by return address and place. */
static struct {
   int busy;
   word here; /* where on the stack this was asked: it is the same stack, so that its places can be read */
   word name;
   struct stack stack;
} recent[RECENT];

void homing_forget_stacks(void)
{
   for (unsigned i = 0; i < STACKS; i++)
      stacks[i].key = stacks[i].name = 0;
   for (unsigned i = 0; i < RECENT; i++)
      recent[i].here = 0;
}

struct walk {
   struct stack *stack;
   word from;       /* the return address that the stack begins with */
   word function;   /* of the last frame, by its start */
   unsigned walked; /* frames from there on */
};

/* A frame's caller goes on at its return address, which lies below the caller's part of the stack. Of a function that
 * calls itself the innermost frame counts: there are as many such stacks as ways down a tree. */
static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *argument)
{
   struct walk *walk = argument;
   struct stack *stack = walk->stack;
   word address = _Unwind_GetIP(context), end = _Unwind_GetCFA(context);
   if (address == 0)
      return _URC_NORMAL_STOP;
   if (stack->count == 0 && address != walk->from)
      return _URC_NO_REASON; /* the runtime's own */
   word function = _Unwind_GetRegionStart(context);
   if (stack->count == 0 || function != walk->function) {
      stack->address[stack->count] = address;
      stack->place[stack->count++] = (const word *)(end - sizeof(word));
   }
   walk->function = function;
   unsigned most = stack->python_count > 0 ? HOMING_BELOW_PYTHON : HOMING_STACK_FRAMES;
   return ++walk->walked < most ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static int is_same_python(const struct stack *a, const struct stack *b)
{
   int same = a->python_count == b->python_count;
   for (unsigned i = 0; same && i < a->python_count; i++)
      same = a->python[i].code == b->python[i].code && a->python[i].instruction == b->python[i].instruction &&
             a->python[i].lines == b->python[i].lines;
   return same;
}

static int is_still_there(const struct stack *stack, word return_address)
{
   if (stack->count == 0 || stack->address[0] != return_address)
      return 0;
   for (unsigned i = 0; i < stack->count; i++)
      if (*stack->place[i] != stack->address[i])
         return 0;
   return 1;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

/* The program's own path; written more than once at most with the same. */
static const char *program(void)
{
   static char path[PATH_MAX];
   if (path[0] == 0)
      (void)!readlink("/proc/self/exe", path, sizeof path - 1);
   return path;
}

/* Of a library that was loaded by a relative path. Not inlined: few stacks need its room. */
static __attribute__((noinline)) int describe_relative(const char *name, word offset, char *text, size_t room)
{
   char path[PATH_MAX];
   return snprintf(text, room, "%s+0x%lx", realpath(name, path) == NULL ? name : path, (unsigned long)offset);
}

/* "/path/file+0xOFFSET" of the code before a return address, or "0xADDRESS". */
static int describe(word address, char *text, size_t room)
{
   Dl_info info;
   struct link_map *map = NULL;
   word code = address - 1;
   if (dladdr1((void *)code, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
      return snprintf(text, room, "0x%lx", (unsigned long)code);
   const char *name = map->l_name[0] == 0 ? program() : map->l_name;
   if (name[0] != '/')
      return describe_relative(name, code - map->l_addr, text, room);
   return snprintf(text, room, "%s+0x%lx", name, (unsigned long)(code - map->l_addr));
}

static int describe_python(const homing_python_frame *frame, char *text, size_t room)
{
   char file[400], function[200];
   homing_python_names(frame, file, sizeof file, function, sizeof function);
   return snprintf(text, room, "%s:%d in %s", file, homing_python_line(frame), function);
}

/* Frames for which there is no room are left out. */
static word send_stack(const struct stack *stack)
{
   char text[SITE_BYTES];
   unsigned used = 0;
   homing_self.inside++; /* what is called here is interposed */
   for (unsigned i = 0; i < stack->count + stack->python_count; i++) {
      unsigned between = i > 0 ? sizeof HOMING_CALLED_BY - 1 : 0, room = sizeof text - used;
      if (room <= between)
         break;
      char *at = text + used + between;
      int length = i < stack->count ? describe(stack->address[i], at, room - between)
                                    : describe_python(&stack->python[i - stack->count], at, room - between);
      if (length < 0 || (unsigned)length >= room - between)
         break;
      for (unsigned k = 0; k < between; k++)
         text[used + k] = HOMING_CALLED_BY[k];
      used += between + (unsigned)length;
   }
   homing_self.inside--;
   return homing_name_as(HOMING_SITE, text, used);
}

static word hash_of(const struct stack *stack)
{
   word hash = 14695981039346656037ULL; /* FNV-1a */
   for (unsigned i = 0; i < stack->count; i++)
      hash = (hash ^ stack->address[i]) * 1099511628211ULL;
   for (unsigned i = 0; i < stack->python_count; i++)
      hash = (hash ^ stack->python[i].code ^ stack->python[i].instruction) * 1099511628211ULL;
   return hash | 1; /* 0 is a free entry */
}

/* The id of a stack that is known, or has now been sent; 0 where the table has no room for it. */
static word name_of(const struct stack *stack)
{
   word hash = hash_of(stack);
   for (word probe = hash * 0x9e3779b97f4a7c15ULL >> 50, tries = 0; tries < PROBES; probe++, tries++) {
      word *key = &stacks[probe % STACKS].key, seen = __atomic_load_n(key, __ATOMIC_ACQUIRE);
      if (seen == 0 && __atomic_compare_exchange_n(key, &seen, hash, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
         word name = send_stack(stack);
         __atomic_store_n(&stacks[probe % STACKS].name, name, __ATOMIC_RELEASE);
         return name;
      }
      if (seen == hash) {
         word name = __atomic_load_n(&stacks[probe % STACKS].name, __ATOMIC_ACQUIRE);
         return name != 0 ? name : send_stack(stack); /* its claimer is still at it: a second id for the same text */
      }
   }
   return 0;
}

static word walk(word return_address, struct stack *stack)
{
   struct walk walk = {.stack = stack, .from = return_address};
   stack->count = 0;
   homing_self.inside++;
   _Unwind_Backtrace(take_frame, &walk);
   homing_self.inside--;
   if (stack->count == 0) { /* code without unwinding information */
      stack->address[0] = return_address;
      stack->place[0] = &stack->address[0];
      stack->count = 1;
   }
   word name = name_of(stack);
   if (name != 0)
      return name;
   struct stack innermost = {.count = 1, .address = {stack->address[0]}, .python_count = stack->python_count > 0};
   innermost.python[0] = stack->python[0];
   name = name_of(&innermost);
   return name != 0 ? name : send_stack(&innermost);
}

word homing_site(word return_address)
{
   if (!homing_active || homing_self.inside)
      return 0;
   word here = (word)__builtin_frame_address(0);
   struct stack stack = {.count = 0};
   if (homing_python.runtime != 0)
      stack.python_count = homing_python_frames(stack.python, HOMING_PYTHON_FRAMES);
   __typeof__(&recent[0]) entry = &recent[((return_address ^ here) * 0x9e3779b97f4a7c15ULL >> 32) % RECENT];
   if (__atomic_exchange_n(&entry->busy, 1, __ATOMIC_ACQUIRE)) /* another thread, or what a signal interrupted */
      return walk(return_address, &stack);
   if (entry->here != here || !is_still_there(&entry->stack, return_address) ||
       !is_same_python(&entry->stack, &stack)) {
      entry->here = here;
      entry->stack.python_count = stack.python_count;
      for (unsigned i = 0; i < stack.python_count; i++)
         entry->stack.python[i] = stack.python[i];
      entry->name = walk(return_address, &entry->stack);
   }
   word name = entry->name;
   __atomic_store_n(&entry->busy, 0, __ATOMIC_RELEASE);
   return name;
}
