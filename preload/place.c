/* Places some data of the program that this library is preloaded into, by name: what `homing run --place` asks for.
   Homing has looked the names up before the start, and leaves a plan: address ranges of code by the frames of each
   name, variables, names of files. Here the call stack of each large allocation is compared with the plan, and the
   whole pages inside of the block get a memory policy by mbind(2). It is taken away before the block is freed, so that
   other data that reuse the addresses have none. The allocator stays as it is. docs/place.md.

   It does nothing without HOMING_PLACE in the environment. It takes no lock and allocates nothing, nor does the
   unwinder with glibc 2.35 and newer, so it may be used wherever the functions before which it stands may be; a child
   after fork goes on as its parent. What the kernel refuses is counted and left at that. What happened is counted in a
   file that homing reads, also if the program is killed. Programs with more rights than their user
   get no such library, since ld.so ignores it. */

#define _GNU_SOURCE
#include "place.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#define PUBLIC __attribute__((visibility("default")))
#define LOCAL_TLS __attribute__((tls_model("initial-exec")))

/* Blocks that can be placed at a time: sets of some, by a hash of the address. */
enum { SETS = 8192, IN_SET = 8 };
/* Bytes of a name in /proc. */
enum { LINK = 32 };

/* A block that is placed: its address (0: none), and its whole pages. */
struct block {
	_Atomic uintptr_t address;
	uintptr_t from, to;
	unsigned name;
};

static struct block blocks[SETS][IN_SET];
/* All blocks that were ever placed are within. */
static _Atomic uintptr_t first_block = UINTPTR_MAX, last_block;

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void (*free)(void *);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
} next;

/* Whether what comes next has been found, whether the plan has been looked at, and whether there is one. */
static _Atomic int have, begun, on;
/* Whether this thread is looking for what comes next, which may allocate. */
static __thread int looking LOCAL_TLS;
/* Whether this thread is inside of an allocator: the mappings that it makes are its own affair. */
static __thread int inside LOCAL_TLS;
/* Whether no call of `malloc` has come here since this was set. */
static __thread int unasked LOCAL_TLS;

