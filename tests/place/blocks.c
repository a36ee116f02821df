/* Allocates in several ways, at lines that are named and at others, and prints which memory policy the kernel has for
   each: a line of its own words, and the policy as /proc/self/numa_maps has it. The argument is a file to map. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline))
enum { SMALL = 64 << 10, LARGE = 1 << 20 };

char table[LARGE], beside[LARGE];

/* The policy of the page in the middle of a block. */
static void show(const char *what, const void *block, size_t bytes)
{
	char line[4096], policy[64] = "none", found[64] = "none";
	uintptr_t start, at = (uintptr_t)block + bytes / 2;
	FILE *file = fopen("/proc/self/numa_maps", "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "%lx %63s", &start, policy) == 2 && start <= at)
			strcpy(found, policy);
	if (file)
		fclose(file);
	printf("%s %s\n", what, found);
}

static void *same(void *block)
{
	__asm__ volatile("" : "+r"(block));
	return block;
}

APART static char *grid(size_t bytes)
{
	char *block = malloc(bytes); /* grid */
	return same(block);
}

APART static char *other(size_t bytes)
{
	char *block = malloc(bytes); /* other */
	return same(block);
}

APART static char *zeroed(size_t bytes)
{
	char *block = calloc(bytes, 1); /* zeroed */
	return same(block);
}

APART static char *aligned(size_t bytes)
{
	void *block = NULL;
	if (posix_memalign(&block, 1 << 16, bytes) != 0) /* aligned */
		return NULL;
	return same(block);
}

APART static char *mapped(size_t bytes)
{
	void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* mapped */
	return same(block);
}

APART static char *grown(char *block, size_t bytes)
{
	block = realloc(block, bytes); /* grown */
	return same(block);
}

static inline __attribute__((always_inline)) char *inner(size_t bytes)
{
	return malloc(bytes); /* inner */
}

APART static char *outer(size_t bytes)
{
	char *block = inner(bytes); /* outer */
	return same(block);
}

/* What was freed is reused by data of another name. */
static void reuse(size_t bytes)
{
	char *first = grid(bytes), *guard = other(64);
	memset(first, 1, bytes);
	show("placed", first, bytes);
	uintptr_t was = (uintptr_t)same(first);
	free(first);
	char *second = other(bytes);
	memset(second, 1, bytes);
	printf("reused %s\n", (uintptr_t)second == was ? "yes" : "no");
	show("other", second, bytes);
	free(second), free(guard);
}

int main(int count, char **words)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	show("table", table, sizeof table);
	show("beside", beside, sizeof beside);
	reuse(SMALL);
	reuse(LARGE);
	char *block = grid(LARGE);
	show("before", block, LARGE);
	block = grown(block, 64 * LARGE);
	block[32 * LARGE] = 1;
	show("grown", block, 64 * LARGE);
	free(block);
	block = grown(NULL, LARGE);
	show("alone", block, LARGE);
	block = zeroed(LARGE);
	show("zeroed", block, LARGE);
	free(block);
	block = aligned(LARGE);
	show("aligned", block, LARGE);
	free(block);
	block = mapped(LARGE);
	show("mapped", block, LARGE);
	munmap(block, LARGE);
	block = outer(LARGE);
	show("outer", block, LARGE);
	if (count > 1) {
		int file = open(words[1], O_RDWR);
		void *pages = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
		if (file < 0 || pages == MAP_FAILED)
			return 1;
		show("file", pages, LARGE);
	}
	if (fork() == 0) {
		block = grid(LARGE);
		show("child", block, LARGE);
		free(block);
		show("table", table, sizeof table);
		return 0;
	}
	wait(NULL);
	if (count > 2)
		kill(getpid(), SIGKILL);
	return 0;
}
