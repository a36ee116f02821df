/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The homing runtime: what `-fsanitize=thread` objects are linked with instead of libtsan, so that they record their
 * references (docs/recording-tsan.md). This header is what the parts share:
 *
 *   stream.c   the wire: one stream of words a thread, in segments of shared memory
 *   names.c    marks and mapped files as name ids      stack.c   call stacks of allocations
 *   access.c   the plain accesses (the hot part)       atomic.c  atomic operations
 *   thread.c   creation, end and join of threads       sync.c    mutexes, conditions, barriers, ...
 *   gomp.c     libgomp: teams, barriers, tasks, locks  ompt.c    the same from LLVM's libomp, by its tool interface
 *   alloc.c    malloc, new, and what they map          map.c     mmap, munmap, mremap, brk
 *   cut.c      mappings that go away under other threads       pipes.c  segments to and from homing
 *   string.c   memcpy and its kin                      block.c   calls that wait in the kernel
 *   signal.c   signal handlers, handler.c where they write    region.c  where the region of interest begins and ends
 *   start.c    where a recording begins               attach.c  while the program runs
 *   window.c   recording in windows                   touch.c   first touches between them
 *   loss.c     what could not be sent
 *   inline.c   what the code of the compiler pass of recorders/clang calls
 */
#ifndef HOMING_RUNTIME_H
#define HOMING_RUNTIME_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "../include/homing_wire.h"
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint64_t word;

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORT __attribute__((visibility("default")))
#define CALLER ((word)__builtin_return_address(0))

enum stream_state { STREAM_NEW = 0, STREAM_OPEN = 1, STREAM_ENDED = 2 };

/* Addresses from start to before end. */
struct stack_range {
   word start, end;
};

/* Where a thread writes, as in its stream. */
struct cursor {
   volatile unsigned long long *cursor;
   word inline_limit, limit;
};

/* The stream of one thread. Invariant: `*cursor < limit` only while the cursor is in a segment that this thread owns,
 * so the hot path needs no other test. The cursor, an address, lies in shared memory (open[].words of the header): what
 * a killed program wrote stays visible. */
struct stream {
   volatile unsigned long long *cursor;
   word inline_limit; /* where the code of recorders/clang asks for room; it knows these two by their places */
   word limit;
   word *base;            /* of the segment */
   word advance;          /* function entries not yet sent */
   uint32_t thread;
   uint32_t recording;    /* that this is the stream of */
   uint32_t index;        /* segments posted */
   uint32_t slot;         /* in homing_wire_header.open */
   uint32_t inside;       /* > 0: the runtime itself is at work, its calls are not the program's */
   uint32_t begins_recording; /* the thread sends what comes first, before others may send anything */
   enum stream_state state;
   /* What the last acquiring load saw: a thread that spins on a flag sends one edge, not one a turn. */
   const volatile void *seen_at;
   word seen_value;
   /* The stack of a signal handler that interrupted the runtime; end is 0 if none did. */
   struct stack_range interrupted;
   /* For code of recorders/clang: the cursor in memory that nobody reads, while nothing is recorded. */
   volatile unsigned long long nowhere;
   /* The frame of the signal handler that runs, as far as is known; 0: none does. */
   word handler_frame;
   /* Signal handlers that have interrupted one another; where the first of them began to write, what the cursor was
    * then, and where the last one that has returned had come to; 0: none since the segment was opened. */
   uint32_t handlers;
   word handler_start, interrupted_at, handler_end;
   /* Recording in windows: the number in the header that the thread goes by; whether it is between windows, and turned
    * to its segment for all that; its cursor in that, else. */
   uint32_t window, paused, turned;
   struct cursor aside;
   /* Words of the segments posted, and those of signal handlers in the segment in use; of them and of the others in
    * that segment, those that are no references. References, in words, that were sent before the window, and those that
    * were not since the last. */
   word posted, control, sent_before, unseen;
   /* Of those of the window, the ones that the header's count has. */
   word counted;
   /* Up to where records that go nowhere were looked at, and the page faults that the kernel had counted by then;
    * whether a signal handler has written among them since, or other threads do. Pages touched lately. */
   word looked, faults, touched[8];
   uint32_t muddled, shares;
};
_Static_assert(offsetof(struct stream, cursor) == 0 && offsetof(struct stream, inline_limit) == 8,
               "recorders/clang/emit.cpp looks elsewhere");

extern EXPORT __thread struct stream homing_self;
/* 1 while this process records. */
extern HIDDEN int homing_active;
/* What the C library does for the program is left out. */
extern HIDDEN int homing_only_program;

