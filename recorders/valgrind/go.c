/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Allocations of Go programs. Their allocator, runtime.mallocgc, is code of the program itself, which nothing can wrap.
 * So the blocks that begin it and those behind its calls say what is allocated: the size comes in RAX, and the address
 * goes back in RAX (Go's ABIInternal). Call stacks follow the frame pointers, which Go keeps in RBP. What the collector
 * frees is not known: memory is called after its last allocation that counts.
 */
#include "homing.h"
#include "libvex_guest_amd64.h"

/* Smaller allocations share pages with others, and are left out. */
enum { LARGE = 4096 };
/* The bytes of a call that is relative to what follows it. */
enum { CALL = 0xe8, CALL_BYTES = 5 };
/* Frames that are looked at; most of the runtime's are passed over. */
enum { DEPTH = 64 };

Bool homing_go;

/* What a goroutine has asked for, by its stack pointer behind the call. */
typedef struct _Asked {
   struct _Asked* next;
   UWord stack_pointer;
   ULong size;
} Asked;
static VgHashTable* asked;

static Bool is_allocator(Addr address)
{
   const HChar* name;
   return VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), address, &name) &&
          VG_(strcmp)(name, "runtime.mallocgc") == 0;
}

static Bool is_behind_call(Addr address)
{
   Addr call = address - CALL_BYTES;
   if (!VG_(am_is_valid_for_client)(call, CALL_BYTES, VKI_PROT_READ) || *(const UChar*)call != CALL)
      return False;
   Int distance;
   VG_(memcpy)(&distance, (const UChar*)call + 1, sizeof distance);
   return is_allocator(address + distance);
}

static void enter(ULong size, ULong stack_pointer)
{
   UWord behind = stack_pointer + sizeof(Addr);
   Asked* known = VG_(HT_lookup)(asked, behind);
   if (known == NULL) {
      if (size < LARGE)
         return;
      known = VG_(malloc)("homing.go", sizeof *known);
      known->stack_pointer = behind;
      VG_(HT_add_node)(asked, known);
   }
   known->size = size;
}

static Bool is_of_runtime(Addr address, Bool* begins)
{
   const HChar* name;
   if (!VG_(get_fnname)(VG_(current_DiEpoch)(), address, &name))
      return False;
   *begins = VG_(strcmp)(name, "runtime.main") == 0 || VG_(strncmp)(name, "runtime.goexit", 14) == 0;
   return VG_(strncmp)(name, "runtime.", 8) == 0 || VG_(strncmp)(name, "internal/runtime/", 17) == 0;
}

/* The frames out of the runtime, the innermost first. */
static UInt frames_of(Addr behind_call, Addr frame, Addr* frames, UInt most)
{
   UInt count = 0;
   Addr at = behind_call - 1;
   for (UInt depth = 0; depth < DEPTH && count < most; depth++) {
      Bool begins = False;
      if (!is_of_runtime(at, &begins))
         frames[count++] = at;
      if (begins || !VG_(am_is_valid_for_client)(frame, 2 * sizeof(Addr), VKI_PROT_READ))
         break;
      Addr outer = ((const Addr*)frame)[0];
      at = ((const Addr*)frame)[1] - 1;
      if (outer <= frame || !VG_(am_is_valid_for_client)(at, 1, VKI_PROT_READ))
         outer = 0; /* the outermost, or no frame pointer */
      if (VG_(am_find_nsegment)(at) == NULL)
         break;
      frame = outer;
   }
   return count;
}

static void leave(ULong address, ULong stack_pointer, ULong frame, ULong behind_call)
{
   Asked* known = VG_(HT_remove)(asked, stack_pointer);
   if (known == NULL)
      return;
   ULong size = known->size;
   VG_(free)(known);
   if (!homing_recording || address == 0 || size < LARGE)
      return;
   Addr frames[HOMING_STACK_FRAMES];
   UInt count = frames_of(behind_call, frame, frames, HOMING_STACK_FRAMES);
   homing_of_thread(VG_(get_running_tid)());
   ULong operands[] = { address, size, homing_site_of(frames, count) };
   homing_control(HOMING_ALLOC, HOMING_ALLOC_MALLOC, 3, operands);
}

static IRExpr* reg(IRSB* out, Int offset)
{
   IRTemp temp = newIRTemp(out->tyenv, Ity_I64);
   addStmtToIRSB(out, IRStmt_WrTmp(temp, IRExpr_Get(offset, Ity_I64)));
   return IRExpr_RdTmp(temp);
}

void homing_note_go(IRSB* out, Addr address)
{
   if (!homing_go)
      return;
   if (asked == NULL)
      asked = VG_(HT_construct)("homing.go");
   IRDirty* call;
   if (is_allocator(address))
      call = unsafeIRDirty_0_N(0, "homing_go_enter", VG_(fnptr_to_fnentry)(&enter),
                               mkIRExprVec_2(reg(out, offsetof(VexGuestAMD64State, guest_RAX)),
                                             reg(out, offsetof(VexGuestAMD64State, guest_RSP))));
   else if (is_behind_call(address))
      call = unsafeIRDirty_0_N(0, "homing_go_leave", VG_(fnptr_to_fnentry)(&leave),
                               mkIRExprVec_4(reg(out, offsetof(VexGuestAMD64State, guest_RAX)),
                                             reg(out, offsetof(VexGuestAMD64State, guest_RSP)),
                                             reg(out, offsetof(VexGuestAMD64State, guest_RBP)),
                                             IRExpr_Const(IRConst_U64(address))));
   else
      return;
   addStmtToIRSB(out, IRStmt_Dirty(call));
}
