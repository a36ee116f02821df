/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Threads: their numbers, their turns, their beginning and end. Valgrind reuses its thread ids, the wire never does.
 */
#include "homing.h"
#include "libvex_guest_amd64.h"

extern UInt VG_N_THREADS;

UInt homing_slice = 100000;

static UInt* number_of;      /* by ThreadId */
static UInt next_number = 0; /* the main thread is 0 */
static UInt current = 0;     /* whose words go onto the wire now */

/* The number of each thread by its pthread_t, for pthread_join; kept beyond the thread's end. */
typedef struct _Pthread {
   struct _Pthread* next;
   UWord address;
   UInt number;
} Pthread;
static VgHashTable* pthreads;

void homing_of_thread(ThreadId tid)
{
   UInt number = number_of[tid];
   if (number == current)
      return;
   current = number;
   homing_control(HOMING_THREAD, number, 0, NULL);
}

static void created(ThreadId creator, ThreadId tid)
{
   number_of[tid] = next_number++;
   if (creator == VG_INVALID_THREADID)
      return;
   homing_of_thread(creator);
   ULong by = number_of[creator];
   homing_control(HOMING_THREAD_START, number_of[tid], 1, &by);
   homing_inherit_clear_tid(creator, tid);
}

static Addr pthread_of(ThreadId tid)
{
   Addr fs = 0;
   VG_(get_shadow_regs_area)(tid, (UChar*)&fs, 0, offsetof(VexGuestAMD64State, guest_FS_CONST), sizeof fs);
   return fs;
}

static void first_instruction(ThreadId tid)
{
   Addr address = pthread_of(tid);
   Pthread* pthread = VG_(HT_lookup)(pthreads, address);
   if (pthread == NULL) {
      pthread = VG_(malloc)("homing.pthread", sizeof *pthread);
      pthread->address = address;
      VG_(HT_add_node)(pthreads, pthread);
   }
   pthread->number = number_of[tid];
}

void homing_threads_after_fork(ThreadId tid)
{
   for (UInt i = 0; i <= VG_N_THREADS; i++)
      number_of[i] = 0;
   VG_(HT_destruct)(pthreads, VG_(free));
   pthreads = VG_(HT_construct)("homing.pthreads");
   current = 0;
   next_number = 1;
   first_instruction(tid);
}

static void ended(ThreadId tid)
{
   homing_of_thread(tid);
   homing_release_clear_tid(tid);
   homing_control(HOMING_THREAD_END, number_of[tid], 0, NULL);
}

Long homing_thread_of_pthread(Addr address)
{
   const Pthread* pthread = VG_(HT_lookup)(pthreads, address);
   return pthread == NULL ? -1 : (Long)pthread->number;
}

/* Valgrind lets a thread run for 100,000 blocks; a shorter slice is nearer to a parallel machine. The scheduler keeps
 * what is left of a slice in the thread's event counter. */
static void starts_running(ThreadId tid, ULong blocks)
{
   homing_of_thread(tid);
   UInt left;
   PtrdiffT counter = offsetof(VexGuestAMD64State, host_EvC_COUNTER);
   VG_(get_shadow_regs_area)(tid, (UChar*)&left, 0, counter, sizeof left);
   if (left > homing_slice)
      VG_(set_shadow_regs_area)(tid, 0, counter, sizeof homing_slice, (const UChar*)&homing_slice);
}

void homing_track_threads(void)
{
   number_of = VG_(calloc)("homing.threads", VG_N_THREADS + 1, sizeof number_of[0]);
   pthreads = VG_(HT_construct)("homing.pthreads");
   VG_(track_pre_thread_ll_create)(created);
   VG_(track_pre_thread_first_insn)(first_instruction);
   VG_(track_pre_thread_ll_exit)(ended);
   VG_(track_start_client_code)(starts_running);
}