/* Room for n words (n <= HOMING_RESERVE_MAX) in this thread's stream, contiguous; NULL when nothing is recorded. */
HIDDEN word *homing_reserve(unsigned n);
#define HOMING_RESERVE_MAX 512
/* The slow path of a reference: the segment is full, or there is none yet. */
HIDDEN void homing_reference_slow(word reference);
/* One control word and up to four operands. */
HIDDEN void homing_send(unsigned n, word head, word a, word b, word c, word d);
/* Sends what this thread has written, so that it arrives before anything that another thread writes from now on. */
HIDDEN void homing_publish(void);
/* A synchronisation edge: HOMING_SYNC_RELEASE before the operation that lets others go on, _ACQUIRE after the one that
 * waited. Objects are addresses; those from homing_object() are odd and so never meet a lock's address. */
HIDDEN void homing_sync(unsigned kind, word object);
/* The same without a look at the windows. */
HIDDEN void homing_sync_always(unsigned kind, word object);
/* Whether a new window is open, or the last one is closed: from here on the thread goes by that. */
HIDDEN void homing_follow_window(void);
/* Counts words of references in the header, which may open or close a window: some of this thread; those that it has
 * sent in the window that is open. */
HIDDEN void homing_count_progress(word words);
HIDDEN void homing_count_window(void);
/* Windows open and close where threads meet. The caller has come to a barrier that `threads` threads come to; only the
 * caller is at work; whether anybody is to tell of meetings now. */
HIDDEN void homing_meet(word barrier, unsigned threads);
HIDDEN void homing_are_idle(void);
HIDDEN int homing_counts_meetings(void);
/* Windows may go by a mark: at the start, learns which; at each mark of the program. */
HIDDEN void homing_know_window_mark(void);
HIDDEN void homing_window_mark(const char *name);
/* In a window: code of recorders/clang asks for room, and looks at the window, before its segment is full. */
HIDDEN void homing_look_again_soon(void);
/* Between windows: makes ready to know touched pages; a reference goes nowhere, which may be the first to its page; the
 * same for records of recorders/clang; for all that the thread has let go nowhere. */
enum { HOMING_TOUCHED = sizeof homing_self.touched / sizeof(word) };
HIDDEN void homing_know_touches(void);
HIDDEN void homing_touch(word reference);
HIDDEN void homing_look_for_touches(const word *from, const word *end);
HIDDEN void homing_look_at_nowhere(void);
/* Counts what has gone nowhere, if it is much, before it has gone round. */
HIDDEN void homing_count_nowhere(void);
/* Counts a page whose first touch there was no room to know or to send. */
HIDDEN void homing_lose_touch(void);
/* The definition of a block of recorders/clang, behind its head; NULL if there is none. */
HIDDEN const word *homing_definition(word block);
/* homing_reserve() between windows. */
HIDDEN word *homing_reserve_aside(unsigned n);
/* Between windows: to the thread's segment, for what is always sent, and away from it; may be nested. */
HIDDEN void homing_turn_to_wire(void);
HIDDEN void homing_turn_away(void);
/* Whether a signal handler runs: what it has interrupted may hold any lock. One that has jumped out of itself has left
 * its frame below ours. */
static inline __attribute__((always_inline)) int homing_in_handler(void)
{
   return homing_self.handler_frame > (word)__builtin_frame_address(0);
}
HIDDEN word homing_object(void);
/* What is added to such an object: it then stands for one side of a team or task. */
enum { ROLE_FORK = 0, ROLE_JOIN = 2, ROLE_TASKS = 4, ROLE_ORDERED = 6 };
/* Objects that exist once. */
enum { OBJECT_FENCE = 3, OBJECT_CRITICAL = 5, OBJECT_ATOMIC = 7, OBJECT_MAPPINGS = 9, OBJECT_WINDOW = 11 };
/* Threads made so far, the first not counted; whether there is none but the first. */
extern HIDDEN uint32_t homing_threads;
HIDDEN int homing_is_alone(void);
/* Starts recording if the wire is there; called before the first reference, and harmless when repeated. */
HIDDEN void homing_start(void);
/* Recordings so far, of which at most one goes on. */
HIDDEN uint32_t homing_recording(void);
HIDDEN void homing_prepare_streams(void);
HIDDEN void homing_begin_recording(homing_wire_header *shared, int while_running);
HIDDEN void homing_leave_recording(void);
/* While nothing is recorded: whether `homing record --pid` waited for this process, and a recording has begun. */
HIDDEN int homing_look_for_recorder(void);
extern HIDDEN int homing_may_be_attached;
/* Begins one with these descriptors: memory, free segments, filled ones. */
HIDDEN int homing_attach(const int files[3], int only_program);
/* What an earlier recording has sent, and this one has not. */
HIDDEN void homing_forget_marks(void);
HIDDEN void homing_forget_stacks(void);
/* Sends the definitions of all code blocks. */
HIDDEN void homing_send_blocks(void);
/* The number of a thread about to be made. */
HIDDEN uint32_t homing_new_thread(void);
/* Gives the calling thread the number that its creator announced in this recording. */
HIDDEN void homing_begin_thread(uint32_t thread, uint32_t of_recording);
/* Ends the calling thread's stream. */
HIDDEN void homing_end_thread(void);
/* Counts a process that is not recorded. */
HIDDEN void homing_child(void);
/* A mapping goes away or moves (cut.c). References of any thread before homing_begin_cut() are to what was there; those
 * that another thread makes because of the system call, or of what this thread does after homing_end_cut(), to what
 * comes next. In between no signal is taken and nothing else is recorded. An event of 0 words: nothing has changed. */
