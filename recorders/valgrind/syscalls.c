/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * System calls: mappings that come and go, synchronisation through futexes, children, the kernel's own accesses.
 */
#include "homing.h"

extern UInt VG_N_THREADS;
/* Of the core, which the tool is linked with, but not among the headers for tools. */
extern Bool VG_(clo_trace_children);
extern Addr VG_(clstk_end); /* the last byte of the first thread's stack */
extern void VG_(discard_translations)(Addr start, ULong length, const HChar* who);
/* VEX's own copy of VG_(clo_vex_control), which it takes for each block. */
extern VexControl vex_control;

enum { WAIT = 0, WAKE = 1, REQUEUE = 3, CMP_REQUEUE = 4, WAKE_OP = 5, LOCK_PI = 6, UNLOCK_PI = 7, WAIT_BITSET = 9,
       WAKE_BITSET = 10, WAIT_REQUEUE_PI = 11, CMP_REQUEUE_PI = 12 };

enum { MAP_SHARED_FLAG = 0x01, MAP_PRIVATE_FLAG = 0x02, MAP_ANONYMOUS_FLAG = 0x20 };
enum {
   ADVICE_DONTNEED = 4, ADVICE_REMOVE = 9, ADVICE_HUGE = 14, ADVICE_NOT_HUGE = 15, ADVICE_POPULATE_READ = 22,
   ADVICE_POPULATE_WRITE = 23
};
enum { LOCK_CURRENT = 1, LOCK_FUTURE = 2, LOCK_ON_FAULT = 4, MLOCK2_CALL = 325, MAP_LOCKED_FLAG = 0x2000 };
enum { CLONE_AS_THREAD = 0x00010000, CLONE_CLEARS_TID = 0x00200000 };

static Addr* clear_tid;         /* by ThreadId: the address that the kernel clears when the thread ends */
static Addr* clear_tid_of_next; /* by ThreadId of the creator: the same of the thread that it is creating */
static ULong stamp;
static Addr program_break;
static Bool new_symbols;

/* --- synchronisation --------------------------------------------------------------------------------------------- */

static void sync(UInt kind, Addr object)
{
   ULong operands[] = { object, ++stamp };
   homing_control(HOMING_SYNC, kind, 2, operands);
}

static Bool waits(UWord operation)
{
   operation &= 127;
   return operation == WAIT || operation == WAIT_BITSET || operation == LOCK_PI || operation == WAIT_REQUEUE_PI;
}

/* Waiters come before those that wake them, but not before each other: a library's barriers all have one address, and a
 * thread that waits at the next barrier before another has returned from the last would seem to come before it. So
 * entering a wait releases another object than returning acquires: futexes lie at multiples of 4. */
static void before_futex(const UWord* args)
{
   UWord operation = args[1] & 127, entered = args[0] + 1;
   if (waits(operation)) {
      sync(HOMING_SYNC_RELEASE, entered);
      return;
   }
   sync(HOMING_SYNC_ACQUIRE, entered);
   if (operation == WAKE || operation == WAKE_BITSET || operation == UNLOCK_PI)
      sync(HOMING_SYNC_BOTH, args[0]);
   if (operation == REQUEUE || operation == CMP_REQUEUE || operation == WAKE_OP || operation == CMP_REQUEUE_PI) {
      sync(HOMING_SYNC_BOTH, args[0]);
      sync(HOMING_SYNC_BOTH, args[4]);
   }
}

/* A waiter that was requeued returns from the second futex; it acquires both. */
static void after_futex(const UWord* args)
{
   if (!waits(args[1]))
      return;
   sync(HOMING_SYNC_ACQUIRE, args[0]);
   if ((args[1] & 127) == WAIT_REQUEUE_PI)
      sync(HOMING_SYNC_ACQUIRE, args[4]);
}

void homing_inherit_clear_tid(ThreadId creator, ThreadId tid)
{
   clear_tid[tid] = clear_tid_of_next[creator];
   clear_tid_of_next[creator] = 0;
}

