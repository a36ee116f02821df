/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What data is called: allocations with their call-sites, as preload.c reports them, and the data symbols of the
 * program and its libraries. Which frame of a call-site names it is for homing to say.
 */
#include "homing.h"

extern UInt VG_N_THREADS;

/* Of the core, which the tool is linked with, but not among the headers for tools. */
typedef struct { Addr main; } SymbolAddress;
extern Int VG_(DebugInfo_syms_howmany)(const DebugInfo* object);
extern void VG_(DebugInfo_syms_getidx)(const DebugInfo* object, Int index, SymbolAddress* address, UInt* size,
                                       const HChar** name, const HChar*** other_names, Bool* text, Bool* ifunc,
                                       Bool* global);

/* Return addresses of a call-site, and those where Python code has called; the innermost Python frames. */
enum { FRAMES = HOMING_STACK_FRAMES, BELOW_PYTHON = HOMING_BELOW_PYTHON, PYTHON_FRAMES = HOMING_PYTHON_FRAMES };
/* Call-sites that are told apart by all of that. Of further ones only the innermost frames count. */
enum { MOST_SITES = 1 << 14, FRAMES_OF_FURTHER = 4 };
/* Bytes of a call-site's text: further frames are left out. */
enum { SITE_BYTES = 4096, FRAME_BYTES = 640 };

/* The outermost allocation function that a thread is in: operator new calls malloc, and only the former counts. */
typedef struct {
   Bool active;
   Addr stack_pointer;
   UInt function;
} Outermost;
static Outermost* outermost; /* by ThreadId */

/* --- call-sites -------------------------------------------------------------------------------------------------- */

typedef struct _Site {
   struct _Site* next;
   UWord hash; /* of the addresses */
   ULong name;
   UInt count, python_count;
   Addr address[FRAMES];
   HomingPythonFrame python[PYTHON_FRAMES];
} Site;
static VgHashTable* sites;

static Word sites_differ(const void* a, const void* b)
{
   const Site *x = a, *y = b;
   return x->count != y->count || x->python_count != y->python_count ||
          VG_(memcmp)(x->address, y->address, x->count * sizeof x->address[0]) != 0 ||
          VG_(memcmp)(x->python, y->python, x->python_count * sizeof x->python[0]) != 0;
}

/* Code by its file and offset there, for homing to name: it reads debug information that Valgrind does not know. */
static void describe(Addr address, HChar* text, SizeT room)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   const HChar* file = segment == NULL ? NULL : VG_(am_get_filename)(segment);
   if (file == NULL)
      VG_(snprintf)(text, room, "0x%lx", address);
   else
      VG_(snprintf)(text, room, "%s@0x%lx", file, address - segment->start + (Addr)segment->offset);
}

/* Lines are read by homing, too; Valgrind's own reader gives up the program where it meets what it does not know. */
void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void);
void __wrap_vgModuleLocal_read_debuginfo_dwarf3(void) {}

/* Where there is room, so that no frame is cut. */
static void append(HChar* text, const HChar* frame)
{
   SizeT length = VG_(strlen)(text);
   if (length + VG_(strlen)(frame) + sizeof HOMING_CALLED_BY < SITE_BYTES)
      VG_(snprintf)(text + length, SITE_BYTES - length, "%s%s", length > 0 ? HOMING_CALLED_BY : "", frame);
}

static ULong name_site(const Site* site)
{
   HChar text[SITE_BYTES] = "", frame[FRAME_BYTES];
   DiEpoch epoch = VG_(current_DiEpoch)();
   for (UInt i = 0; i < site->count; i++) {
      Vg_FnNameKind kind = VG_(get_fnname_kind_from_IP)(epoch, site->address[i]);
      if (kind == Vg_FnNameBelowMain)
         break;
      describe(site->address[i], frame, sizeof frame);
      append(text, frame);
      if (kind == Vg_FnNameMain)
         break;
   }
   for (UInt i = 0; i < site->python_count; i++) {
      homing_name_python_frame(&site->python[i], frame, sizeof frame);
      append(text, frame);
   }
   if (text[0] == 0)
      describe(site->count > 0 ? site->address[0] : 0, text, sizeof text);
   return homing_site(text);
}

static void hash_site(Site* site)
{
   site->hash = 14695981039346656037UL; /* FNV-1a */
   for (UInt i = 0; i < site->count; i++)
      site->hash = (site->hash ^ site->address[i]) * 1099511628211UL;
   for (UInt i = 0; i < site->python_count; i++)
      site->hash = (site->hash ^ site->python[i].code ^ site->python[i].instruction) * 1099511628211UL;
}

/* The name of a call-site, which is made once. */
static ULong named(Site* wanted)
{
   hash_site(wanted);
   Site* site = VG_(HT_gen_lookup)(sites, wanted, sites_differ);
   if (site == NULL && VG_(HT_count_nodes)(sites) >= MOST_SITES && wanted->count > FRAMES_OF_FURTHER) {
      wanted->count = FRAMES_OF_FURTHER;
      hash_site(wanted);
      site = VG_(HT_gen_lookup)(sites, wanted, sites_differ);
   }
   if (site == NULL) {
      site = VG_(malloc)("homing.site", sizeof *site);
      *site = *wanted;
      site->name = name_site(site);
      VG_(HT_add_node)(sites, site);
   }
   return site->name;
}

/* Who called the allocation function; frame 0 is our wrapper. */
static ULong call_site(ThreadId tid)
{
   Addr frames[FRAMES + 1];
   Site wanted = { .count = 0 };
   wanted.python_count = homing_frames_of_python(wanted.python, PYTHON_FRAMES);
   UInt most = wanted.python_count > 0 ? BELOW_PYTHON : FRAMES;
   UInt count = VG_(get_StackTrace)(tid, frames, most + 1, NULL, NULL, 0);
   wanted.count = count > 1 ? count - 1 : 0;
   VG_(memcpy)(wanted.address, frames + 1, wanted.count * sizeof frames[0]);
   return named(&wanted);
}

