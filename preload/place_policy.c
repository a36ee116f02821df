/* Memory policies for whole pages, as the names of the plan have them. */

#define _GNU_SOURCE
#include "place.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each part of a block with weights is a mapping of its own, ... */
enum { MOST_PARTS = 64 };
/* ... of which a process has 65530: all that is placed gets this many, and what lies between needs as many. */
enum { MOST_MAPPINGS = 16384 };

/* Mappings are counted again each time that this number of blocks found no room, since nobody reports munmap(2). */
enum { RECOUNT = 1024 };

/* Mappings of what is placed, and blocks that had no room. */
static _Atomic long parts, refused;

static long parts_of(const struct name *name)
{
	return name->how == WEIGHTED ? MOST_PARTS : name->how == BLOCKS ? name->count : 1;
}

/* Mappings of this process; 0 if the kernel does not say. */
static long mappings(void)
{
	char part[4096];
	long lines = 0;
	ssize_t length;
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	while ((length = read(file, part, sizeof part)) > 0)
		for (ssize_t at = 0; at < length; at++)
			lines += part[at] == '\n';
	close(file);
	return lines;
}

int has_room(unsigned number)
{
	long more = parts_of(&plan.name[number]);
	if (atomic_fetch_add(&parts, more) + more <= MOST_MAPPINGS)
		return 1;
	if (refused++ % RECOUNT == 0)
		parts = mappings() + more;
	if (parts <= MOST_MAPPINGS)
		return 1;
	parts -= more;
	return 0;
}

/* Whether a page of the range is in memory already and has to move. Asking for a move costs time even without one. */
static int is_touched(uintptr_t from, uintptr_t to)
{
	unsigned char pages[4096];
	for (uintptr_t at = from; at < to; at += sizeof pages * plan.page) {
		size_t bytes = to - at < sizeof pages * plan.page ? to - at : sizeof pages * plan.page;
		if (mincore((void *)at, bytes, pages) != 0)
			return 1;
		for (size_t page = 0; page < bytes / plan.page; page++)
			if (pages[page] & 1)
				return 1;
	}
	return 0;
}

/* Gives whole pages a policy; false if the kernel refuses. */
static int bind_to(uintptr_t from, uintptr_t to, int mode, const struct nodes *nodes, int flags, unsigned name)
{
	unsigned long bits = nodes ? MOST_NODES + 1UL : 0;
	if (from >= to || syscall(SYS_mbind, from, to - from, mode, nodes, bits, flags) == 0)
		return 1;
	counts->name[name].error = errno;
	count(&counts->name[name].failed, 1);
	return 0;
}

static int bind_to_node(uintptr_t from, uintptr_t to, unsigned node, int flags, unsigned name)
{
	struct nodes one = {{0}};
	one.words[node / WORD] |= 1UL << node % WORD;
	/* Where the node is full another one is taken: the program would be killed else. */
	return bind_to(from, to, MPOL_PREFERRED, &one, flags, name);
}

/* Consecutive parts, one for each node, equal but for the rounding to pages. */
static int bind_blocks(uintptr_t from, uintptr_t to, const struct name *name, int flags, unsigned number)
{
	size_t pages = (to - from) / plan.page;
	int done = 1;
	for (unsigned at = 0; at < name->count; at++) {
		uintptr_t start = from + pages * at / name->count * plan.page;
		uintptr_t end = from + pages * (at + 1) / name->count * plan.page;
		done &= bind_to_node(start, end, name->node[at], flags, number);
	}
	return done;
}

/* Parts in turn, as large as the nodes' weights; as many turns as pages and the number of parts allow. */
static int bind_weighted(uintptr_t from, uintptr_t to, const struct name *name, int flags, unsigned number)
{
	size_t pages = (to - from) / plan.page;
	size_t turns = MOST_PARTS / name->count, most = pages / name->weights;
	turns = turns < most ? turns : most;
	turns = turns > 0 ? turns : 1;
	uintptr_t start = from;
	size_t units = turns * name->weights, unit = 0;
	int done = 1;
	for (size_t turn = 0; turn < turns; turn++)
		for (unsigned at = 0; at < name->count; at++) {
			unit += name->weight[at];
			uintptr_t end = from + pages * unit / units * plan.page;
			done &= bind_to_node(start, end, name->node[at], flags, number);
			start = end;
		}
	return done;
}

int lay(uintptr_t from, uintptr_t to, unsigned number)
{
	const struct name *name = &plan.name[number];
	int flags = is_touched(from, to) ? MPOL_MF_MOVE : 0;
	switch (name->how) {
	case NODE:
		return bind_to_node(from, to, name->node[0], flags, number);
	case BLOCKS:
		return bind_blocks(from, to, name, flags, number);
	case WEIGHTED:
		return bind_weighted(from, to, name, flags, number);
	default:
		return bind_to(from, to, MPOL_INTERLEAVE, &name->all, flags, number);
	}
}

void lay_by_default(uintptr_t from, uintptr_t to, unsigned number)
{
	parts -= parts_of(&plan.name[number]);
	bind_to(from, to, MPOL_DEFAULT, NULL, 0, number);
}