void homing_release_clear_tid(ThreadId tid)
{
   if (clear_tid[tid] != 0)
      sync(HOMING_SYNC_RELEASE, clear_tid[tid]);
   clear_tid[tid] = 0;
}

static void before_clone(ThreadId tid, UInt number, const UWord* args)
{
   ULong flags = args[0], address = args[3];
   if (number == __NR_clone3) {
      if (!VG_(am_is_valid_for_client)(args[0], 3 * sizeof(ULong), VKI_PROT_READ))
         return;
      flags = ((const ULong*)args[0])[0];
      address = ((const ULong*)args[0])[2];
   }
   clear_tid_of_next[tid] = flags & CLONE_CLEARS_TID ? address : 0;
}

static void after_fork(UInt number, const UWord* args, UWord pid)
{
   ULong flags = 0;
   if (number == __NR_clone)
      flags = args[0];
   else if (number == __NR_clone3 && VG_(am_is_valid_for_client)(args[0], sizeof(ULong), VKI_PROT_READ))
      flags = *(const ULong*)args[0];
   if (flags & CLONE_AS_THREAD || pid == 0)
      return;
   if (homing_recording)
      homing_control(HOMING_FORK, pid, 0, NULL);
   homing_count_child();
}

static Bool forks(UInt number)
{
   return number == __NR_fork || number == __NR_vfork || number == __NR_clone || number == __NR_clone3;
}

static void before_exec(const HChar* path)
{
   homing_wire_before_exec();
   /* Valgrind would refuse to execute it. */
   if (VG_(am_is_valid_for_client)((Addr)path, 1, VKI_PROT_READ) && !homing_can_follow_exec(path)) {
      VG_(umsg)("%s: set-user-id, unreadable or not for x86-64: it runs unrecorded\n", path);
      VG_(clo_trace_children) = False;
   }
}

/* --- mappings ---------------------------------------------------------------------------------------------------- */

/* The starts of all segments of these kinds; to be freed. */
static Addr* all_segments(UInt kinds, Int* found)
{
   Int room = 1024;
   Addr* starts = NULL;
   do { /* negative: more room is needed */
      room *= 2;
      starts = VG_(realloc)("homing.mappings", starts, room * sizeof starts[0]);
      *found = VG_(am_get_segment_starts)(kinds, starts, room);
   } while (*found < 0);
   return starts;
}

/* Memory that the program shares with its children: Valgrind does not know which mappings are. */
static struct {
   Addr start, end;
}* shared;
static UInt shared_count, shared_room;

static void know_shared(Addr address, SizeT length)
{
   if (shared_count == shared_room) {
      shared_room = shared_room * 2 + 16;
      shared = VG_(realloc)("homing.shared", shared, shared_room * sizeof shared[0]);
   }
   shared[shared_count].start = address;
   shared[shared_count++].end = address + length;
}

static void forget_shared(Addr address, SizeT length)
{
   UInt kept = 0;
   for (UInt i = 0; i < shared_count; i++)
      if (shared[i].start < address || shared[i].end > address + length)
         shared[kept++] = shared[i];
   shared_count = kept;
}

/* Whether memory is shared, and up to where, at most `end`, that holds. */
static Bool is_shared(Addr address, Addr end, Addr* until)
{
   *until = end;
   for (UInt i = 0; i < shared_count; i++) {
      if (shared[i].start <= address && address < shared[i].end) {
         *until = shared[i].end < end ? shared[i].end : end;
         return True;
      }
      if (shared[i].start > address && shared[i].start < *until)
         *until = shared[i].start;
   }
   return False;
}

static void mapped(Addr address, SizeT length, UInt protection, UInt flags, ULong offset)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   const HChar* file = segment == NULL ? NULL : VG_(am_get_filename)(segment);
   if (address <= VG_(clstk_end) && VG_(clstk_end) < address + length)
      file = "[stack]";
   forget_shared(address, length);
   if (flags & MAP_SHARED_FLAG)
      know_shared(address, length);
   ULong operands[] = { address, length, offset, file == NULL ? 0 : homing_name(file) };
   homing_control(HOMING_MMAP, (ULong)protection << 32 | (flags & 0xffff), 4, operands);
}