ULong homing_site_of(const Addr* frames, UInt count)
{
   Site wanted = { .count = count < FRAMES ? count : FRAMES };
   VG_(memcpy)(wanted.address, frames, wanted.count * sizeof frames[0]);
   return named(&wanted);
}

/* --- requests of preload.c --------------------------------------------------------------------------------------- */

static void enter(ThreadId tid, UInt function)
{
   Addr stack_pointer = VG_(get_SP)(tid);
   Outermost* outer = &outermost[tid];
   if (outer->active && stack_pointer < outer->stack_pointer)
      return;
   *outer = (Outermost){ True, stack_pointer, function };
}

static void free_block(Addr address)
{
   ULong operand = address;
   if (address != 0)
      homing_control(HOMING_FREE, 0, 1, &operand);
}

static void allocated(ThreadId tid, Addr address, SizeT size, Addr old)
{
   Outermost* outer = &outermost[tid];
   if (!outer->active || VG_(get_SP)(tid) != outer->stack_pointer)
      return;
   outer->active = False;
   if (address == 0)
      return;
   free_block(old);
   ULong operands[] = { address, size, call_site(tid) };
   homing_control(HOMING_ALLOC, outer->function, 3, operands);
}

static void joined(Addr pthread)
{
   Long number = homing_thread_of_pthread(pthread);
   if (number >= 0)
      homing_control(HOMING_THREAD_JOIN, number, 0, NULL);
}

static void mark(const HChar* name)
{
   static ULong marks = 0;
   HChar text[HOMING_MARK_NAME + 1];
   UInt length = 0;
   for (; length < HOMING_MARK_NAME && name[length] != 0; length++)
      text[length] = name[length];
   text[length] = 0;
   ULong id = homing_name(text);
   homing_control(HOMING_MARK, marks++, 1, &id);
   homing_region_mark(text);
}

static Bool handle_request(ThreadId tid, UWord* args, UWord* result)
{
   if (!VG_IS_TOOL_USERREQ('H', 'O', args[0]))
      return False;
   *result = 0;
   if (!homing_recording)
      return True;
   homing_of_thread(tid);
   switch (args[0]) {
   case HOMING_REQUEST_ENTER: enter(tid, args[1]); break;
   case HOMING_REQUEST_ALLOCATED: allocated(tid, args[1], args[2], args[3]); break;
   case HOMING_REQUEST_FREE: free_block(args[1]); break;
   case HOMING_REQUEST_PYTHON: homing_python_is_here(args[1], args[2], args[3]); break;
   case HOMING_REQUEST_JOINED: joined(args[1]); break;
   case HOMING_REQUEST_MARK: mark((const HChar*)args[1]); break;
   default: return False;
   }
   return True;
}

/* --- data symbols ------------------------------------------------------------------------------------------------ */

typedef struct _Sent {
   struct _Sent* next;
   UWord object; /* which file, and where: what is unloaded leaves its place in memory to others */
} Sent;
static VgHashTable* sent;

static void send_symbols(const DebugInfo* object)
{
   const HChar* file = VG_(DebugInfo_get_filename)(object);
   ULong file_name = file == NULL ? 0 : homing_name(file);
   Int count = VG_(DebugInfo_syms_howmany)(object);
   for (Int i = 0; i < count; i++) {
      SymbolAddress address;
      UInt size;
      const HChar* name;
      const HChar** other_names;
      Bool text, ifunc, global;
      VG_(DebugInfo_syms_getidx)(object, i, &address, &size, &name, &other_names, &text, &ifunc, &global);
      if (text || ifunc || size == 0)
         continue;
      ULong operands[] = { address.main, size, file_name };
      homing_control(HOMING_SYMBOL, homing_name(name), 3, operands);
   }
}

/* False for what is not loaded yet and for Valgrind itself. */
static Bool of_program(const DebugInfo* object)
{
   const NSegment* segment = VG_(am_find_nsegment)(VG_(DebugInfo_get_text_avma)(object));
   return segment != NULL && segment->kind == SkFileC;
}

static UWord key_of(const DebugInfo* object)
{
   const HChar* file = VG_(DebugInfo_get_filename)(object);
   return homing_hash(file == NULL ? "" : file) ^ VG_(DebugInfo_get_text_avma)(object);
}

void homing_send_new_symbols(void)
{
   for (const DebugInfo* object = VG_(next_DebugInfo)(NULL); object != NULL; object = VG_(next_DebugInfo)(object)) {
      UWord key = key_of(object);
      if (VG_(HT_lookup)(sent, key) != NULL || !of_program(object))
         continue;
      Sent* mark = VG_(malloc)("homing.sent", sizeof *mark);
      mark->object = key;
      VG_(HT_add_node)(sent, mark);
      send_symbols(object);
   }
}

void homing_allocations_after_fork(void)
{
   VG_(HT_destruct)(sites, VG_(free));
   VG_(HT_destruct)(sent, VG_(free));
   sites = VG_(HT_construct)("homing.sites");
   sent = VG_(HT_construct)("homing.sent");
   homing_send_new_symbols();
}

void homing_track_allocations(void)
{
   outermost = VG_(calloc)("homing.outermost", VG_N_THREADS + 1, sizeof outermost[0]);
   sites = VG_(HT_construct)("homing.sites");
   sent = VG_(HT_construct)("homing.sent");
   VG_(needs_client_requests)(handle_request);
}