struct cut {
   uint64_t mask;
   int begun;
};
enum { HOMING_EVENT_MAX = 5, HOMING_CUT_WORDS = 2 };
struct event {
   unsigned words;
   word word[HOMING_EVENT_MAX];
};
HIDDEN struct cut homing_begin_cut(void);
HIDDEN void homing_end_cut(struct cut cut, struct event event);
/* The same where the whole event is known before the system call. */
HIDDEN void homing_cut(struct event event);
/* After a system call that made a mapping: another one may have moved away from where it lies. */
HIDDEN void homing_await_cut(void);
/* What cut.c needs of the stream: segments change with all signals blocked, between begin and end of a change. */
HIDDEN uint64_t homing_begin_change(void);
HIDDEN void homing_end_change(uint64_t before);
/* Between the two: room for n words; 0 when nothing is recorded. */
HIDDEN int homing_make_room(unsigned n);
HIDDEN void homing_post(void); /* what homing_publish() does */
/* The shared memory; a segment in it; how far the thread's own may be filled, and how much of that is for signal
 * handlers where code of recorders/clang may be interrupted. */
extern HIDDEN homing_wire_header *homing_wire;
HIDDEN word *homing_segment(word number);
HIDDEN word homing_segment_end(void);
HIDDEN word homing_handler_words(void);
enum { HOMING_KEPT_FREE = 8 };
/* The pipes: a free segment, or -1 if there is nobody at the other end; whether a filled one was sent. */
HIDDEN void homing_open_pipes(int credit, int full);
HIDDEN void homing_close_pipes(void);
/* What the pipes return where nothing goes through them: the program has closed them, or nobody is at the other end. */
enum { HOMING_PIPE_LOST = -1, HOMING_GONE = -2 };
HIDDEN long homing_take_credit(void); /* or a segment */
HIDDEN long homing_send_full(const homing_wire_full *message); /* or 0 */
/* A lock for a few instructions or one system call. */
static inline void homing_lock(int *lock)
{
   while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
      syscall(SYS_sched_yield);
}
static inline void homing_unlock(int *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }
/* Before a call that may wait for another thread: gives the segment up if they are scarce. */
HIDDEN void homing_may_block(void);
/* The name id of a text, which is sent: as HOMING_NAME, or as another operation. */
HIDDEN word homing_name(const char *text, unsigned length);
HIDDEN word homing_name_as(unsigned operation, const char *text, unsigned length);
enum { HOMING_NAME_BYTES = 8 * (HOMING_RESERVE_MAX - 1) };
/* Whether the program is CPython, or linked with it: looked up once, when recording starts. */
HIDDEN void homing_look_for_python(void);
/* The name id of the call stack from a return address on; its frames are sent on first use. */
HIDDEN word homing_site(word return_address);
/* Whether code of recorders/clang is in the process: a signal handler can interrupt it at any instruction, and cannot
 * tell where it writes. Handlers then write into a part of the segment of their own, between these two. */
