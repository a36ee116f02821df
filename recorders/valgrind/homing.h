/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Homing's Valgrind tool: records every data reference of a program onto the wire (../include/homing_wire.h).
 *
 * The files follow the data path: main.c (start, options, end), instrument.c (the code put into every block), own.c
 * (which code is the program's own), region.c (where a region of interest begins and ends), wire.c (segments, control
 * words, names), threads.c (threads, slices, system calls), alloc.c (allocations and symbols), go.c (those of Go
 * programs), python.c (the lines of Python programs), and preload.c, which runs inside the program and wraps its
 * allocation functions.
 */
#ifndef HOMING_TOOL_H
#define HOMING_TOOL_H

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_clreq.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_guest.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "homing_wire.h"
#include "requests.h"

/* Free words that every block finds at its start; no block needs more. */
#define HOMING_BLOCK_WORDS 1024

/* --- wire.c ------------------------------------------------------------------------------------------------------ */

/* Where the next word goes. It lies in the shared header, so that homing can read it if we are killed. Points into
 * private memory while nothing is recorded. */
extern ULong** homing_cursor;
/* A block may start while the cursor is not beyond this. */
extern ULong* homing_limit;
/* False: the program runs on, nothing is recorded (no wire, forked child, homing gone, limit reached). */
extern Bool homing_recording;

/* Where to find the wire again after an exec: "PID,MEMFD,CREDIT_FD,FULL_FD", or NULL; "@NAME": the abstract socket
 * that tells each process such an address. */
extern const HChar* homing_wire_address;

/* Attaches to the wire. After an exec a new stream begins on it. */
void homing_wire_attach(void);
/* The process is about to execute another program (unless that fails): posts what it has written. */
void homing_wire_before_exec(void);
/* Posts the segment in use and goes on in a fresh one. Called from every block when its segment is full. */
void homing_flush(void);
/* Posts the last segment and closes the wire. */
void homing_wire_close(void);
/* Counts a child process that is not recorded. */
void homing_count_child(void);
/* In a forked child: the wire belongs to the parent. True: this process has got one of its own and is to record as if
 * it had just begun, with everything said again. */
Bool homing_wire_after_fork(void);
/* Writes n words (at most HOMING_BLOCK_WORDS). */
void homing_put(const ULong* words, UInt n);
/* Begins a control record of 1 + operands words; the caller writes the operands. */
void homing_control(UInt operation, ULong payload, UInt operands, const ULong* operand);
UWord homing_hash(const HChar* text);
/* The id of a name, sent over the wire at its first use. */
ULong homing_name(const HChar* name);
/* The same for a call site: frames with HOMING_CALLED_BY between them. */
ULong homing_site(const HChar* frames);

/* --- follow.c ---------------------------------------------------------------------------------------------------- */

/* Child processes are recorded, too. */
Bool homing_following(void);
/* The address of the wire for this process, which has just come from "fork" or "exec"; NULL: it is not recorded. */
const HChar* homing_ask_for_wire(const HChar* since);
/* Writes the arguments of this process, each ended by a zero byte, into `room` bytes; returns how many those are. What
 * is too long is cut. */
SizeT homing_command(HChar* text, SizeT room);
/* Whether nobody was there to be asked. */
Bool homing_is_gone(void);
/* Whether the tool can go along when this process executes a file. */
Bool homing_can_follow_exec(const HChar* path);

/* The number of the next block. (instrument.c) */
extern ULong homing_next_block;

/* --- exec.c ------------------------------------------------------------------------------------------------------ */

/* Before execveat with these arguments: lets the kernel execute a file that has no path, which Valgrind cannot. Comes
 * back where the file has one, and where that fails. */
void homing_exec_without_path(ThreadId tid, const UWord* args);

/* --- region.c ---------------------------------------------------------------------------------------------------- */

/* The functions whose first entries begin and end the region of interest, or NULL. */
extern const HChar *homing_from, *homing_to;

/* Whether the code at an address is the entry of such a function: HOMING_ENTERS_* or 0. */
enum { HOMING_ENTERS_FROM = 1, HOMING_ENTERS_TO = 2 };
UInt homing_region_entry(Addr address);
/* Such a function is entered. Called from its first block. */
void homing_enter(ULong entry);
void homing_region_mark(const HChar* mark);
/* In a forked child: says whether it is in the region. */
void homing_region_after_fork(void);

/* --- own.c ------------------------------------------------------------------------------------------------------- */

/* Only references of the program's own code are recorded. */
extern Bool homing_only_program;

/* Whether the code at an address is to be recorded. */
Bool homing_is_own(Addr address);

/* --- instrument.c ------------------------------------------------------------------------------------------------ */

IRSB* homing_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* arch, IRType guest_word, IRType host_word);

/* --- threads.c --------------------------------------------------------------------------------------------------- */

/* Basic blocks that a thread may run before another one gets its turn. */
extern UInt homing_slice;

void homing_track_threads(void);
/* In a forked child: its one thread is number 0 again. */
void homing_threads_after_fork(ThreadId tid);
/* Says on the wire that what follows is of this thread. */
void homing_of_thread(ThreadId tid);

/* --- syscalls.c -------------------------------------------------------------------------------------------------- */

void homing_track_syscalls(void);
/* The thread that is being created has the clear_child_tid address that its creator asked for. */
void homing_inherit_clear_tid(ThreadId creator, ThreadId tid);
/* The address that the kernel clears and wakes when this thread ends is released now. */
void homing_release_clear_tid(ThreadId tid);

/* --- alloc.c ----------------------------------------------------------------------------------------------------- */

void homing_track_allocations(void);
/* Sends the data symbols of objects that were loaded since the last call. */
void homing_send_new_symbols(void);
/* In a forked child: nothing was sent yet. */
void homing_allocations_after_fork(void);
/* The name of the call-site with these addresses of code, the innermost first. */
ULong homing_site_of(const Addr* frames, UInt count);

/* --- go.c -------------------------------------------------------------------------------------------------------- */

/* Whether allocations of Go programs have call-sites. Blocks must not go on in functions that they call then. */
extern Bool homing_go;
/* Puts what it takes into a block that begins at this address. */
void homing_note_go(IRSB* out, Addr address);

/* --- python.c ---------------------------------------------------------------------------------------------------- */

/* A frame of Python code: addresses of its code, its instruction, and the code's table of lines. */
typedef struct {
   Addr code, instruction, lines;
} HomingPythonFrame;

/* The program is CPython, or linked with it: where its variables _PyRuntime, Py_Version and PyCode_Type are. */
void homing_python_is_here(Addr its_runtime, Addr its_version, Addr its_code_type);
/* The innermost frames of the Python code that the running thread is in: how many; 0 where it is in none, or in one of
 * a version that is not known. */
UInt homing_frames_of_python(HomingPythonFrame* frames, UInt most);
/* "file:line in function". */
void homing_name_python_frame(const HomingPythonFrame* frame, HChar* text, SizeT room);

/* Number of a thread by its pthread_t, or -1. (threads.c) */
Long homing_thread_of_pthread(Addr pthread);

#endif
