/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The wire between a recorder (inside the recorded program) and `homing record` (which encodes the trace).
 * docs/recording-wire.md explains it. This file is the only definition: crates/homing-wire reads its numbers when
 * homing is compiled, and HOMING_LAID holds the structs against them.
 *
 * Shared memory: one memfd, mapped by both sides: a page of `homing_wire_header`, then `segments` segments of
 * `segment_words` 64-bit words each. Two pipes carry 32-bit segment numbers and descriptors:
 *   credit pipe   homing -> recorder   u32: a free segment
 *   full pipe     recorder -> homing   homing_wire_full: a filled segment
 * A recorder takes a credit (blocking read), fills the segment, posts it, and goes on. End of file on the full pipe
 * ends the recording. A segment in use is visible to homing through `open[]`, so that a killed program loses nothing
 * that was written before it died.
 */
#ifndef HOMING_WIRE_H
#define HOMING_WIRE_H

#define HOMING_WIRE_MAGIC 0x31455249574d4f48ULL /* "HOMWIRE1" */

/* The version of all that this file says, which the recorder puts into the header. A recorder is linked into programs
 * and may be older than homing: homing then refuses, since it would misread it. Raised with every change. */
#define HOMING_WIRE_VERSION 13

/* The environment variable that names the wire: "MEMFD,CREDIT_FD,FULL_FD" (inherited descriptors). */
#define HOMING_WIRE_ENV "HOMING_WIRE"
/* The abstract socket at which `homing record --pid` waits: this and the process id. */
#define HOMING_ATTACH_SOCKET "homing-attach-"
/* The byte that comes with the descriptors where what the C library does for the program is left out. */
#define HOMING_ATTACH_ONLY_PROGRAM 'p'
/* Those that name the functions whose first entries begin and end the region of interest, if they are set. (parallel;
 * Valgrind has options) */
#define HOMING_FROM_ENV "HOMING_FROM"
#define HOMING_TO_ENV "HOMING_TO"
/* Set: references that functions of the C library make for the program are left out. (parallel; Valgrind has an
 * option) */
#define HOMING_ONLY_PROGRAM_ENV "HOMING_ONLY_PROGRAM"
/* `mark:` and the name of the mark that windows go by, if they do. (parallel) */
#define HOMING_WINDOW_MARK_ENV "HOMING_WINDOW_MARK"

#define HOMING_WIRE_MAX_OPEN 4096
/* Places of windows are multiples of this. */
#define HOMING_PLACE 256

typedef struct {
   unsigned long long magic;
   unsigned int       segments;
   unsigned int       segment_words;
   unsigned int       stop;       /* set by homing: record no more (limit reached) */
   unsigned int       flavour;    /* set by the recorder: HOMING_FLAVOUR_* */
   unsigned long long header_bytes; /* offset of segment 0 from the start of the memfd */
   unsigned int       children;   /* set by the recorder: child processes that are not recorded */
   unsigned int       version;    /* set by the recorder, before flavour: HOMING_WIRE_VERSION */
   unsigned long long cursor_base;  /* set by the recorder: 0, or its address of segment 0 */
   unsigned int       open_end;   /* set by the recorder: entries of open[] from here on were never in use */
   unsigned int       window;     /* 0: all is recorded; odd: window `window / 2` is open; else none. Set by homing at
                                   * the start, and raised by one by the recorder (parallel) when its time has come */
   /* In windows: the words of references that threads have sent, or would have sent, as far as they have counted them,
    * or HOMING_PLACE for each of the marks that windows go by; and where in that count `window` is to become n: entry
    * n % 2 is the place, in its last eight bits those of n. Set by homing, for one or two numbers in advance. */
   unsigned long long progress __attribute__((aligned(64)));
   unsigned long long window_at[2];
   unsigned int       window_apart; /* what `window` became when it was last raised where threads do not meet */
   /* Recorder: for each stream in progress, the segment in use + 1 (0: none), its index in the stream, and the words
    * written so far; where cursor_base is not 0, the recorder's own write address in place of the number of words. A
    * segment is posted before it is withdrawn here, so that one or the other shows every word; the index tells when it
    * is both. Threads write their own entry at each reference: each has a cache line. */
   struct {
      unsigned int segment_plus_1;
      unsigned int thread;
      unsigned int index;
      volatile unsigned long long words;
   } __attribute__((aligned(64))) open[HOMING_WIRE_MAX_OPEN];
} homing_wire_header;

