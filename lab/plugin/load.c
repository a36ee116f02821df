/* What requests wait for each other: every memory serves one at a time and is busy for options.busy_ns with each (times
 * the scale of delays). Waits follow from the last moments' requests, as in the model of a machine's time
 * (docs/memory-system.md, "Time"): a memory that is used for u of the time, o of that by others than the requester,
 * lets it wait busy * o / (2 (1 - u)). That is M/D/1, but that nobody waits for itself. Waits slow requesters down, and
 * so lower u: K vCPUs of which each makes a request every C = Z + w, w the mean of what requests wait, are solved
 * together; there is one such C.
 *
 * A queue of real requests, one by one, would not do: the host runs the vCPUs in turns, so that their requests come in
 * bursts which the machine would not make.
 */
#define _GNU_SOURCE
#include "observer.h"

#include <string.h>
#include <time.h>

/* How often waits are found anew, and how much of the figures before is kept then. */
static const long PERIOD_NS = 20000000;
static const double KEPT = 0.5;
/* Requests of a period below which memories have no load. */
static const double FEWEST = 20;
/* A vCPU's own part of a cycle is at least this share of it: where waits begin in the middle of a period, the cycle has
   less than a whole one. */
static const double LEAST_OWN = 0.1;

double load_waits[MOST_VCPUS][MOST_NODES];

typedef double matrix[MOST_VCPUS][MOST_NODES];

static pthread_t thread;
static int ending;
static uint64_t before[MOST_VCPUS][MOST_NODES];
static matrix requests, parts, waits;
static double busy_ns;

/* The requests since the last time; their sum. */
static double count(void) {
    double all = 0;
    for (unsigned i = 0; i < options.nvcpus; i++) {
        struct counts *counts = options.cache_bytes != 0 ? &vcpus[i].misses : &vcpus[i].accesses;
        for (unsigned home = 0; home < options.nnodes; home++) {
            uint64_t now = __atomic_load_n(&counts->reads[home], __ATOMIC_RELAXED) +
                           __atomic_load_n(&counts->writes[home], __ATOMIC_RELAXED);
            all += requests[i][home] = now - before[i][home];
            before[i][home] = now;
        }
    }
    return all;
}

/* What requests wait if `rate` of them come each nanosecond, `parts` of them each vCPU's to each memory: the mean. More
   than any number where they come faster than they can be served. */
static double waits_at(double rate) {
    double mean = 0;
    for (unsigned home = 0; home < options.nnodes; home++) {
        double u = 0;
        for (unsigned i = 0; i < options.nvcpus; i++) u += parts[i][home] * rate * busy_ns;
        if (u >= 1) return 1e300;
        for (unsigned i = 0; i < options.nvcpus; i++) {
            double others = u - parts[i][home] * rate * busy_ns;
            waits[i][home] = busy_ns * others / (2 * (1 - u));
            mean += parts[i][home] * waits[i][home];
        }
    }
    return mean;
}

/* The waits of requesters that take `own` nanoseconds of a cycle for themselves. */
static void solve(double own, double requesters) {
    double low = own, high = 2 * own + requesters * busy_ns;
    while (waits_at(requesters / high) > high - own) high *= 2;
    for (int round = 0; round < 50; round++) {
        double cycle = (low + high) / 2;
        if (waits_at(requesters / cycle) > cycle - own) low = cycle;
        else high = cycle;
    }
    waits_at(requesters / high);
}

static double elapsed_ns(struct timespec *since) {
    struct timespec now, last = *since;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *since = now;
    return (now.tv_sec - last.tv_sec) * 1e9 + (now.tv_nsec - last.tv_nsec);
}

/* One period's requests make the waits of the next. */
static void renew(double elapsed, double *own, double *requesters) {
    double all = count(), who = 0, waited = 0;
    if (all < FEWEST) {
        *own = 0;
        memset(waits, 0, sizeof waits);
    } else {
        double kept = *own == 0 ? 0 : KEPT;
        for (unsigned i = 0; i < options.nvcpus; i++) {
            double of_vcpu = 0;
            for (unsigned home = 0; home < options.nnodes; home++) {
                of_vcpu += requests[i][home];
                waited += requests[i][home] * load_waits[i][home];
                parts[i][home] = kept * parts[i][home] + (1 - kept) * requests[i][home] / all;
            }
            who += of_vcpu > 0;
        }
        double cycle = elapsed * who / all, rest = cycle - waited / all;
        if (rest < LEAST_OWN * cycle) rest = LEAST_OWN * cycle;
        *own = kept * *own + (1 - kept) * rest;
        *requesters = kept * *requesters + (1 - kept) * who;
        solve(*own, *requesters);
    }
    for (unsigned i = 0; i < options.nvcpus; i++)
        for (unsigned home = 0; home < options.nnodes; home++)
            __atomic_store(&load_waits[i][home], &waits[i][home], __ATOMIC_RELAXED);
}

static void *run(void *data) {
    (void)data;
    struct timespec last, period = {.tv_nsec = PERIOD_NS};
    double own = 0, requesters = 0;
    clock_gettime(CLOCK_MONOTONIC, &last);
    while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
        nanosleep(&period, NULL);
        renew(elapsed_ns(&last), &own, &requesters);
    }
    return NULL;
}

int load_begin(void) {
    busy_ns = options.busy_ns * options.delay_scale;
    return busy_ns > 0 ? pthread_create(&thread, NULL, run, NULL) : 0;
}

void load_end(void) {
    if (busy_ns <= 0) return;
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}