static void *find(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* False while the functions themselves are being found: there is nothing to allocate with yet. */
static int found(void)
{
	if (__builtin_expect(have, 1))
		return 1;
	if (looking)
		return 0;
	looking = 1;
	next.malloc = find("malloc"), next.calloc = find("calloc"), next.realloc = find("realloc");
	next.memalign = find("memalign"), next.aligned_alloc = find("aligned_alloc");
	next.posix_memalign = find("posix_memalign"), next.free = find("free");
	next.mmap = find("mmap"), next.prctl = find("prctl");
	looking = 0;
	have = 1;
	return 1;
}

/* ---- blocks that are placed ---- */

static struct block *set_of(uintptr_t address)
{
	return blocks[(address >> 4) * 0x9e3779b97f4a7c15UL >> 51 & (SETS - 1)];
}

/* Remembers a block; false if its set is full. Nobody else has its address: it was just allocated. */
static int remember(uintptr_t address, uintptr_t from, uintptr_t to, unsigned name)
{
	struct block *set = set_of(address);
	for (unsigned at = 0; at < IN_SET; at++) {
		uintptr_t none = 0;
		if (!atomic_compare_exchange_strong(&set[at].address, &none, address))
			continue;
		set[at].from = from, set[at].to = to, set[at].name = name;
		uintptr_t first = first_block, last = last_block;
		while (address < first && !atomic_compare_exchange_weak(&first_block, &first, address))
			;
		while (address > last && !atomic_compare_exchange_weak(&last_block, &last, address))
			;
		return 1;
	}
	return 0;
}

/* Takes the policy of a block away while its owner has it still. True, with what was remembered, if it had one. */
static int unplace(void *memory, struct block *was)
{
	uintptr_t address = (uintptr_t)memory;
	if (__builtin_expect(address > last_block || address < first_block || !address, 1))
		return 0;
	struct block *set = set_of(address);
	for (unsigned at = 0; at < IN_SET; at++) {
		if (set[at].address != address)
			continue;
		was->from = set[at].from, was->to = set[at].to, was->name = set[at].name;
		int before = errno;
		if (on)
			lay_by_default(was->from, was->to, was->name);
		errno = before;
		set[at].address = 0;
		return 1;
	}
	return 0;
}

/* Places the whole pages of memory. `address`: the block whose end must be noticed; 0 if its policy ends with it. */
static void place_pages(uintptr_t address, uintptr_t from, uintptr_t to, unsigned name)
{
	int before = errno;
	if (from >= to)
		count(&counts->name[name].small, 1);
	else if (!has_room(name) || (address && !remember(address, from, to, name)))
		count(&counts->name[name].untracked, 1);
	else {
		count(&counts->name[name].blocks, 1);
		if (lay(from, to, name))
			count(&counts->name[name].bytes, to - from);
	}
	errno = before;
}

static void place(void *memory, size_t bytes, unsigned name, int tracked)
{
	uintptr_t address = (uintptr_t)memory;
	uintptr_t from = (address + plan.page - 1) & -plan.page, to = (address + bytes) & -plan.page;
	place_pages(tracked ? address : 0, from, to, name);
}

/* ---- names of allocations ---- */

struct walk {
	/* How many frames of each name have come. */
	unsigned char frames[MOST_NAMES];
	int name;
	unsigned seen;
};

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *data)
{
	struct walk *walk = data;
	int before_call = 0;
	uintptr_t at = _Unwind_GetIPInfo(context, &before_call);
	/* A return address is behind the call. */
	at -= !before_call;
	if (at >= plan.lowest && at < plan.highest)
		for (unsigned index = 0; index < plan.ranges; index++) {
			const struct range *range = &plan.range[index];
			/* By name and frame: a call that was inlined may be several frames. */
			if (at < range->from || at >= range->to || walk->frames[range->name] != range->frame)
				continue;
			if (++walk->frames[range->name] == plan.name[range->name].frames) {
				walk->name = range->name;
				return _URC_NORMAL_STOP;
			}
		}
	return ++walk->seen < MOST_FRAMES ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/* The name whose frames the call stack has, the one that ends innermost; -1 if none. */
static int name_of_stack(void)
{
	struct walk walk = {.name = -1};
	if (plan.ranges > 0)
		_Unwind_Backtrace(frame, &walk);
	return walk.name;
}

/* The name of a mapped file, as /proc/self/maps has it or by its last part; -1 if none. */
static int name_of_file(int file)
{
	char link[LINK] = "/proc/self/fd/", path[PATH_MAX];
	size_t end = strlen(link), digits = 1;
	for (int rest = file; rest >= 10; rest /= 10)
		digits++;
	for (size_t at = digits; at-- > 0; file /= 10)
		link[end + at] = '0' + file % 10;
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length <= 0)
		return -1;
	path[length] = '\0';
	const char *last = strrchr(path, '/');
	for (unsigned at = 0; at < plan.names; at++) {
		const char *name = plan.name[at].file;
		if (name && (strcmp(name, path) == 0 || (last && strcmp(name, last + 1) == 0)))
			return at;
	}
	return -1;
}

/* ---- the program's calls ---- */

/* Whether the program has an allocator of its own, of which no call comes here. */
static int has_foreign_allocator(void)
{
	void *(*volatile called)(size_t) = dlsym(RTLD_DEFAULT, "malloc");
	void (*volatile back)(void *) = dlsym(RTLD_DEFAULT, "free");
	unasked = 1;
	if (called && back)
		back(called(1));
	return unasked;
}

/* Reads the plan once there is an environment, and places the variables. */
static void begin(void)
{
	int no = 0, before = errno;
	const char *directory = environ ? secure_getenv("HOMING_PLACE") : NULL;
	if (!directory || !found() || !atomic_compare_exchange_strong(&begun, &no, 1))
		return;
	if (read_plan(directory, next.mmap)) {
		plan.foreign = plan.ranges > 0 && has_foreign_allocator();
		count(&counts->foreign_allocator, plan.foreign);
		for (unsigned at = 0; at < plan.variables; at++)
			place((void *)plan.variable[at].from, plan.variable[at].bytes, plan.variable[at].name, 0);
		on = 1;
	}
	errno = before;
}

/* When all libraries of the program are loaded; one of them may allocate before. What it loads later has no names. */
__attribute__((constructor)) static void at_start(void)
{
	begin();
}

/* Places a block that was just allocated, if its name is in the plan. */
static void place_new(void *memory, size_t bytes)
{
	if (!memory || bytes < plan.least || inside)
		return;
	if (!begun)
		begin();
	int name = on ? name_of_stack() : -1;
	if (name >= 0)
		place(memory, bytes, name, 1);
}

static void *none_yet(void)
{
	errno = ENOMEM;
	return NULL;
}

