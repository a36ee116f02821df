/* Two processes on different nodes read one table in turn, which is shared memory, and each a table of its own. What
 * the observer calls the lowest non-local % must count the shared table once. With "slow" as argument the first process
 * computes for a while before it fills the table, as an initialisation does that grows late. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGES = 512, PAGE = 4096, ROUNDS = 60 };

static volatile uint64_t sum;

static void stay(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void compute(double seconds) {
    clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    while (clock() < end) sum++;
}

static void read_all(const char *table) {
    for (int round = 0; round < ROUNDS; round++)
        for (size_t at = 0; at < (size_t)PAGES * PAGE; at += 64) sum += table[at];
}

int main(int argc, char **argv) {
    char *shared = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *own = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || own == MAP_FAILED) return 1;
    stay(2);
    if (argc > 1 && strcmp(argv[1], "slow") == 0) compute(2);
    memset(shared, 1, PAGES * PAGE);
    for (int process = 0; process < 2; process++) {
        if (fork() != 0) continue;
        stay(2 * process);
        memset(own, 1, PAGES * PAGE);
        if (argc > 1) compute(1);
        read_all(shared);
        read_all(own);
        _exit(0);
    }
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    return bad != 0;
}
