/* Reads the plan of libhoming-place.so, which `homing run --place` has written (homing-live/src/place/words.rs). */

#define _GNU_SOURCE
#include "place.h"
#include "confined.h"
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* How a plan begins. */
#define HEAD "homing-place 1 "

struct plan plan;
struct counts *counts;

typedef void *map_fn(void *, size_t, int, int, int, off_t);

/* The number at `*text`, and what follows it. */
static unsigned long number(const char **text, int base)
{
	char *end;
	unsigned long value = strtoul(*text, &end, base);
	*text = end;
	return value;
}

/* A list of numbers below `most`; `-` for none. Gives how many. */
static unsigned list(const char **text, unsigned short *numbers, unsigned most)
{
	unsigned count = 0;
	while (**text == ' ' || **text == '-')
		if (*(*text)++ == '-')
			return 0;
	do {
		unsigned long value = number(text, 10);
		if (value < most && count < MOST_NODES)
			numbers[count++] = value;
	} while (*(*text)++ == ',');
	(*text)--;
	return count;
}

static void read_name(const char *text, struct name *name)
{
	name->how = number(&text, 10), name->frames = number(&text, 10);
	name->count = list(&text, name->node, MOST_NODES);
	unsigned weights = list(&text, name->weight, USHRT_MAX);
	for (unsigned at = 0; at < name->count; at++)
		name->all.words[name->node[at] / WORD] |= 1UL << name->node[at] % WORD;
	for (unsigned at = 0; at < weights; at++)
		name->weights += name->weight[at];
	/* What homing writes has both, and as many of one as of the other. */
	if (name->count == 0 || (name->how == WEIGHTED && (weights != name->count || name->weights == 0)))
		name->frames = 0, name->count = 1, name->how = NODE;
}

/* Code of a frame, or a variable, of a module that is in this process. */
static void read_range(const char *text, int is_variable)
{
	unsigned long name = number(&text, 10), frame = number(&text, 10), at = number(&text, 10);
	unsigned long from = number(&text, 16), to = number(&text, 16);
	const struct module *module = &plan.module[at];
	if (name >= plan.names || at >= plan.modules || !module->there)
		return;
	from += module->bias, to += module->bias;
	if (is_variable) {
		if (plan.variables < plan.most_variables)
			plan.variable[plan.variables++] = (struct variable){from, to - from, name};
	} else if (plan.ranges < plan.most_ranges) {
		plan.range[plan.ranges++] = (struct range){from, to, name, frame};
		plan.lowest = from < plan.lowest ? from : plan.lowest;
		plan.highest = to > plan.highest ? to : plan.highest;
	}
}

/* One line of the plan. */
static void read_line(char *line)
{
	const char *text = line + 1;
	unsigned long of;
	switch (*line) {
	case 'm':
		if (plan.modules < MOST_MODULES) {
			struct module *module = &plan.module[plan.modules++];
			module->device = number(&text, 10), module->inode = number(&text, 10);
		}
		return;
	case 'n':
		if (plan.names < MOST_NAMES)
			read_name(text, &plan.name[plan.names++]);
		return;
	case 'f':
		of = number(&text, 10);
		if (of < plan.names && *text == ' ')
			plan.name[of].file = text + 1, plan.files = 1;
		return;
	case 'r':
	case 'v':
		read_range(text, *line == 'v');
	}
}

/* Where the modules of the plan are in this process. */
static int loaded(struct dl_phdr_info *info, size_t size, void *data)
{
	struct stat facts;
	(void)size, (void)data;
	if (stat(info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe", &facts) != 0)
		return 0;
	for (unsigned at = 0; at < plan.modules; at++) {
		struct module *module = &plan.module[at];
		if (module->device == facts.st_dev && module->inode == facts.st_ino && !module->there)
			module->bias = info->dlpi_addr, module->there = 1;
	}
	return 0;
}

/* Memory of at least this many bytes, all of them 0. */
static void *room(size_t bytes, map_fn *map)
{
	void *memory = map(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* A file of a directory: mapped to be shared if `flags` is O_RDWR, else copied, with a 0 behind it. NULL if there is
   none of at least `least` bytes. */
static char *contents(const char *directory, const char *name, int flags, size_t least, map_fn *map)
{
	char path[PATH_MAX], *text = NULL;
	struct stat facts;
	if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
		return NULL;
	int file = open(path, flags | O_CLOEXEC);
	if (file < 0)
		return NULL;
	if (fstat(file, &facts) == 0 && (size_t)facts.st_size >= least) {
		size_t bytes = facts.st_size;
		if (flags == O_RDWR) {
			text = map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
			text = text == MAP_FAILED ? NULL : text;
		} else if ((text = room(bytes, map)) && read(file, text, bytes) != facts.st_size)
			text = NULL;
	}
	close(file);
	return text;
}

/* The lines of the plan: modules and names, or all others, for which it must be known where the modules are. */
static void read_lines(char *text, int first)
{
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (first == (*line == 'm' || *line == 'n'))
			read_line(line);
		/* Names of files end here from now on. */
		if (first)
			*end = '\n';
	}
}

int read_plan(const char *directory, map_fn *map)
{
	char *text = contents(directory, "plan", O_RDONLY, sizeof HEAD, map);
	counts = (struct counts *)contents(directory, "counts", O_RDWR, sizeof *counts, map);
	if (!text || !counts || strncmp(text, HEAD, sizeof HEAD - 1) != 0)
		return 0;
	const char *head = text + sizeof HEAD - 1;
	plan.page = sysconf(_SC_PAGESIZE);
	plan.least = number(&head, 10), plan.filters = number(&head, 10);
	plan.most_ranges = number(&head, 10), plan.most_variables = number(&head, 10);
	plan.range = room(plan.most_ranges * sizeof *plan.range, map);
	plan.variable = room(plan.most_variables * sizeof *plan.variable, map);
	plan.lowest = UINTPTR_MAX;
	counts->processes++;
	/* Whoever confined this program may have it killed for a call that it does not make itself. */
	if (filters() > plan.filters) {
		counts->confined++;
		return 0;
	}
	if (!plan.range || !plan.variable)
		return 0;
	read_lines(text, 1);
	dl_iterate_phdr(loaded, NULL);
	read_lines(text, 0);
	return 1;
}