static void unmapped(Addr address, SizeT length)
{
   ULong operands[] = { address, length };
   forget_shared(address, length);
   homing_control(HOMING_MUNMAP, 0, 2, operands);
}

static Bool locks_what_comes; /* mlockall(MCL_FUTURE) */

/* The kernel has placed the pages for the thread, as if it had written them. */
static void populated(Addr address, SizeT length)
{
   ULong operands[] = { address, True };
   if (length > 0)
      homing_control(HOMING_KERNEL_ACCESS, length, 2, operands);
}

static void populated_all(void)
{
   enum { KINDS = SkFileC | SkAnonC | SkShmC };
   Int found;
   Addr* starts = all_segments(KINDS, &found);
   for (Int i = 0; i < found; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(starts[i]);
      if (segment != NULL && (segment->hasR || segment->hasW))
         populated(segment->start, segment->end - segment->start + 1);
   }
   VG_(free)(starts);
}

static void after_lock_all(UWord flags)
{
   if (flags & LOCK_ON_FAULT)
      return;
   locks_what_comes = (flags & LOCK_FUTURE) != 0;
   if (flags & LOCK_CURRENT)
      populated_all();
}

static UInt protection_of(Bool read, Bool write, Bool execute)
{
   return (read ? VKI_PROT_READ : 0) | (write ? VKI_PROT_WRITE : 0) | (execute ? VKI_PROT_EXEC : 0);
}

/* The frames of private anonymous memory go away; the mapping stays. */
static void frames_dropped(Addr address, SizeT length)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   if (segment == NULL || segment->kind != SkAnonC)
      return;
   unmapped(address, length);
   mapped(address, length, protection_of(segment->hasR, segment->hasW, segment->hasX),
          MAP_PRIVATE_FLAG | MAP_ANONYMOUS_FLAG, 0);
}

static void after_advice(Addr address, SizeT length, UWord advice)
{
   ULong operands[] = { address, length };
   switch (advice) {
   case ADVICE_DONTNEED:
   case ADVICE_REMOVE: frames_dropped(address, length); break;
   case ADVICE_POPULATE_READ:
   case ADVICE_POPULATE_WRITE: populated(address, length); break;
   case ADVICE_HUGE:
   case ADVICE_NOT_HUGE: homing_control(HOMING_HUGE, advice == ADVICE_HUGE, 2, operands); break;
   default: break;
   }
}

static void after_brk(Addr end)
{
   if (program_break != 0 && end != program_break) {
      ULong operands[] = { program_break, end };
      homing_control(HOMING_BRK, 0, 2, operands);
   }
   program_break = end;
}

static void shared_memory(Addr address, Bool attached)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   if (segment == NULL)
      return;
   if (attached)
      mapped(address, segment->end - address + 1, protection_of(segment->hasR, segment->hasW, segment->hasX),
             MAP_SHARED_FLAG | MAP_ANONYMOUS_FLAG, 0);
   else
      unmapped(address, segment->end - address + 1);
}

static void at_startup(Addr address, SizeT length, Bool read, Bool write, Bool execute, ULong debug_info)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   Bool file = segment != NULL && segment->kind == SkFileC;
   /* Valgrind makes one segment of neighbours, whether shared or private. */
   for (Addr at = address, until = at; at < address + length; at = until) {
      UInt sharing = is_shared(at, address + length, &until) ? MAP_SHARED_FLAG : MAP_PRIVATE_FLAG;
      mapped(at, until - at, protection_of(read, write, execute), sharing | (file ? 0 : MAP_ANONYMOUS_FLAG),
             file ? segment->offset + (at - segment->start) : 0);
   }
   new_symbols |= debug_info != 0;
}

