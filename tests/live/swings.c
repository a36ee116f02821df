/* A program for which no placement is better than another: thread i, bound to CPU 2 * i, reads and writes PAGES pages
 * at random, and so do the others. Prints `ready` once all pages are there; ends on SIGTERM.
 *
 *   swings THREADS PAGES
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, MAX_THREADS = 64 };
static volatile sig_atomic_t told_to_end;
static volatile char *table;
static size_t pages;

static void on_signal(int signal) {
    (void)signal;
    told_to_end = 1;
}

static void *work(void *data) {
    size_t index = (size_t)data;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(2 * index, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) perror("sched_setaffinity"), exit(1);
    uint64_t random = 0x9e3779b97f4a7c15 * (index + 1);
    volatile char *start = table;
    size_t all = pages;
    while (!told_to_end)
        for (int use = 0; use < 1000; use++) { /* so that hardly another page is used */
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            start[random % all * PAGE + (random >> 40) % PAGE]++;
        }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return fputs("usage: swings THREADS PAGES\n", stderr), 2;
    size_t threads = strtoul(argv[1], NULL, 10);
    if (threads < 1 || threads > MAX_THREADS) return fputs("swings: 1 to 64 threads\n", stderr), 2;
    pages = strtoul(argv[2], NULL, 10);
    signal(SIGTERM, on_signal);
    table = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) return perror("mmap"), 1;
    for (size_t page = 0; page < pages; page++) table[page * PAGE] = 1;
    puts("ready"), fflush(stdout);
    pthread_t workers[MAX_THREADS];
    for (size_t i = 0; i < threads; i++) pthread_create(&workers[i], NULL, work, (void *)i);
    for (size_t i = 0; i < threads; i++) pthread_join(workers[i], NULL);
    return 0;
}