typedef struct {
   unsigned int segment;
   unsigned int words;
   unsigned int stream; /* serial flavour: 0; parallel flavour: the recorder's thread number */
   unsigned int index;  /* counts the segments of this stream from 0: a gap is a loss */
} homing_wire_full;

/* One stream for the whole process, in execution order, with THREAD words at switches (Valgrind). */
#define HOMING_FLAVOUR_SERIAL 1
/* One stream for each thread; threads run in parallel (compiler instrumentation). */
#define HOMING_FLAVOUR_PARALLEL 2

/* Where the fields are, in bytes. */
enum {
   HOMING_AT_MAGIC = 0, HOMING_AT_SEGMENTS = 8, HOMING_AT_SEGMENT_WORDS = 12, HOMING_AT_STOP = 16,
   HOMING_AT_FLAVOUR = 20, HOMING_AT_HEADER_BYTES = 24, HOMING_AT_CHILDREN = 32, HOMING_AT_VERSION = 36,
   HOMING_AT_CURSOR_BASE = 40, HOMING_AT_OPEN_END = 48, HOMING_AT_WINDOW = 52,
   HOMING_AT_PROGRESS = 64, HOMING_AT_WINDOW_AT = 72, HOMING_AT_WINDOW_APART = 88, HOMING_AT_OPEN = 128,
   HOMING_OPEN_BYTES = 64,
   /* in an entry of open[] */
   HOMING_AT_OPEN_SEGMENT = 0, HOMING_AT_OPEN_THREAD = 4, HOMING_AT_OPEN_INDEX = 8, HOMING_AT_OPEN_WORDS = 16,
   /* in homing_wire_full */
   HOMING_AT_FULL_SEGMENT = 0, HOMING_AT_FULL_WORDS = 4, HOMING_AT_FULL_STREAM = 8, HOMING_AT_FULL_INDEX = 12,
   HOMING_FULL_BYTES = 16
};