static void new_mapping(Addr address, SizeT length, Bool read, Bool write, Bool execute, ULong debug_info)
{
   new_symbols |= debug_info != 0;
}

/* --- signals ----------------------------------------------------------------------------------------------------- */

/* Valgrind keeps registers where the program's are only at the end of a block. A handler of memory faults that repairs
 * and returns may look for the fault in them, and the program goes on from them: from the first such handler on they
 * are exact at each access. */
static void after_sigaction(UInt signal, Addr action)
{
   if (signal != VKI_SIGSEGV && signal != VKI_SIGBUS)
      return;
   /* Its first word is the handler. */
   if (!VG_(am_is_valid_for_client)(action, sizeof(Addr), VKI_PROT_READ) || *(const Addr*)action <= (Addr)VKI_SIG_IGN)
      return;
   if (vex_control.iropt_register_updates_default >= VexRegUpdAllregsAtMemAccess)
      return;
   vex_control.iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
   VG_(discard_translations)(0, ~0ULL, "homing: exact registers");
}

/* --- what Valgrind does not carry -------------------------------------------------------------------------------- */

/* crates/homing-record/src/limits.rs reads these lines. */

enum { SECCOMP_CALL = 317, SET_SECCOMP = 22, SET_FILTER = 1, NO_RESERVE_FLAG = 0x4000 };

/* Filters of system calls hold for those of Valgrind, too, which the program does not expect. */
static void says_filters(UInt number, const UWord* args)
{
   if (number == SECCOMP_CALL ? args[0] <= SET_FILTER : args[0] == SET_SECCOMP)
      VG_(umsg)("homing: limit: filters\n");
}

/* Beyond VG_N_SEGMENTS (30,000) Valgrind ends the program, and says why to nobody but the program's own stderr. */
static void count_segments(void)
{
   enum { EACH = 256, NEAR = 29000, ALL = SkFree | SkAnonC | SkAnonV | SkFileC | SkFileV | SkShmC | SkResvn };
   static UInt calls;
   static Bool said;
   Addr start;
   if (said || ++calls % EACH != 0)
      return;
   /* Negative where there is no room: how many there are. */
   said = VG_(am_get_segment_starts)(ALL, &start, 1) <= -NEAR;
   if (said)
      VG_(umsg)("homing: limit: mappings\n");
}

/* What is only reserved the kernel hardly ever refuses. */
static void refused_mapping(const UWord* args)
{
   if (args[3] & MAP_ANONYMOUS_FLAG && (args[2] == VKI_PROT_NONE || args[3] & NO_RESERVE_FLAG))
      VG_(umsg)("homing: limit: reservation %llu\n", (ULong)args[1]);
}

/* --- the hooks --------------------------------------------------------------------------------------------------- */

static void before(ThreadId tid, UInt number, UWord* args, UInt count)
{
   if (number == __NR_execveat) {
      homing_wire_before_exec();
      homing_exec_without_path(tid, args);
   }
   if (number == SECCOMP_CALL || number == __NR_prctl)
      says_filters(number, args);
   if (!homing_recording)
      return;
   homing_of_thread(tid);
   switch (number) {
   case __NR_futex: before_futex(args); break;
   case __NR_clone:
   case __NR_clone3: before_clone(tid, number, args); break;
   case __NR_set_tid_address: clear_tid[tid] = args[0]; break;
   case __NR_shmdt: shared_memory(args[0], False); break;
   case __NR_execve: before_exec((const HChar*)args[0]); break;
   default: break;
   }
}

