/* What the parts of libhoming-place.so share: the plan as it is in memory, and what is counted. */

#ifndef HOMING_PLACE_H
#define HOMING_PLACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MOST_NODES = 1024, WORD = 8 * sizeof(unsigned long) };
/* Names of a plan, its modules, and frames of a call stack that are looked at (homing-live/src/place/words.rs). */
enum { MOST_NAMES = 64, MOST_MODULES = 256, MOST_FRAMES = 256 };

enum how { INTERLEAVE, NODE, WEIGHTED, BLOCKS };

/* Nodes as the kernel's bit mask. */
struct nodes {
	unsigned long words[MOST_NODES / WORD];
};

/* A name of the plan: how its data are placed. */
struct name {
	enum how how;
	unsigned count, weights;
	/* Frames of the name; none for data that are no allocations. */
	unsigned frames;
	unsigned short node[MOST_NODES], weight[MOST_NODES];
	struct nodes all;
	/* The name of a file, or NULL. */
	const char *file;
};

/* Code of one frame of a name. */
struct range {
	uintptr_t from, to;
	unsigned short name, frame;
};

struct variable {
	uintptr_t from;
	size_t bytes;
	unsigned name;
};

struct module {
	dev_t device;
	ino_t inode;
	uintptr_t bias;
	int there;
};

/* What is counted, in a file that all processes of the program share: 64 bytes for the program, and 64 for each name
   (homing-live/src/place/counts.rs). */
struct counts {
	_Atomic uint64_t processes, foreign_allocator, confined, unused[5];
	struct {
		_Atomic uint64_t blocks, bytes, failed, error, small, untracked, unused[2];
	} name[MOST_NAMES];
};

/* Written once, before `on`. */
struct plan {
	struct name name[MOST_NAMES];
	struct module module[MOST_MODULES];
	struct range *range;
	struct variable *variable;
	unsigned names, modules, ranges, variables;
	unsigned long most_ranges, most_variables;
	/* All ranges are within. */
	uintptr_t lowest, highest;
	unsigned long least, filters, page;
	int files, foreign;
};

extern struct plan plan;

/* The mapping of the counts. */
extern struct counts *counts;

static inline void count(_Atomic uint64_t *what, uint64_t more)
{
	atomic_fetch_add_explicit(what, more, memory_order_relaxed);
}

/* Whether there is room for the mappings of one more block of a name; if so, it is taken. */
int has_room(unsigned number);
/* Gives whole pages the placement of a name; false if the kernel refuses some of it, which is counted. */
int lay(uintptr_t from, uintptr_t to, unsigned number);
/* Takes it away: the policy of the thread that touches a page decides again. */
void lay_by_default(uintptr_t from, uintptr_t to, unsigned number);

/* Reads the plan that HOMING_PLACE names. `map`: `mmap(2)`. True if there is one, which this process may carry out. */
int read_plan(const char *directory, void *(*map)(void *, size_t, int, int, int, off_t));

#endif
