/* A pointer chase by one CPU through memory of each of several nodes in turn: how much slower is the way to a far node?
 *
 *   latency CPU NODE...   prints for each node: NODE, nanoseconds a step (the least of all rounds), ratio to the first
 * NODE
 *
 * The nodes take turns round by round, every round takes about as long, and the least of many rounds counts: so other
 * load of the host, and the portions in which delays are slept, weigh on all alike.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "chase.h"

enum { ROUNDS = 25, PILOT = 2000, ROUND_NS = 20000000, MOST_NODES = 32 };

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
