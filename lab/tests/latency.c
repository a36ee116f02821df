/* A pointer chase by one CPU through memory of each of several nodes in turn: how much slower is the way to a far node?
 *
 *   latency CPU NODE...   prints for each node: NODE, nanoseconds a step (the least of all rounds), ratio to the first
 * NODE
 *
 * The nodes take turns round by round, every round takes about as long, and the least of many rounds counts: so other
 * load of the host, and the portions in which delays are slept, weigh on all alike.
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINES = 4096, ROUNDS = 25, PILOT = 2000, ROUND_NS = 20000000, MOST_NODES = 32 };

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

static double step_ns(struct line **at, int steps) {
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    struct line *line = *at;
    for (register int n = steps; n != 0; n--) __asm__ volatile("movq (%0), %0" : "+r"(line)::"memory");
    clock_gettime(CLOCK_MONOTONIC, &after);
    *at = line;
    return ((after.tv_sec - before.tv_sec) * 1e9 + (after.tv_nsec - before.tv_nsec)) / steps;
}

int main(int argc, char **argv) {
    struct line *at[MOST_NODES];
    double least[MOST_NODES];
    int steps[MOST_NODES];
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    if (argc < 3 || argc > MOST_NODES + 2) return 2;
    CPU_SET(atoi(argv[1]), &cpu);
    if (sched_setaffinity(0, sizeof cpu, &cpu) != 0) perror("sched_setaffinity"), exit(1);
    for (int i = 0; i < argc - 2; i++) {
        at[i] = cycle_on(atoi(argv[i + 2]));
        least[i] = 1e18;
        steps[i] = ROUND_NS / step_ns(&at[i], PILOT);
        if (steps[i] < PILOT / 10) steps[i] = PILOT / 10;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < argc - 2; i++) {
            double ns = step_ns(&at[i], steps[i]);
            if (ns < least[i]) least[i] = ns;
        }
    for (int i = 0; i < argc - 2; i++) printf("%s %.0f %.3f\n", argv[i + 2], least[i], least[i] / least[0]);
    return 0;
}
