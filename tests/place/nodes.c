/* Makes two arrays, one thread fills both, and the program prints how many MiB of each are on nodes 0 and 1, in the
   first and in the second half. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 8 << 20, PAGE = 4096, HALF = 1 << 19 };

__attribute__((noinline)) static char *new_grid(void)
{
	char *grid = malloc(BYTES); /* grid */
	memset(grid, 1, BYTES);
	return grid;
}

__attribute__((noinline)) static char *new_other(void)
{
	char *other = malloc(BYTES);
	memset(other, 2, BYTES);
	return other;
}

static void show(const char *what, char *from, size_t bytes)
{
	static void *pages[BYTES / PAGE];
	static int nodes[BYTES / PAGE];
	size_t count = 0, on[2] = {0, 0};
	char *first = (char *)(((size_t)from + PAGE - 1) & -(size_t)PAGE);
	for (char *page = first; page + PAGE <= from + bytes; page += PAGE)
		pages[count++] = page;
	if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) != 0)
		exit(1);
	for (size_t at = 0; at < count; at++)
		if (nodes[at] == 0 || nodes[at] == 1)
			on[nodes[at]]++;
	printf("%s %zu %zu\n", what, (on[0] * PAGE + HALF) >> 20, (on[1] * PAGE + HALF) >> 20);
}

int main(void)
{
	char *grid = new_grid(), *other = new_other();
	show("first", grid, BYTES / 2);
	show("second", grid + BYTES / 2, BYTES / 2);
	show("other", other, BYTES);
	free(grid);
	char *again = new_other();
	show("again", again, BYTES);
	return 0;
}
