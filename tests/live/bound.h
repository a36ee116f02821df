/* What test programs share that work on CPUs of their own: a clock, and binding. Include it below _GNU_SOURCE. */
#pragma once
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* To `count` CPUs, the first of which is `cpu`, for the calling thread. */
static inline void bind_to_some(unsigned long cpu, unsigned long count) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (unsigned long i = 0; i < count; i++) CPU_SET(cpu + i, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("sched_setaffinity"), exit(1);
}

/* To a CPU (modulo the CPUs), for the calling thread. */
static inline void bind_to(unsigned long cpu) { bind_to_some(cpu % sysconf(_SC_NPROCESSORS_ONLN), 1); }

/* To any CPU, for the calling thread. */
static inline void bind_to_all(void) { bind_to_some(0, sysconf(_SC_NPROCESSORS_ONLN)); }
