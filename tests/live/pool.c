/* A program whose memory is away from home and cannot move: PAGES huge pages of hugetlbfs, which has some on one node
 * only. One thread, bound to the CPU given, uses them, gives them back and takes them again, until SIGTERM. Prints
 * `ready` once all are there.
 *
 *   pool CPU PAGES
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t huge = 2 << 20;
static volatile sig_atomic_t told_to_end;

static void on_signal(int signal) {
    (void)signal;
    told_to_end = 1;
}

int main(int argc, char **argv) {
    if (argc != 3) return fputs("usage: pool CPU PAGES\n", stderr), 2;
    size_t pages = strtoul(argv[2], NULL, 10);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[1]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) return perror("sched_setaffinity"), 1;
    signal(SIGTERM, on_signal);
    volatile char *pool =
        mmap(NULL, pages * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (pool == MAP_FAILED) return perror("mmap of huge pages"), 1;
    for (unsigned round = 0; !told_to_end; round++) {
        for (size_t page = 0; page < pages; page++) pool[page * huge] = 1;
        if (round == 0) puts("ready"), fflush(stdout);
        usleep(1000000);
        if (madvise((void *)pool, pages * huge, MADV_DONTNEED) != 0) return perror("madvise"), 1;
    }
    return 0;
}
