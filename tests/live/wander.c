/* Threads that wander: each sweeps memory of its own, and every second main sends those that may run anywhere to the
 * next node, as a scheduler would. A thread that somebody keeps on some CPUs is left there. Prints `ready` at first.
 *
 *   wander THREADS SECONDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "bound.h"

enum { MAX_THREADS = 64, WORDS = 64 * 512, STEP = 8 };

static volatile uint64_t memory[MAX_THREADS][WORDS] __attribute__((aligned(4096)));
static volatile pid_t threads[MAX_THREADS];
static volatile sig_atomic_t told_to_end;

static void on_signal(int signal) {
    (void)signal;
    told_to_end = 1;
}

static void *work(void *place) {
    long self = (long)place;
    threads[self] = syscall(SYS_gettid);
    while (!told_to_end)
        for (int i = 0; i < WORDS; i += STEP) memory[self][i]++;
    return NULL;
}

/* To another CPU, for a moment bound to it; then it may go anywhere again. */
static void send(pid_t thread, unsigned long cpu, const cpu_set_t *all) {
    cpu_set_t now, one;
    if (sched_getaffinity(thread, sizeof now, &now) != 0 || !CPU_EQUAL(&now, all)) return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(thread, sizeof one, &one);
    usleep(20000);
    /* Somebody may have kept it just now. */
    if (sched_getaffinity(thread, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one))
        sched_setaffinity(thread, sizeof *all, all);
}

int main(int argc, char **argv) {
    int count = argc == 3 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MAX_THREADS) return fputs("usage: wander THREADS SECONDS\n", stderr), 2;
    double end = now() + atof(argv[2]);
    signal(SIGTERM, on_signal);
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    unsigned long cpus = CPU_COUNT(&all);
    pthread_t ids[MAX_THREADS];
    for (long i = 0; i < count; i++)
        if (pthread_create(&ids[i], NULL, work, (void *)i) != 0) return fputs("wander: no thread\n", stderr), 1;
    for (int i = 0; i < count; i++)
        while (threads[i] == 0) usleep(1000);
    puts("ready");
    fflush(stdout);
    for (unsigned long turn = 1; !told_to_end && now() < end; turn++) {
        sleep(1);
        /* The next node has other CPUs by two. */
        for (int i = 0; i < count; i++) send(threads[i], (2 * (i + turn)) % cpus, &all);
    }
    told_to_end = 1;
    for (int i = 0; i < count; i++) pthread_join(ids[i], NULL);
    return 0;
}
