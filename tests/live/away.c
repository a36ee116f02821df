/* A program whose memory is away from home: main, on CPU 0, fills `array`; then one thread, on the CPU given, works on
 * it until SIGTERM. Prints `ready` once that has begun. All its memory is locked, which keeps no page from moving.
 *
 *   away CPU
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WORDS = 1 << 19, STEP = 8 };

static volatile long array[WORDS] __attribute__((aligned(4096)));
static volatile sig_atomic_t told_to_end;

static void on_signal(int signal) {
    (void)signal;
    told_to_end = 1;
}

static void bind_to(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("sched_setaffinity"), exit(1);
}

static void *work(void *cpu) {
    bind_to(*(int *)cpu);
    puts("ready");
    fflush(stdout);
    while (!told_to_end)
        for (int i = 0; i < WORDS; i += STEP) array[i]++;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return fputs("usage: away CPU\n", stderr), 2;
    int cpu = atoi(argv[1]);
    signal(SIGTERM, on_signal);
    bind_to(0);
    for (int i = 0; i < WORDS; i++) array[i] = i;
    if (mlockall(MCL_CURRENT) != 0) return perror("mlockall"), 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, &cpu) != 0) return fputs("away: no thread\n", stderr), 1;
    pthread_join(thread, NULL);
    return 0;
}
