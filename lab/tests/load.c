/* Pointer chases by several CPUs at once, each of STEPS reads through memory of one node: how long do they wait for
 * each other? Prints the seconds from the first read to the last.
 *
 *   load STEPS NODE...    thread i runs on CPU 2 i and reads memory of the i-th NODE
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "../guest/homing_section.h"
#include "chase.h"

enum { MOST_THREADS = 16 };

static struct work {
    unsigned cpu;
    struct line *lines;
} all[MOST_THREADS];
static long steps;
static pthread_barrier_t barrier;

static void *run(void *data) {
    struct work *work = data;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(work->cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("sched_setaffinity"), exit(1);
    struct line *line = work->lines;
    pthread_barrier_wait(&barrier);
    for (register long n = steps; n != 0; n--) __asm__ volatile("movq (%0), %0" : "+r"(line)::"memory");
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > MOST_THREADS + 2) return fputs("usage: load STEPS NODE...\n", stderr), 2;
    unsigned threads = argc - 2;
    steps = atol(argv[1]);
    pthread_t threads_of[MOST_THREADS];
    struct timespec before, after;
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        all[i] = (struct work){2 * i, cycle_on(atoi(argv[2 + i]))};
        pthread_create(&threads_of[i], NULL, run, &all[i]);
    }
    HOMING_SECTION_BEGIN();
    pthread_barrier_wait(&barrier);
    clock_gettime(CLOCK_MONOTONIC, &before);
    pthread_barrier_wait(&barrier);
    clock_gettime(CLOCK_MONOTONIC, &after);
    HOMING_SECTION_END();
    for (unsigned i = 0; i < threads; i++) pthread_join(threads_of[i], NULL);
    printf("%.3f\n", (after.tv_sec - before.tv_sec) + (after.tv_nsec - before.tv_nsec) / 1e9);
    return 0;
}
