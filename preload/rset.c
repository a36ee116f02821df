/* Lays the memory and the threads of the program that this library is preloaded into over a resource set: what
   `homing rset exec` cannot do from outside. Large allocations get their pages by mbind(2), wherever they come from;
   the allocator stays as it is. Threads are bound to CPUs as they are made. docs/rset.md says what each policy does.

   It does nothing without HOMING_RSET in the environment, and whatever the kernel refuses is left at that: the program
   then has the policy that it was started with. A child after fork goes on as its parent. Programs with more rights
   than their user get no such library, since ld.so ignores it. */

#define _GNU_SOURCE
#include "confined.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { MOST_NODES = 1024, MOST_CPUS = 8192, WORD = 8 * sizeof(unsigned long) };
/* Each stripe is a mapping of its own, of which a process has 65530: an area gets at most this many, ... */
enum { AREA_STRIPES = 4096 };
/* ... and all areas together. */
enum { ALL_STRIPES = 16384 };

enum memory { FLOAT, LOCAL, REMOTE, STRIPED };

/* Nodes as the kernel's bit mask. */
struct nodes {
	unsigned long words[MOST_NODES / WORD];
};

/* What HOMING_RSET says; written once, before `ready`. */
static struct {
	enum memory memory;
	unsigned long stride, least, huge, page;
	struct nodes nodes;
	/* The nodes one by one. */
	unsigned short node[MOST_NODES];
	unsigned node_count;
	/* The CPU of each thread. */
	unsigned short cpu[MOST_CPUS];
	unsigned cpu_count;
	/* Filters of system calls that the program was started with. */
	unsigned long filters;
} set;

/* What comes behind this library: the program's own allocator, or the C library's. */
static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
} next;

/* Whether what comes next has been found, and what HOMING_RSET says is to be done. */
static _Atomic int have, on;
static _Atomic unsigned long threads;
/* Stripes that may be there, and the number at which the mappings are counted again: areas may have gone. */
static _Atomic unsigned long stripes, count_at = ALL_STRIPES;
static atomic_flag told = ATOMIC_FLAG_INIT;
/* Whether this thread is looking for what comes next, which may allocate. */
static __thread int looking __attribute__((tls_model("initial-exec")));
/* Whether this thread has its CPU. */
static __thread int placed __attribute__((tls_model("initial-exec")));

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
	next.posix_memalign = find("posix_memalign"), next.mmap = find("mmap");
	next.pthread_create = find("pthread_create"), next.prctl = find("prctl");
	looking = 0;
	have = 1;
	return 1;
}

/* ---- what the environment says ---- */

/* The number at `*text`, and what follows it. */
static unsigned long number(const char **text)
{
	char *end;
	unsigned long value = strtoul(*text, &end, 10);
	*text = end;
	return value;
}

/* A list of numbers below `most`, up to a blank; `-` for none. Gives how many. */
static unsigned list(const char **text, unsigned short *numbers, unsigned most)
{
	unsigned count = 0;
	if (**text == '-')
		return (*text)++, 0;
	for (;;) {
		const char *before = *text;
		unsigned long value = number(text);
		if (*text == before || value >= most)
			return count;
		if (count < most)
			numbers[count++] = value;
		if (**text != ',')
			return count;
		(*text)++;
	}
}

static int read_set(const char *text)
{
	static const char *const names[] = {"float", "local", "remote", "striped"};
	size_t length = strcspn(text, " ");
	unsigned which = 0;
	while (which < COUNT(names) && (strlen(names[which]) != length || strncmp(text, names[which], length) != 0))
		which++;
	if (which == COUNT(names))
		return 0;
	set.memory = which, text += length;
	set.stride = number(&text), set.least = number(&text), set.huge = number(&text);
	text += *text == ' ';
	set.node_count = list(&text, set.node, MOST_NODES);
	text += *text == ' ';
	set.cpu_count = list(&text, set.cpu, MOST_CPUS);
	set.filters = number(&text);
	set.page = sysconf(_SC_PAGESIZE);
	for (unsigned at = 0; at < set.node_count; at++)
		set.nodes.words[set.node[at] / WORD] |= 1UL << set.node[at] % WORD;
	return *text == '\0';
}

__attribute__((constructor)) static void begin(void)
{
	const char *text = secure_getenv("HOMING_RSET");
	if (!found() || !text || !read_set(text))
		return;
	/* Whoever confined this program may have it killed for a call that it does not make itself. */
	if (filters() > set.filters)
		return;
	on = 1;
	/* Each large allocation gets a mapping of its own, also when the program frees and allocates in turn. */
	if (set.memory != FLOAT && set.least >= set.page)
		mallopt(M_MMAP_THRESHOLD, set.least < INT32_MAX ? (int)set.least : INT32_MAX);
}

