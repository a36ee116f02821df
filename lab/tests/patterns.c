/* Access patterns whose counts are known: each runs in a section of its own, by one thread bound to a CPU, on 1 MiB of
 * one node's memory. For machines with at least 16 pairs of CPU and node.
 *
 *   patterns CPUS NODE...   prints for each pattern: NAME CPU NODE READS WRITES
 *
 * An access is what the processor's instruction does in the emulator: 16 bytes at once are one, each element of a
 * string instruction is one, a number of ten bytes is two, an atomic operation is a read and a write, and an access
 * across the end of a page is one. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../guest/homing_section.h"

enum { BYTES = 1 << 20, HALF = BYTES / 2, LINE = 64, LINES = BYTES / LINE };

/* A pattern that does one thing at MEMORY + AT, AT growing by STEP, so often; all but that is in registers. */
#define PATTERN(name, step, code, ...)                                                                                 \
    static void name(char *memory, long count) {                                                                       \
        unsigned long at = 0;                                                                                          \
        for (register long left = count; left != 0; left--, at = (at + (step)) % BYTES)                                \
            __asm__ volatile(code::"r"(memory), "r"(at) : "memory", ##__VA_ARGS__);                                    \
    }

PATTERN(strided, 4096 + LINE, "movl (%0,%1), %%eax", "eax")
PATTERN(bytes, 1, "movb (%0,%1), %%al", "al")
PATTERN(vector_reads, 16, "movdqu (%0,%1), %%xmm0", "xmm0")
PATTERN(vector_writes, 16, "movntdq %%xmm0, (%0,%1)")
PATTERN(added, LINE, "addq $1, (%0,%1)", "cc")
PATTERN(atomic_added, LINE, "lock addq $1, (%0,%1)", "cc")
PATTERN(exchanged, LINE, "xchgq %%rax, (%0,%1)", "rax")
PATTERN(compared, 16, "lock cmpxchg16b (%0,%1)", "rax", "rdx", "cc")
PATTERN(page_crossing_reads, 0, "movq 4092(%0,%1), %%rax", "rax")
PATTERN(page_crossing_writes, 0, "movq %%rax, 4092(%0,%1)")
PATTERN(long_doubles, 16, "fldt (%0,%1)\n\tfstpt (%0,%1)")
PATTERN(prefetched, LINE, "prefetcht0 (%0,%1)\n\tmovb (%0,%1), %%al", "al")

static void chased(char *memory, long count) {
    for (long i = 0; i < LINES; i++)
        *(char **)(memory + i * 1237 % LINES * LINE) = memory + (i + 1) * 1237 % LINES * LINE;
    HOMING_SECTION_BEGIN();
    for (register long left = count; left != 0; left--) __asm__ volatile("movq (%0), %0" : "+r"(memory)::"memory");
}

static void strings(char *memory, long count) {
    for (register long left = count; left != 0; left--) {
        char *from = memory, *to = memory + HALF;
        long words = HALF / 8;
        __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(words)::"memory");
    }
}

/* The C library's, by 16 bytes on a processor without AVX. */
static void set(char *memory, long count) {
    for (register long left = count; left != 0; left--) memset(memory, (int)left, BYTES);
}

static void copied(char *memory, long count) {
    for (register long left = count; left != 0; left--) memcpy(memory, memory + HALF, HALF);
}

static const struct pattern {
    const char *name;
    void (*run)(char *, long);
    long count, reads, writes; /* the latter for each of `count` */
} patterns[] = {
    {"strided", strided, 1000000, 1, 0},
    {"bytes", bytes, 1000000, 1, 0},
    {"chased", chased, 1000000, 1, 0},
    {"vector-reads", vector_reads, 1000000, 1, 0},
    {"vector-writes", vector_writes, 1000000, 0, 1},
    {"added", added, 500000, 1, 1},
    {"atomic-added", atomic_added, 500000, 1, 1},
    {"exchanged", exchanged, 500000, 1, 1},
    {"compared", compared, 500000, 1, 1},
    {"page-crossing-reads", page_crossing_reads, 500000, 1, 0},
    {"page-crossing-writes", page_crossing_writes, 500000, 0, 1},
    {"long-doubles", long_doubles, 250000, 2, 2},
    {"prefetched", prefetched, 500000, 1, 0},
    {"strings", strings, 8, HALF / 8, HALF / 8},
    {"memset", set, 8, 0, BYTES / 16},
    {"memcpy", copied, 16, HALF / 16, HALF / 16},
};

struct job {
    const struct pattern *pattern;
    int cpu, node;
};

static void *run(void *data) {
    const struct job *job = data;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(job->cpu, &cpu);
    unsigned long mask = 1ul << job->node;
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sched_setaffinity(0, sizeof cpu, &cpu) != 0) perror("sched_setaffinity"), exit(1);
    if (memory == MAP_FAILED || syscall(SYS_mbind, memory, BYTES, MPOL_BIND, &mask, 64, 0) != 0)
        perror("mbind"), exit(1);
    memset(memory, 0, BYTES);
    /* What prepares its memory first begins its section itself. */
    if (job->pattern->run != chased) HOMING_SECTION_BEGIN();
    job->pattern->run(memory, job->pattern->count);
    HOMING_SECTION_END();
    return NULL;
}

int main(int argc, char **argv) {
    int cpus = argc < 3 ? 0 : atoi(argv[1]), nodes = argc - 2;
    int count = sizeof patterns / sizeof *patterns;
    if (cpus * nodes < count)
        return fprintf(stderr, "usage: patterns CPUS NODE...: at least %d pairs of them\n", count), 2;
    for (int i = 0; i < count; i++) {
        struct job job = {&patterns[i], i % cpus, atoi(argv[2 + i / cpus])};
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, &job) != 0) return 1;
        pthread_join(thread, NULL);
        printf("%s %d %d %ld %ld\n", job.pattern->name, job.cpu, job.node, job.pattern->count * job.pattern->reads,
               job.pattern->count * job.pattern->writes);
    }
    return 0;
}
