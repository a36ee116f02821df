/* A program whose best placement is known: main fills all memory (so it begins where main runs, on the node of CPU 0),
 * then thread i, bound to CPU i (modulo the CPUs), works on its own band alone. Bands lie side by side: where pages are
 * huge, several share one. At the end (after SECONDS, or at SIGTERM) every word is checked.
 *
 *   bands THREADS PAGES SECONDS [SHIFT]     PAGES each; at SIGUSR1 thread i goes on to CPU i + SHIFT (modulo THREADS)
 *   bands THREADS PAGES SECONDS free        threads may run on any CPU
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lab/guest/homing_section.h"
#include "bound.h"

enum { MAX_THREADS = 1024, WORDS_A_PAGE = 512, STEP = 8 };

static struct {
    unsigned long threads, pages, shift;
    double seconds;
    int free;
} job;

struct band {
    pthread_t thread;
    unsigned long index, rounds;
    uint64_t *words;
};

static volatile sig_atomic_t told_to_end, told_to_shift;

static void on_signal(int signal) {
    if (signal == SIGTERM) told_to_end = 1;
    else told_to_shift = 1;
}

/* One word of each cache line counts the rounds. */
static void *work(void *data) {
    struct band *band = data;
    double begin = now();
    int shifted = 0;
    if (job.free) bind_to_all();
    else bind_to(band->index);
    for (double spent = 0; spent < job.seconds && !told_to_end; spent = now() - begin) {
        if (told_to_shift && !shifted) bind_to((band->index + job.shift) % job.threads), shifted = 1;
        for (unsigned long i = 0; i < job.pages * WORDS_A_PAGE; i += STEP) band->words[i]++;
        band->rounds++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc > 5) return fputs("usage: bands THREADS PAGES SECONDS [SHIFT]\n", stderr), 2;
    job.threads = strtoul(argv[1], NULL, 10), job.pages = strtoul(argv[2], NULL, 10);
    job.seconds = strtod(argv[3], NULL), job.shift = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    job.free = argc > 4 && strcmp(argv[4], "free") == 0;
    if (job.threads < 1 || job.threads > MAX_THREADS) return fputs("bands: 1 to 1024 threads\n", stderr), 2;
    signal(SIGTERM, on_signal), signal(SIGUSR1, on_signal);
    static struct band bands[MAX_THREADS];
    size_t bytes = job.pages * 4096;
    bind_to(0);
    char *all = mmap(NULL, job.threads * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return perror("mmap"), 1;
    for (unsigned long i = 0; i < job.threads; i++) {
        uint64_t *words = (uint64_t *)(all + i * bytes);
        for (unsigned long w = 0; w < job.pages * WORDS_A_PAGE; w++) words[w] = i * bytes + w;
        bands[i] = (struct band){.index = i, .words = words};
    }
    HOMING_SECTION_BEGIN();
    for (unsigned long i = 0; i < job.threads; i++) pthread_create(&bands[i].thread, NULL, work, &bands[i]);
    unsigned long wrong = 0, rounds = 0;
    for (unsigned long i = 0; i < job.threads; i++) pthread_join(bands[i].thread, NULL);
    HOMING_SECTION_END();
    for (unsigned long i = 0; i < job.threads; i++) {
        rounds += bands[i].rounds;
        for (unsigned long w = 0; w < job.pages * WORDS_A_PAGE; w++)
            wrong += bands[i].words[w] != i * bytes + w + (w % STEP == 0 ? bands[i].rounds : 0);
    }
    printf("rounds=%lu wrong=%lu\n", rounds, wrong);
    return wrong != 0;
}