/* ---- threads ---- */

static unsigned node_here(void)
{
	unsigned cpu = 0, node = 0;
	syscall(SYS_getcpu, &cpu, &node, NULL);
	return node < MOST_NODES ? node : 0;
}

/* The nodes of the set but one. */
static struct nodes others(unsigned node)
{
	struct nodes nodes = set.nodes;
	nodes.words[node / WORD] &= ~(1UL << node % WORD);
	return nodes;
}

/* Binds the calling thread, which is number `index`, to its CPU. */
static void place(unsigned long index)
{
	cpu_set_t cpus[MOST_CPUS / CPU_SETSIZE];
	placed = 1;
	memset(cpus, 0, sizeof cpus);
	CPU_SET_S(set.cpu[index % set.cpu_count], sizeof cpus, cpus);
	if (sched_setaffinity(0, sizeof cpus, cpus) != 0 || set.memory != REMOTE)
		return;
	struct nodes remote = others(node_here());
	syscall(SYS_set_mempolicy, MPOL_BIND, &remote, MOST_NODES + 1UL);
}

/* The first thread gets its CPU when it stops being alone: until then it is where it likes, and programs that count the
   CPUs that they may use, or execute others, see the whole set. */
static void place_first(void)
{
	if (!placed && getpid() == (pid_t)syscall(SYS_gettid))
		place(0);
}

struct start {
	void *(*run)(void *);
	void *argument;
	unsigned long index;
};

static void *started(void *data)
{
	struct start start = *(struct start *)data;
	free(data);
	place(start.index);
	return start.run(start.argument);
}

/* Whether the program itself says on which CPUs the thread shall run. */
static int has_own_cpus(const pthread_attr_t *attributes)
{
	cpu_set_t cpus[MOST_CPUS / CPU_SETSIZE];
	if (!attributes || pthread_attr_getaffinity_np(attributes, sizeof cpus, cpus) != 0)
		return 0;
	/* All are set where nothing is said. */
	return (size_t)CPU_COUNT_S(sizeof cpus, cpus) < MOST_CPUS;
}

PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	if (!found())
		return EAGAIN;
	if (!on || set.cpu_count == 0)
		return next.pthread_create(thread, attributes, run, argument);
	place_first();
	unsigned long index = 1 + threads++;
	/* By whichever allocator comes first, whose `free` will take it back. */
	struct start *start = has_own_cpus(attributes) ? NULL : malloc(sizeof *start);
	if (!start)
		return next.pthread_create(thread, attributes, run, argument);
	*start = (struct start){run, argument, index};
	int error = next.pthread_create(thread, attributes, started, start);
	if (error)
		free(start);
	return error;
}

/* A program that is about to confine itself may be killed for what this library does: from here on it does nothing. A
   filter needs the first of these calls, unless the program is privileged. */
PUBLIC int prctl(int what, ...)
{
	va_list list;
	va_start(list, what);
	unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long);
	unsigned long c = va_arg(list, unsigned long), d = va_arg(list, unsigned long);
	va_end(list);
	if (what == PR_SET_NO_NEW_PRIVS || what == PR_SET_SECCOMP)
		on = 0;
	return found() ? next.prctl(what, a, b, c, d) : (int)syscall(SYS_prctl, what, a, b, c, d);
}

/* ---- memory ---- */

static int bind_to(uintptr_t from, size_t bytes, int mode, const struct nodes *nodes)
{
	return syscall(SYS_mbind, from, bytes, mode, nodes, MOST_NODES + 1UL, MPOL_MF_MOVE) == 0;
}

static int bind_to_node(uintptr_t from, size_t bytes, unsigned node)
{
	struct nodes one = {{0}};
	one.words[node / WORD] |= 1UL << node % WORD;
	/* Where the node is full another one is taken: the program would be killed else. */
	return bind_to(from, bytes, MPOL_PREFERRED, &one);
}

/* Says once that some area has other stripes than it was asked for. */
static void tell(size_t bytes, unsigned long stride)
{
	char text[256];
	if (atomic_flag_test_and_set(&told))
		return;
	int length = snprintf(text, sizeof text,
			      "homing: memory of %zu bytes has stripes of %lu instead of %lu bytes, since stripes are "
			      "mappings, of which a process has few; expected a larger --stride (said once)\n",
			      bytes, stride, set.stride);
	if (length > 0 && write(STDERR_FILENO, text, length) < 0)
		return;
}

