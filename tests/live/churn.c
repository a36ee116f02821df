/* A program that is hard to move pages of: threads map, fill, check, remap and unmap memory at random, start threads,
 * fork children that check what they inherited and end at once, and children that execute another program. Every word
 * is checked.
 *
 *   churn THREADS SECONDS [SEED]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REGIONS = 24, MOST_PAGES = 96, WORDS_A_PAGE = 512, MAX_THREADS = 64 };

struct region {
    uint64_t *words, seed;
    size_t pages;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    struct region regions[REGIONS];
    unsigned long maps, forks, execs, threads, wrong;
};

static const char *program;
static double end;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static uint64_t next(uint64_t *random) {
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random;
}

static uint64_t word(const struct region *region, size_t i) {
    return (region->seed + i) * 0x9e3779b97f4a7c15u;
}

static unsigned long check(const struct region *region) {
    unsigned long wrong = 0;
    for (size_t i = 0; region->words && i < region->pages * WORDS_A_PAGE; i++)
        wrong += region->words[i] != word(region, i);
    return wrong;
}

static void drop(struct region *region) {
    if (region->words) munmap(region->words, region->pages * 4096);
    region->words = NULL;
}

static void fill(struct region *region, uint64_t seed, size_t pages) {
    *region = (struct region){.seed = seed, .pages = pages};
    region->words = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region->words == MAP_FAILED) perror("mmap"), exit(3);
    for (size_t i = 0; i < pages * WORDS_A_PAGE; i++) region->words[i] = word(region, i);
}

static void regrow(struct region *region, size_t pages) {
    void *words = mremap(region->words, region->pages * 4096, pages * 4096, MREMAP_MAYMOVE);
    if (words == MAP_FAILED) perror("mremap"), exit(3);
    size_t from = region->pages < pages ? region->pages : pages;
    region->words = words, region->pages = pages;
    for (size_t i = from * WORDS_A_PAGE; i < pages * WORDS_A_PAGE; i++) region->words[i] = word(region, i);
}

/* A child that checks what it inherited, or executes another program, and ends. */
static unsigned long child(struct worker *worker, int other) {
    pid_t pid = fork();
    if (pid == 0) {
        if (other) execl(program, "churn", "leaf", (char *)NULL), _exit(9);
        unsigned long wrong = 0;
        for (int i = 0; i < REGIONS; i++) wrong += check(&worker->regions[i]);
        _exit(wrong != 0);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return perror("fork"), 1;
    return status != 0;
}

static void *brief(void *data) {
    struct region region;
    fill(&region, (uintptr_t)data, 8);
    uintptr_t wrong = check(&region);
    drop(&region);
    return (void *)wrong;
}

static unsigned long thread_in_between(uint64_t seed) {
    pthread_t thread;
    void *wrong;
    if (pthread_create(&thread, NULL, brief, (void *)(uintptr_t)seed) != 0) return 1;
    pthread_join(thread, &wrong);
    return (uintptr_t)wrong;
}

static void *work(void *data) {
    struct worker *worker = data;
    while (now() < end) {
        uint64_t random = next(&worker->random);
        struct region *region = &worker->regions[random % REGIONS];
        size_t pages = 1 + (random >> 20) % MOST_PAGES;
        switch ((random >> 40) % 64) {
        case 0: worker->wrong += child(worker, 0), worker->forks++; break;
        case 1: worker->wrong += child(worker, 1), worker->execs++; break;
        case 2: case 3: worker->wrong += thread_in_between(random), worker->threads++; break;
        case 4: case 5: case 6: case 7: case 8: case 9: case 10: case 11:
            if (region->words) regrow(region, pages);
            break;
        case 12: case 13: case 14: case 15: case 16: case 17: case 18: case 19:
            drop(region), fill(region, random, pages), worker->maps++;
            break;
        default: worker->wrong += check(region);
        }
    }
    for (int i = 0; i < REGIONS; i++) worker->wrong += check(&worker->regions[i]), drop(&worker->regions[i]);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "leaf") == 0) return brief((void *)1) != NULL;
    if (argc < 3 || argc > 4) return fputs("usage: churn THREADS SECONDS [SEED]\n", stderr), 2;
    static struct worker workers[MAX_THREADS];
    unsigned long threads = strtoul(argv[1], NULL, 10), seed = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    if (threads < 1 || threads > MAX_THREADS) return fputs("churn: 1 to 64 threads\n", stderr), 2;
    program = "/proc/self/exe", end = now() + strtod(argv[2], NULL);
    for (unsigned long i = 0; i < threads; i++) {
        workers[i].random = (seed * MAX_THREADS + i + 1) * 0x9e3779b97f4a7c15u;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    struct worker sum = {0};
    for (unsigned long i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        sum.maps += workers[i].maps, sum.forks += workers[i].forks, sum.execs += workers[i].execs;
        sum.threads += workers[i].threads, sum.wrong += workers[i].wrong;
    }
    printf("maps=%lu forks=%lu execs=%lu threads=%lu wrong=%lu\n", sum.maps, sum.forks, sum.execs, sum.threads,
           sum.wrong);
    return sum.wrong != 0;
}
