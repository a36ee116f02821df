/* A program whose memory accesses are known: each thread, bound to a CPU, reads and writes pages that it has moved
 * where it wants them.
 *
 *   known CPU:NODE:READS:WRITES...   one thread each, in turn; 8-byte accesses to 64 pages on NODE by CPU
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../guest/homing_section.h"

enum { MPOL_MF_MOVE = 2, PAGES = 64, WORDS = PAGES * 4096 / 8 };

struct job {
    unsigned cpu, node;
    unsigned long reads, writes;
};

static void *run(void *data) {
    struct job *job = data;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(job->cpu, &cpu);
    if (sched_setaffinity(0, sizeof cpu, &cpu) != 0) perror("sched_setaffinity"), exit(1);
    volatile uint64_t *words = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *pages[PAGES];
    int nodes[PAGES], moved[PAGES], status[PAGES], astray = 0;
    for (int i = 0; i < PAGES; i++) words[i * 512] = 1, pages[i] = (void *)&words[i * 512], nodes[i] = job->node;
    if (syscall(SYS_move_pages, 0, PAGES, pages, nodes, moved, MPOL_MF_MOVE) != 0) perror("move_pages"), exit(1);
    if (syscall(SYS_move_pages, 0, PAGES, pages, NULL, status, 0) != 0) perror("move_pages"), exit(1);
    for (int i = 0; i < PAGES; i++) astray += moved[i] != nodes[i] || status[i] != nodes[i];
    if (astray != 0) printf("%d pages are not on node %u\n", astray, job->node), exit(1);
    /* The loops keep everything else in registers: one access a round. */
    HOMING_SECTION_BEGIN();
    uint64_t index = 0;
    for (register unsigned long n = job->reads; n != 0; n--) {
        __asm__ volatile("movq (%0,%1,8), %%rax" ::"r"(words), "r"(index) : "rax");
        index = (index + 8) % WORDS;
    }
    for (register unsigned long n = job->writes; n != 0; n--) {
        __asm__ volatile("movq %1, (%0,%1,8)" ::"r"(words), "r"(index) : "memory");
        index = (index + 8) % WORDS;
    }
    HOMING_SECTION_END();
    return NULL;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct job job;
        pthread_t thread;
        if (sscanf(argv[i], "%u:%u:%lu:%lu", &job.cpu, &job.node, &job.reads, &job.writes) != 4) return 2;
        pthread_create(&thread, NULL, run, &job);
        pthread_join(thread, NULL);
    }
    puts("done");
    return 0;
}
