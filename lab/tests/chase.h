/* Memory of one node, for a pointer chase through it. */
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINES = 4096 };

struct line {
    struct line *next;
    char unused[56];
};

/* A cycle through all lines in an order that jumps; 1237 has no divisor in common with their number. */
static struct line *cycle_on(unsigned node) {
    unsigned long mask = 1ul << node;
    struct line *lines =
        mmap(NULL, sizeof(struct line[LINES]), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED || syscall(SYS_mbind, lines, sizeof(struct line[LINES]), MPOL_BIND, &mask, 64, 0) != 0)
        perror("mbind"), exit(1);
    for (unsigned i = 0; i < LINES; i++) lines[i * 1237 % LINES].next = &lines[(i + 1) * 1237 % LINES];
    return lines;
}