/* Mappings of this process; 0 if the kernel does not say. */
static unsigned long mappings(void)
{
	char part[4096];
	unsigned long lines = 0;
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

/* Whether there is room for more stripes. */
static int has_room(size_t count)
{
	unsigned long now = atomic_fetch_add(&stripes, count) + count;
	if (now > count_at) {
		stripes = now = mappings() + count;
		count_at = now > ALL_STRIPES ? now + ALL_STRIPES / 4 : ALL_STRIPES;
	}
	return now <= ALL_STRIPES;
}

static void stripe(uintptr_t from, size_t bytes)
{
	size_t stride = set.stride;
	/* Stripes of a page are one mapping together. */
	if (stride <= set.page) {
		bind_to(from, bytes, MPOL_INTERLEAVE, &set.nodes);
		return;
	}
	while ((bytes + stride - 1) / stride > AREA_STRIPES)
		stride *= 2;
	if (!has_room((bytes + stride - 1) / stride)) {
		tell(bytes, set.page);
		bind_to(from, bytes, MPOL_INTERLEAVE, &set.nodes);
		return;
	}
	if (stride > set.stride)
		tell(bytes, stride);
	for (size_t at = 0, turn = 0; at < bytes; at += stride, turn++) {
		size_t piece = bytes - at < stride ? bytes - at : stride;
		bind_to_node(from + at, piece, set.node[turn % set.node_count]);
	}
}

static void bind_remote(uintptr_t from, size_t bytes)
{
	unsigned here;
	/* A thread that would come to the memory's node would have it local. */
	if (set.cpu_count > 0)
		place_first();
	here = node_here();
	struct nodes nodes = others(here);
	bind_to(from, bytes, MPOL_BIND, &nodes);
}

static void bind_local(uintptr_t from, size_t bytes)
{
	unsigned here = node_here();
	if (set.nodes.words[here / WORD] >> here % WORD & 1)
		bind_to_node(from, bytes, here);
	else
		bind_to(from, bytes, MPOL_BIND, &set.nodes);
}

/* Gives memory that was just allocated its pages. Errno stays. */
static void lay(void *memory, size_t bytes)
{
	if (!on || !memory || bytes < set.least)
		return;
	int before = errno;
	uintptr_t from = (uintptr_t)memory & -set.page;
	uintptr_t to = ((uintptr_t)memory + bytes + set.page - 1) & -set.page;
	if (set.huge && to - from >= set.huge)
		madvise((void *)from, to - from, MADV_HUGEPAGE);
	if (set.node_count > 0) {
		if (set.memory == STRIPED)
			stripe(from, to - from);
		else if (set.memory == REMOTE)
			bind_remote(from, to - from);
		else if (set.memory == LOCAL)
			bind_local(from, to - from);
	}
	errno = before;
}

static void *none_yet(void)
{
	errno = ENOMEM;
	return NULL;
}

PUBLIC void *malloc(size_t bytes)
{
	if (!found())
		return none_yet();
	void *memory = next.malloc(bytes);
	lay(memory, bytes);
	return memory;
}

PUBLIC void *calloc(size_t count, size_t each)
{
	if (!found())
		return none_yet();
	void *memory = next.calloc(count, each);
	/* It would be none if the product did not fit. */
	lay(memory, count * each);
	return memory;
}

PUBLIC void *realloc(void *old, size_t bytes)
{
	if (!found())
		return none_yet();
	void *memory = next.realloc(old, bytes);
	lay(memory, bytes);
	return memory;
}

PUBLIC void *memalign(size_t alignment, size_t bytes)
{
	if (!found())
		return none_yet();
	void *memory = next.memalign(alignment, bytes);
	lay(memory, bytes);
	return memory;
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes)
{
	if (!found())
		return none_yet();
	void *memory = next.aligned_alloc(alignment, bytes);
	lay(memory, bytes);
	return memory;
}

PUBLIC int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	if (!found())
		return ENOMEM;
	int error = next.posix_memalign(memory, alignment, bytes);
	if (error == 0)
		lay(*memory, bytes);
	return error;
}

/* Memory of the program's own that is not shared and of no file. What cannot be used yet is a reservation, which others
   will divide. */
static int is_memory(int protection, int flags)
{
	return flags & MAP_ANONYMOUS && flags & MAP_PRIVATE && !(flags & (MAP_STACK | MAP_GROWSDOWN)) &&
	       protection & PROT_WRITE;
}

PUBLIC void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
	if (!found())
		return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
	void *memory = next.mmap(address, bytes, protection, flags, file, offset);
	if (memory != MAP_FAILED && is_memory(protection, flags))
		lay(memory, bytes);
	return memory;
}

/* On 64-bit machines the same function under another name. */
PUBLIC void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
	__attribute__((alias("mmap")));
