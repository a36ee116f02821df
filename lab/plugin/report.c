/* What was counted, as lines of text to a descriptor: every interval what came in it, at the end what is only known
 * then.
 *
 *   begin VCPUS NODES
 *   a MS VCPU HOME READS WRITES      accesses since the last interval; MS: its end, since the machine was started
 *   m MS VCPU HOME READS WRITES      ... those that missed the cache
 *   p SPACE PAGE VCPU READS WRITES MISSES HOME      HOME: where this vCPU last found it
 *   s SPACE PAGE SPACE PAGE          two pages that are the same memory
 *   d VCPU NANOSECONDS               delays slept
 *   l HOME NANOSECONDS               waits at a memory under load, of all requests, without the scale of delays
 *   cut PROGRAMS DEVICES             the end of a window; what follows is of the next
 *   end PROGRAMS DEVICES             the end of the machine
 *
 * A window is a job: the host writes a byte for each when no process of the job is left and the next has not begun. p,
 * s, d and l come at its end. PROGRAMS are address spaces of the program, DEVICES accesses to no node's memory.
 */
#define _GNU_SOURCE
#include "observer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct counts reported_accesses[MOST_VCPUS], reported_misses[MOST_VCPUS];
static FILE *file;
static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int ending;
static struct timespec start;
/* What vCPUs had counted at the beginning of the window. */
static struct { uint64_t delayed, devices; double waited[MOST_NODES]; } before[MOST_VCPUS];

static void report(char kind, long ms, unsigned vcpu, const struct counts *now, struct counts *reported) {
    for (unsigned home = 0; home < options.nnodes; home++) {
        /* Written by the vCPU's thread meanwhile: read each once. */
        uint64_t reads = __atomic_load_n(&now->reads[home], __ATOMIC_RELAXED);
        uint64_t writes = __atomic_load_n(&now->writes[home], __ATOMIC_RELAXED);
        if (reads == reported->reads[home] && writes == reported->writes[home]) continue;
        fprintf(file, "%c %ld %u %u %lu %lu\n", kind, ms, vcpu, home, reads - reported->reads[home],
                writes - reported->writes[home]);
        reported->reads[home] = reads;
        reported->writes[home] = writes;
    }
}

static void tell_interval(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long ms = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
    for (unsigned i = 0; i < options.nvcpus; i++) {
        report('a', ms, i, &vcpus[i].accesses, &reported_accesses[i]);
        report('m', ms, i, &vcpus[i].misses, &reported_misses[i]);
    }
    card_tick();
    fflush(file);
}

static void *run(void *data) {
    (void)data;
    struct timespec next = start;
    pthread_mutex_lock(&lock);
    while (!ending) {
        next.tv_nsec += options.every_ms % 1000 * 1000000l;
        next.tv_sec += options.every_ms / 1000 + next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        pthread_cond_clockwait(&wake, &lock, CLOCK_MONOTONIC, &next);
        tell_interval();
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* What is only known at the end of a window, which `word` ends. */
static void tell_window(const char *word) {
    uint64_t devices = 0;
    double waited[MOST_NODES] = {0};
    fflush(file);
    if (options.pages) pages_report(options.out);
    for (unsigned i = 0; i < options.nvcpus; i++) {
        uint64_t delayed = vcpus[i].delayed - before[i].delayed;
        if (delayed != 0) fprintf(file, "d %u %lu\n", i, delayed);
        devices += vcpus[i].devices - before[i].devices;
        before[i].delayed = vcpus[i].delayed;
        before[i].devices = vcpus[i].devices;
        for (unsigned home = 0; home < options.nnodes; home++) {
            waited[home] += vcpus[i].waited[home] - before[i].waited[home];
            before[i].waited[home] = vcpus[i].waited[home];
        }
    }
    for (unsigned home = 0; options.busy_ns > 0 && home < options.nnodes; home++)
        fprintf(file, "l %u %.0f\n", home, waited[home] / options.delay_scale);
    fprintf(file, "%s %u %lu\n", word, spaces_programs(), devices);
    fflush(file);
}

/* Ends a window at each byte from the host. Nothing that counts runs then. */
static void *cut(void *data) {
    char byte;
    (void)data;
    while (read(options.cut, &byte, 1) == 1) {
        pthread_mutex_lock(&lock);
        if (!ending) {
            tell_interval();
            tell_window("cut");
            spaces_forget();
            if (options.pages) pages_forget();
            if (options.cache_bytes != 0) cache_forget();
            card_stop();
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int report_begin(void) {
    pthread_t cutter;
    file = fdopen(options.out, "w");
    if (file == NULL) return -1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    fprintf(file, "begin %u %u\n", options.nvcpus, options.nnodes);
    if (options.cut >= 0 && pthread_create(&cutter, NULL, cut, NULL) != 0) return -1;
    return pthread_create(&thread, NULL, run, NULL);
}

void report_end(void) {
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    tell_window("end");
    fclose(file);
}