extern HIDDEN int homing_has_records;
struct kept {
   volatile unsigned long long *cursor;
   word inline_limit, limit;
   int begun;
   uint32_t handlers;
};
HIDDEN struct kept homing_begin_handler(void);
HIDDEN void homing_end_handler(struct kept kept);
/* After a handler that jumped out of itself. */
HIDDEN void homing_abandon_handler(void);
/* Counts a reference or event for which homing_reserve() found no room; sends the counts; begins to count anew. */
HIDDEN void homing_count_loss(void);
HIDDEN void homing_send_losses(void);
HIDDEN void homing_forget_losses(void);
/* Whether a record goes nowhere though the process records: the words so far are lost. */
HIDDEN void homing_lose_records(word words);
HIDDEN void homing_go_nowhere(void);
/* The same, and goes on behind what was written there. */
HIDDEN void homing_go_on_nowhere(void);
/* The most words of a record of recorders/clang. */
enum { HOMING_RECORD_MAX = 192 };
/* Makes room for one; 0 when nothing is recorded. */
HIDDEN int homing_record_room(void);
/* Sends the mappings that exist when recording starts. */
HIDDEN void homing_send_maps(void);
/* Sends those of libraries that were loaded later. */
HIDDEN void homing_send_libraries(void);
/* The region of interest: takes its functions from the environment, and looks for them in all loaded files; looks in
 * one that was loaded later; the code of a function is entered, or a mark made, which counts only while awaited. */
HIDDEN void homing_region_start(void);
HIDDEN void homing_region_look(const struct dl_phdr_info *object);
HIDDEN void homing_region_enter(word code);
HIDDEN void homing_region_mark(const char *mark);
extern EXPORT int homing_region_awaited;
/* A range access, in pieces as libc's vector code makes them. */
HIDDEN void homing_range(word address, word bytes, unsigned write, word site);
/* The next definition of a symbol after the runtime's own: libc's or libgomp's. Ends the program with a message where
 * there is none. */
HIDDEN void *homing_next(const char *symbol);
/* True in a signal handler that interrupted the runtime: a word of the segment may not be written yet. */
HIDDEN int homing_interrupted(void);
/* Writes to standard error, without stdio. */
HIDDEN void homing_say(const char *text);

/* The real function behind an interposed one, looked up once. */
#define REAL(name)                                                                                                     \
   ({                                                                                                                  \
      static __typeof__(&name) real_;                                                                                  \
      if (UNLIKELY(real_ == NULL))                                                                                     \
         real_ = (__typeof__(&name))homing_next(#name);                                                                \
      real_;                                                                                                           \
   })

/* A reference word; built from the site upwards, which takes the fewest instructions. */
static inline __attribute__((always_inline)) word homing_word(word address, unsigned log2, unsigned write, word site)
{
   enum {
      UPPER = HOMING_REFERENCE_CODE_AT,
      SIZE_AT = HOMING_REFERENCE_SIZE_AT - UPPER,
      WRITE_AT = HOMING_REFERENCE_WRITE_BIT - UPPER
   };
   uint32_t high = ((uint32_t)site & ((1u << SIZE_AT) - 1)) | log2 << SIZE_AT | write << WRITE_AT;
   return (word)high << UPPER | (address & ((1ULL << UPPER) - 1));
}

/* Moves a cursor and returns where it was, in one instruction: a signal handler that records comes before or after it,
 * never in between. No other thread writes the cursor, so it needs no lock prefix. */
static inline __attribute__((always_inline)) word homing_take(volatile unsigned long long *cursor, word bytes)
{
   __asm__ volatile("xaddq %0, %1" : "+r"(bytes), "+m"(*cursor) : : "memory");
   return bytes;
}

/* Records one reference. A signal handler that interrupts between the taking of room and the store would find a word
 * that is not written: signal.c writes it first, from the registers, so their names are fixed and the address of the
 * store is put into a table. */
static inline __attribute__((always_inline)) void homing_reference(word reference)
{
   volatile unsigned long long *cursor = homing_self.cursor;
   if (UNLIKELY(*cursor >= homing_self.limit)) {
      homing_reference_slow(reference);
      return;
   }
   word at = sizeof(word);
   __asm__ volatile("xaddq %0, %1\n"
                    "1:\tmovq %2, (%0)\n" /* HOMING_STORE_BYTES long */
                    "\t.pushsection homing_stores, \"a\"\n"
                    "\t.long 1b - .\n"
                    "\t.popsection"
                    : "+a"(at), "+m"(*cursor)
                    : "d"(reference)
                    : "memory");
}
enum { HOMING_STORE_BYTES = 3 };

/* Writes the head of a control word, after its operands: homing reads segments while they are written, and takes a head
 * for the whole. */
static inline void homing_head(word *room, word head) { __atomic_store_n(room, head, __ATOMIC_RELEASE); }

#endif