#ifdef __cplusplus
#define HOMING_ASSERT static_assert
#else
#define HOMING_ASSERT _Static_assert
#endif
#define HOMING_LAID(type, field, at, bytes) \
   HOMING_ASSERT(__builtin_offsetof(type, field) == (at) && sizeof(((type *)0)->field) == (bytes), \
                  #type "." #field " is not where the other end looks for it")

HOMING_LAID(homing_wire_header, magic, HOMING_AT_MAGIC, 8);
HOMING_LAID(homing_wire_header, segments, HOMING_AT_SEGMENTS, 4);
HOMING_LAID(homing_wire_header, segment_words, HOMING_AT_SEGMENT_WORDS, 4);
HOMING_LAID(homing_wire_header, stop, HOMING_AT_STOP, 4);
HOMING_LAID(homing_wire_header, flavour, HOMING_AT_FLAVOUR, 4);
HOMING_LAID(homing_wire_header, header_bytes, HOMING_AT_HEADER_BYTES, 8);
HOMING_LAID(homing_wire_header, children, HOMING_AT_CHILDREN, 4);
HOMING_LAID(homing_wire_header, version, HOMING_AT_VERSION, 4);
HOMING_LAID(homing_wire_header, cursor_base, HOMING_AT_CURSOR_BASE, 8);
HOMING_LAID(homing_wire_header, open_end, HOMING_AT_OPEN_END, 4);
HOMING_LAID(homing_wire_header, window, HOMING_AT_WINDOW, 4);
HOMING_LAID(homing_wire_header, progress, HOMING_AT_PROGRESS, 8);
HOMING_LAID(homing_wire_header, window_at, HOMING_AT_WINDOW_AT, 16);
HOMING_LAID(homing_wire_header, window_apart, HOMING_AT_WINDOW_APART, 4);
HOMING_LAID(homing_wire_header, open, HOMING_AT_OPEN, HOMING_WIRE_MAX_OPEN * HOMING_OPEN_BYTES);
HOMING_LAID(homing_wire_header, open[0].segment_plus_1, HOMING_AT_OPEN + HOMING_AT_OPEN_SEGMENT, 4);
HOMING_LAID(homing_wire_header, open[0].thread, HOMING_AT_OPEN + HOMING_AT_OPEN_THREAD, 4);
HOMING_LAID(homing_wire_header, open[0].index, HOMING_AT_OPEN + HOMING_AT_OPEN_INDEX, 4);
HOMING_LAID(homing_wire_header, open[0].words, HOMING_AT_OPEN + HOMING_AT_OPEN_WORDS, 8);
HOMING_LAID(homing_wire_full, segment, HOMING_AT_FULL_SEGMENT, 4);
HOMING_LAID(homing_wire_full, words, HOMING_AT_FULL_WORDS, 4);
HOMING_LAID(homing_wire_full, stream, HOMING_AT_FULL_STREAM, 4);
HOMING_LAID(homing_wire_full, index, HOMING_AT_FULL_INDEX, 4);
HOMING_ASSERT(sizeof(homing_wire_full) == HOMING_FULL_BYTES, "the other end expects another length");

/* A word with bit 63 clear is a data reference.
 *  serial:   the virtual address of the next access of the current block (0: that access did not happen: guarded)
 *  parallel: bits 0..47 address, 48..58 low 11 bits of the instruction address, 59..61 log2 of the size in bytes
 *            (0..6), 62 write. Homing clears a segment before it gives it back: word 0 is one that its thread has not
 *            written yet, though it has taken the room. The head of a control word is written last.
 * A word with bit 63 set is a control word: bits 56..62 operation, bits 0..55 payload; the operation fixes how many
 * words follow. */
#define HOMING_CONTROL_BIT 63
#define HOMING_OPERATION_AT 56
#define HOMING_CONTROL (1ULL << HOMING_CONTROL_BIT)
#define HOMING_WORD(op, payload) (HOMING_CONTROL | ((unsigned long long)(op) << HOMING_OPERATION_AT) | (payload))

/* The lowest bits of the parts of a data reference (parallel), */
enum { HOMING_REFERENCE_CODE_AT = 48, HOMING_REFERENCE_SIZE_AT = 59, HOMING_REFERENCE_WRITE_BIT = 62 };

/* of an access in a definition (HOMING_DEFINE), */
enum {
   HOMING_ACCESS_SIZE_AT = 16, HOMING_ACCESS_WRITE_BIT = 32, HOMING_ACCESS_ATOMIC_BIT = 33,
   HOMING_ACCESS_DERIVED_BIT = 34, HOMING_ACCESS_EXIT_BIT = 35, HOMING_ACCESS_GUARDED_BIT = 36,
   HOMING_ACCESS_WORD_AT = 36, HOMING_ACCESS_STEPS_BIT = 37, HOMING_ACCESS_OFFSET_AT = 48
};

/* and of a name's payload (HOMING_NAME, HOMING_SITE). */
enum { HOMING_NAME_ID_AT = 24 };

enum {
   /* payload: block number; begins one execution of a block, its accesses follow in order. A side exit simply ends
    * the list early. (In the parallel flavour there are no side exits.) */
   HOMING_BLOCK = 1,
   /* payload: block number; then (accesses << 32 | instructions), then the guest address of the block, then one word
    * an access: bits 0..15 index of its instruction in the block, 16..31 size in bytes, 32 write, 33 atomic
    * read-modify-write (one word for the pair, counted as one write), 34 derived. Sent before the block's first
    * execution; a number is never reused with another meaning.
    * An access that is not derived takes the next word of the execution; bit 36: it may be guarded, and its word 0. A
    * derived access has no word of its own: its address is word `bits 36..47` of this execution (counted from 0) plus
    * the signed `bits 48..63`, and it never leans on a guarded word.
    * The execution may end before an access with bit 35 set (a side exit lies there), and nowhere else: it ends there
    * if the next word is a control word or the segment ends; the accesses from one such bit to the next
    * hold at least one that is not derived. */
   HOMING_DEFINE = 2,
   /* payload: thread number; the words that follow are of that thread (serial only) */
   HOMING_THREAD = 3,
   /* payload: thread number of the new thread; then its creator. In the creator's stream, before the thread's first
    * reference. */
   HOMING_THREAD_START = 4,
   /* payload: thread number; the end of that thread, in its own stream. */
   HOMING_THREAD_END = 5,
   /* payload: thread number that was joined or seen to be dead; in the stream of the one that waited */
   HOMING_THREAD_JOIN = 6,
   /* payload: HOMING_SYNC_* ; then the object (an address), then the stamp: a process-wide increasing number. An
    * acquire with stamp a comes after every release of the same object with a smaller stamp. */
   HOMING_SYNC = 7,
   /* payload: protection << 32 | flags (as mmap(2), low 16 bits); then address, length, file offset, name id or 0 */
   HOMING_MMAP = 8,
   /* payload 0; then address, length */
   HOMING_MUNMAP = 9,
   /* payload 0; then old end, new end of the program break */
   HOMING_BRK = 10,
   /* payload 0; then old address, old length, new address, new length */
   HOMING_MREMAP = 11,
   /* payload: HOMING_ALLOC_* function; then address, size, call-site name id */
   HOMING_ALLOC = 12,
   /* payload 0; then address */
   HOMING_FREE = 13,
   /* payload: name id << 24 | length in bytes (< 65536); then the bytes, padded with zeros to whole words */
   HOMING_NAME = 14,
   /* a data symbol of the program; payload: name id; then address, size, object file's name id */
   HOMING_SYMBOL = 15,
   /* payload: units to add to the virtual time of the stream (parallel only; a reference counts one by itself) */
   HOMING_ADVANCE = 16,
   /* payload: number of the mark; then name id (iterations and regions) */
   HOMING_MARK = 17,
   /* payload: references that the recorder had to drop; then the reason's name id */
   HOMING_LOST = 18,
   /* payload: process id of a new child (after fork) */
   HOMING_FORK = 19,
   /* payload: bytes; then address, and 1 if the kernel writes the buffer: a system call's access to user memory */
   HOMING_KERNEL_ACCESS = 20,
   /* payload: thread << 32 | words; then segment << 32 | index. What that thread had written into its segment `index`
    * by then, that number of words, comes before what follows here. (parallel only) */
   HOMING_CUT = 21,
   /* payload: 1: the region of interest begins here, 0: it ends here; the reader, which was asked for a region, knows
    * whether what comes before is in it */
   HOMING_REGION = 22,
   /* payload: length in bytes (< 65536); then the bytes, padded with zeros to whole words: the arguments of the
    * program that the process has executed in place of the one before, each ended by a zero byte. The first word of
    * the first segment of a new stream with the index 0: all numbers begin again, nothing said before is valid.
    * (serial only) */
   HOMING_EXEC = 23,
   /* As HOMING_NAME, with the same ids: the call site of allocations. Its text is the frames of the call stack, the
    * innermost first, with HOMING_CALLED_BY between them: `function (file.c:12)`, `function (in /lib/libx.so)`,
    * `/app/train.py:12 in load`; or what homing looks up: `/path/file+0xOFFSET`, code at that address of an ELF file
    * (for a caller: before its return address), and `0xADDRESS`, code that a compiler made at run time. */
   HOMING_SITE = 24,
   /* payload: block number; a loop of executions of that block. Then a count, then start and step of each access that
    * has a word and bit 37 set in its definition: its address in the first execution, and how far it goes from one to
    * the next; then the words of each execution in turn, which are those of the other accesses that have one. If there
    * are such, the count is the bytes of all this with its head; if not, it is the number of executions. 0: the thread
    * is still at it, and the words that it has written follow. (parallel only) */
   HOMING_LOOP = 25,
   /* payload: number of the window << 1 | whether it begins, and bit 33 if it opened or closed where threads do not
    * meet; then words: where it begins, those that the thread would have sent since the window before, but has not;
    * where it ends, those that it has sent in it. (parallel only) */
   HOMING_WINDOW = 26,
   /* payload: 1 if huge pages are asked for (MADV_HUGEPAGE), 0 if they are refused; then address, length */
   HOMING_HUGE = 27
};

/* Between the frames of a call site. The most frames that a recorder walks up; that it walks up to where Python code
 * has called; and of that code, which come behind the others. */
#define HOMING_CALLED_BY " < "
enum { HOMING_STACK_FRAMES = 16, HOMING_BELOW_PYTHON = 8, HOMING_PYTHON_FRAMES = 4 };

enum { HOMING_SYNC_RELEASE = 0, HOMING_SYNC_ACQUIRE = 1, HOMING_SYNC_BOTH = 2 };

/* Bytes of a mark's name that count. */
enum { HOMING_MARK_NAME = 200 };

/* Allocation functions. */
enum {
   HOMING_ALLOC_MALLOC = 0, HOMING_ALLOC_CALLOC = 1, HOMING_ALLOC_REALLOC = 2, HOMING_ALLOC_MEMALIGN = 3,
   HOMING_ALLOC_NEW = 4, HOMING_ALLOC_NEW_ARRAY = 5
};

#endif
