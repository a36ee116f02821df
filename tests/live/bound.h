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

/* To a CPU (modulo the CPUs), for the calling thread. */
static inline void bind_to(unsigned long cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("sched_setaffinity"), exit(1);
}