/* What `call` allocates; mappings that it makes are the allocator's. */
#define ALLOCATED(memory, call)                                                                                        \
	do {                                                                                                           \
		inside++;                                                                                              \
		memory = call;                                                                                         \
		inside--;                                                                                              \
	} while (0)

PUBLIC void *malloc(size_t bytes)
{
	void *memory;
	if (!found())
		return none_yet();
	unasked = 0;
	ALLOCATED(memory, next.malloc(bytes));
	place_new(memory, bytes);
	return memory;
}

PUBLIC void *calloc(size_t many, size_t each)
{
	void *memory;
	if (!found())
		return none_yet();
	ALLOCATED(memory, next.calloc(many, each));
	/* It would be none if the product did not fit. */
	place_new(memory, many * each);
	return memory;
}

PUBLIC void *memalign(size_t alignment, size_t bytes)
{
	void *memory;
	if (!found())
		return none_yet();
	ALLOCATED(memory, next.memalign(alignment, bytes));
	place_new(memory, bytes);
	return memory;
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *memory;
	if (!found())
		return none_yet();
	ALLOCATED(memory, next.aligned_alloc(alignment, bytes));
	place_new(memory, bytes);
	return memory;
}

PUBLIC int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	int error;
	if (!found())
		return ENOMEM;
	ALLOCATED(error, next.posix_memalign(memory, alignment, bytes));
	if (error == 0)
		place_new(*memory, bytes);
	return error;
}

PUBLIC void free(void *memory)
{
	struct block was;
	if (!found())
		return;
	unplace(memory, &was);
	next.free(memory);
}

/* A block that was placed and has grown keeps its placement, unless the stack of this call has a name of its own. */
static void *replaced(void *old, void *memory, size_t bytes, const struct block *was, int had)
{
	if (!memory) {
		/* The old block is as it was; of 0 bytes it was freed. */
		int before = errno;
		if (had && on && bytes > 0 && remember((uintptr_t)old, was->from, was->to, was->name))
			(void)(has_room(was->name) && lay(was->from, was->to, was->name));
		errno = before;
		return NULL;
	}
	int name = on && !inside && bytes >= plan.least ? name_of_stack() : -1;
	if (name < 0 && had && on)
		name = was->name;
	if (name >= 0)
		place(memory, bytes, name, 1);
	return memory;
}

PUBLIC void *realloc(void *old, size_t bytes)
{
	struct block was;
	void *memory;
	if (!found())
		return none_yet();
	int had = unplace(old, &was);
	ALLOCATED(memory, next.realloc(old, bytes));
	return replaced(old, memory, bytes, &was, had);
}

PUBLIC void *reallocarray(void *old, size_t many, size_t each)
{
	size_t bytes;
	if (__builtin_mul_overflow(many, each, &bytes))
		return none_yet();
	return realloc(old, bytes);
}

/* Memory that is no stack, and can be used: what cannot be yet is a reservation, which others will divide. */
static int is_memory(int protection, int flags)
{
	return flags & MAP_ANONYMOUS && !(flags & (MAP_STACK | MAP_GROWSDOWN)) && protection & PROT_WRITE;
}

PUBLIC void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
	if (!found())
		return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
	void *memory = next.mmap(address, bytes, protection, flags, file, offset);
	if (memory == MAP_FAILED || inside || !on)
		return memory;
	int before = errno, name = -1;
	if (!(flags & MAP_ANONYMOUS))
		name = plan.files && file >= 0 ? name_of_file(file) : -1;
	else if (is_memory(protection, flags) && bytes >= plan.least && !plan.foreign)
		name = name_of_stack();
	/* The policy ends with the mapping, whose last page is whole. */
	if (name >= 0)
		place(memory, (bytes + plan.page - 1) & -plan.page, name, 0);
	errno = before;
	return memory;
}

/* On 64-bit machines the same function under another name. */
PUBLIC void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
	__attribute__((alias("mmap")));

/* A program that is about to confine itself may be killed for what this library does: from here on it does nothing. A
   filter needs the first of these calls, unless the program is privileged. */
PUBLIC int prctl(int what, ...)
{
	va_list list;
	va_start(list, what);
	unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long);
	unsigned long c = va_arg(list, unsigned long), d = va_arg(list, unsigned long);
	va_end(list);
	if (on && (what == PR_SET_NO_NEW_PRIVS || what == PR_SET_SECCOMP)) {
		on = 0;
		count(&counts->confined, 1);
	}
	return found() ? next.prctl(what, a, b, c, d) : (int)syscall(SYS_prctl, what, a, b, c, d);
}
