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
 *   end PROGRAMS DEVICES             address spaces of the program; accesses to no node's memory
 */
#define _GNU_SOURCE
#include "observer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct counts reported_accesses[MOST_VCPUS], reported_misses[MOST_VCPUS];
static FILE *file;
static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int ending;
static struct timespec start;

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

int report_begin(void) {
    file = fdopen(options.out, "w");
    if (file == NULL) return -1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    fprintf(file, "begin %u %u\n", options.nvcpus, options.nnodes);
    return pthread_create(&thread, NULL, run, NULL);
}

void report_end(void) {
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    uint64_t devices = 0;
    fflush(file);
    if (options.pages) pages_report(options.out);
    for (unsigned i = 0; i < options.nvcpus; i++) {
        devices += vcpus[i].devices;
        if (vcpus[i].delayed != 0) fprintf(file, "d %u %lu\n", i, vcpus[i].delayed);
    }
    for (unsigned home = 0; options.busy_ns > 0 && home < options.nnodes; home++) {
        double waited = 0;
        for (unsigned i = 0; i < options.nvcpus; i++) waited += vcpus[i].waited[home];
        fprintf(file, "l %u %.0f\n", home, waited / options.delay_scale);
    }
    fprintf(file, "end %u %lu\n", spaces_programs(), devices);
    fclose(file);
}