static void after(ThreadId tid, UInt number, UWord* args, UInt count, SysRes result)
{
   if (number == __NR_mmap || number == __NR_mprotect || number == __NR_munmap)
      count_segments();
   if (number == __NR_rt_sigaction && !sr_isError(result))
      after_sigaction(args[0], args[1]);
   if (!homing_recording) {
      /* Children of a child that is not recorded are not recorded either. */
      if (forks(number) && !sr_isError(result))
         after_fork(number, args, sr_Res(result));
      return;
   }
   homing_of_thread(tid);
   if (number == __NR_futex)
      after_futex(args); /* a failed wait was a wait, too */
   if (number == __NR_execve)
      VG_(clo_trace_children) = True; /* it failed */
   if (sr_isError(result)) {
      if (number == __NR_mmap)
         refused_mapping(args);
      return;
   }
   switch (number) {
   case __NR_mmap:
      mapped(sr_Res(result), args[1], args[2], args[3] | (locks_what_comes ? MAP_LOCKED_FLAG : 0), args[5]);
      break;
   case __NR_mlock: populated(args[0], args[1]); break;
   case MLOCK2_CALL:
      if (args[2] == 0)
         populated(args[0], args[1]);
      break;
   case __NR_mlockall: after_lock_all(args[0]); break;
   case __NR_munmap: unmapped(args[0], args[1]); break;
   case __NR_mremap: {
      ULong operands[] = { args[0], args[1], sr_Res(result), args[2] };
      homing_control(HOMING_MREMAP, 0, 4, operands);
      break;
   }
   case __NR_brk: after_brk(sr_Res(result)); break;
   case __NR_shmat: shared_memory(sr_Res(result), True); break;
   case __NR_madvise: after_advice(args[0], args[1], args[2]); break;
   default:
      if (forks(number))
         after_fork(number, args, sr_Res(result));
      break;
   }
   if (new_symbols) {
      new_symbols = False;
      homing_send_new_symbols();
   }
}

static void kernel_access(CorePart part, ThreadId tid, Addr address, SizeT size, Bool write)
{
   if (part != Vg_CoreSysCall || size == 0 || !homing_recording)
      return;
   homing_of_thread(tid);
   ULong operands[] = { address, write };
   homing_control(HOMING_KERNEL_ACCESS, size, 2, operands);
}

static void kernel_reads(CorePart part, ThreadId tid, const HChar* what, Addr address, SizeT size)
{
   kernel_access(part, tid, address, size, False);
}

static void kernel_wrote(CorePart part, ThreadId tid, Addr address, SizeT size)
{
   kernel_access(part, tid, address, size, True);
}

/* All that the program has mapped. */
static void send_mappings(void)
{
   enum { KINDS = SkFileC | SkAnonC | SkShmC };
   Int found;
   Addr* starts = all_segments(KINDS, &found);
   for (Int i = 0; i < found; i++) {
      const NSegment* segment = VG_(am_find_nsegment)(starts[i]);
      if (segment != NULL)
         at_startup(segment->start, segment->end - segment->start + 1, segment->hasR, segment->hasW, segment->hasX, 0);
   }
   VG_(free)(starts);
}

static void in_forked_child(ThreadId tid)
{
   if (!homing_wire_after_fork()) {
      /* What the program itself executes is recorded; what its children execute runs without Valgrind. */
      VG_(clo_trace_children) = False;
      return;
   }
   /* Blocks translated before the fork are not defined on the new wire. */
   VG_(discard_translations)(0, ~0ULL, "homing: fork");
   homing_threads_after_fork(tid);
   homing_region_after_fork();
   send_mappings();
   homing_allocations_after_fork();
}

void homing_track_syscalls(void)
{
   clear_tid = VG_(calloc)("homing.clear_tid", VG_N_THREADS + 1, sizeof clear_tid[0]);
   clear_tid_of_next = VG_(calloc)("homing.clear_tid", VG_N_THREADS + 1, sizeof clear_tid[0]);
   VG_(needs_syscall_wrapper)(before, after);
   VG_(track_new_mem_startup)(at_startup);
   VG_(track_new_mem_mmap)(new_mapping);
   VG_(track_pre_mem_read)(kernel_reads);
   VG_(track_post_mem_write)(kernel_wrote);
   VG_(atfork)(NULL, NULL, in_forked_child);
}
