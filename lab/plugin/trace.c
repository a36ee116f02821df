/* The accesses themselves, in the order in which the vCPUs made them: a ring that all vCPUs write to and one thread
 * empties into a descriptor. An access takes a number, which is its place in the order, and waits if the ring is full:
 * nothing is lost. One word each:
 *
 *   bit 0: 1   bit 1: write   bits 2-4: log2 of the size   bits 8-15: vCPU   bits 16-63: the low 48 bits of the address
 */
#define _GNU_SOURCE
#include "observer.h"

#include <sched.h>
#include <unistd.h>

enum { SLOTS = 1 << 16 };

static uint64_t slots[SLOTS];
static uint64_t taken, emptied; /* numbers given out; numbers written out */
static int ending, broken;
static pthread_t thread;

void trace_put(unsigned vcpu, uint64_t address, unsigned size_shift, int write) {
    uint64_t number = __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    while (number - __atomic_load_n(&emptied, __ATOMIC_ACQUIRE) >= SLOTS) sched_yield();
    uint64_t word = address << 16 | (uint64_t)vcpu << 8 | (size_shift & 7) << 2 | (write ? 2 : 0) | 1;
    __atomic_store_n(&slots[number % SLOTS], word, __ATOMIC_RELEASE);
}

static void put_out(const uint64_t *words, size_t bytes) {
    for (const char *at = (const char *)words; bytes > 0 && !broken;) {
        ssize_t written = write(options.trace, at, bytes);
        /* Nobody reads any more: the machine runs on, and the reader tells that it stopped. */
        if (written <= 0) broken = 1;
        at += written;
        bytes -= written;
    }
}

static void *run(void *data) {
    static uint64_t words[8192];
    (void)data;
    for (;;) {
        size_t count = 0;
        int last = __atomic_load_n(&ending, __ATOMIC_ACQUIRE);
        while (count < sizeof words / sizeof *words) {
            uint64_t *slot = &slots[(emptied + count) % SLOTS];
            uint64_t word = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
            if (word == 0) break;
            words[count++] = word;
            *slot = 0;
        }
        put_out(words, count * sizeof *words);
        __atomic_store_n(&emptied, emptied + count, __ATOMIC_RELEASE);
        if (count == 0 && last) return NULL;
        if (count == 0) usleep(200);
    }
}

int trace_begin(void) { return options.trace < 0 ? 0 : pthread_create(&thread, NULL, run, NULL); }

void trace_end(void) {
    if (options.trace < 0) return;
    __atomic_store_n(&ending, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    close(options.trace);
}
