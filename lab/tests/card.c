/* Drives the monitor card (docs/monitor-card.md) and checks all that it says: region counters and secondary counters of
 * known accesses, an event at a threshold, samples against /proc/self/pagemap, a queue that runs over. For a machine
 * whose CPU 0 is of node 0 and whose CPU 2 is of node 1, with huge pages. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../plugin/card.h"

enum { HUGE = 2 << 20, PAGES = HUGE / 4096 };

static volatile struct card *card;
static int failed;

static void check(const char *what, long found, long expected, long slack) {
    int good = found >= expected - slack && found <= expected + slack;
    printf("%s: %ld, expected %ld%s\n", what, found, expected, good ? "" : "  WRONG");
    failed |= !good;
}

static long number_in(const char *directory, const char *name) {
    char path[512], text[32] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", directory, name);
    int fd = open(path, O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) < 0) text[0] = 0;
    close(fd);
    return strtol(text, NULL, 0);
}

static volatile struct card *find_card(void) {
    DIR *devices = opendir("/sys/bus/pci/devices");
    char path[512];
    for (struct dirent *entry; devices != NULL && (entry = readdir(devices)) != NULL;) {
        if (number_in(entry->d_name, "vendor") != 0x1af4 || number_in(entry->d_name, "device") != 0x1110) continue;
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/enable", entry->d_name);
        int fd = open(path, O_WRONLY);
        if (fd < 0 || write(fd, "1", 1) != 1) perror(path), exit(1);
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource2", entry->d_name);
        fd = open(path, O_RDWR);
        void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, CARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) perror(path), exit(1);
        return memory;
    }
    puts("there is no card");
    exit(1);
}

/* A huge page on a node. */
static char *buffer_on(unsigned node) {
    unsigned long mask = 1ul << node;
    char *memory = aligned_alloc(HUGE, HUGE);
    if (memory == NULL || syscall(SYS_mbind, memory, HUGE, MPOL_BIND, &mask, 64, 0) != 0) perror("mbind"), exit(1);
    madvise(memory, HUGE, MADV_HUGEPAGE);
    memset(memory, 1, HUGE);
    return memory;
}

static uint64_t physical(const volatile char *address) {
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    if (pread(fd, &entry, 8, (uintptr_t)address / 4096 * 8) != 8) perror("pagemap"), exit(1);
    close(fd);
    return (entry & ((1ull << 55) - 1)) * 4096 | ((uintptr_t)address & 4095);
}

/* On a CPU: reads and writes one word of each of some pages so often. */
struct work {
    unsigned cpu;
    char *memory;
    int first, last;
    long reads, writes, more_reads_each;
};

static void *run(void *data) {
    struct work *work = data;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(work->cpu, &cpu);
    if (sched_setaffinity(0, sizeof cpu, &cpu) != 0) perror("sched_setaffinity"), exit(1);
    long reads = work->reads;
    for (int i = work->first; i < work->last; i++, reads += work->more_reads_each) {
        char *page = work->memory + i * 4096l;
        for (register long n = reads; n != 0; n--) __asm__ volatile("movq (%0), %%rax" ::"r"(page) : "rax", "memory");
        for (register long n = work->writes; n != 0; n--) __asm__ volatile("movq %%rax, (%0)" ::"r"(page) : "memory");
    }
    return NULL;
}

static void work(struct work work) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, &work);
    pthread_join(thread, NULL);
}

static void set_filter(int index, uint64_t start, uint64_t granularity, uint64_t types, uint64_t base,
                       uint64_t requesters) {
    volatile struct card_filter *filter = &card->filters[index];
    filter->start = start;
    filter->size = HUGE;
    filter->granularity = granularity;
    filter->types = types;
    filter->base = base;
    filter->requesters = requesters;
    filter->homes = 0;
}

static void check_counters(char *near, char *far) {
    enum { READS = CARD_LOCAL_READ | CARD_REMOTE_READ, WRITES = CARD_LOCAL_WRITE | CARD_REMOTE_WRITE };
    set_filter(0, physical(near), 4096, 0, 0, 0);
    set_filter(1, physical(far), HUGE, READS, 1000, 0);
    set_filter(2, physical(far), HUGE, WRITES, 1001, 0);
    set_filter(31, physical(near), HUGE, 0, 1002, 1 << 1);
    card->filters_on = 1ull << 31 | 7;
    card->secondaries[0].regions = 7;
    card->secondaries[0].types = CARD_REMOTE_READ | CARD_REMOTE_WRITE;
    card->thresholds[5] = 100;
    card->control = CARD_RUN;
    work((struct work){.cpu = 0, .memory = near, .last = PAGES, .reads = 3, .more_reads_each = 3});
    work((struct work){.cpu = 2, .memory = near, .first = 5, .last = 6, .writes = 1000});
    work((struct work){.cpu = 2, .memory = far, .first = 9, .last = 10, .reads = 7000});
    work((struct work){.cpu = 0, .memory = far, .first = 9, .last = 10, .writes = 5000});
    card->control = 0;
    long wrong = 0;
    for (int i = 0; i < PAGES; i++) wrong += card->counters[i] != (uint64_t)(3 * (i + 1) + (i == 5 ? 1000 : 0));
    check("counters of pages that are wrong", wrong, 0, 0);
    check("reads of the far region", card->counters[1000], 7000, 0);
    check("writes of the far region", card->counters[1001], 5000, 0);
    check("transactions of node 1 in the near region", card->counters[1002], 1000, 0);
    check("remote ones of three regions", card->secondaries[0].count, 6000, 0);
    check("events", card->event_head, 1, 0);
    check("counter of the event", card->events[0].counter, 5, 0);
    card->filters_on = 0;
}

/* Samples of one buffer against where the page tables say that it is. */
static void check_samples(char *memory, unsigned cpu, unsigned node, uint64_t read_type) {
    enum { EACH = 300, PERIOD = 97 };
    card->sample_start = physical(memory);
    card->sample_size = HUGE;
    card->period = PERIOD;
    card->tail = card->head;
    uint64_t first = card->head, last_time = 0;
    card->control = CARD_RUN | CARD_SAMPLE | CARD_PROGRAM;
    work((struct work){.cpu = cpu, .memory = memory, .last = PAGES, .reads = EACH, .writes = EACH});
    card->control = 0;
    long wrong = 0, reads = 0, count = card->head - first;
    for (uint64_t n = first; n < card->head; n++) {
        volatile struct card_sample *sample = &card->samples[n % CARD_SAMPLES];
        uint64_t offset = sample->address - physical(memory);
        int good = offset < HUGE && physical(memory + offset) == sample->address && offset % 4096 == 0 &&
                   sample->number == n + 1 && sample->cpu == cpu && sample->home == node && sample->time >= last_time &&
                   (sample->type == read_type || sample->type == read_type << 1);
        wrong += !good;
        reads += sample->type == read_type;
        last_time = sample->time;
    }
    check("samples", count, 2l * EACH * PAGES / PERIOD, 1);
    check("of reads", reads, count / 2, count / 50);
    check("that are wrong", wrong, 0, 0);
    check("lost", card->lost, 0, 0);
    card->tail = card->head;
}

int main(void) {
    card = find_card();
    check("identity", card->id, CARD_ID, 0);
    check("nodes", card->nodes, 2, 0);
    char *near = buffer_on(0), *far = buffer_on(1);
    if (physical(near + HUGE - 4096) - physical(near) != HUGE - 4096) return puts("no huge page"), 1;
    check_counters(near, far);
    check_samples(near, 0, 0, CARD_LOCAL_READ);
    check_samples(far, 0, 1, CARD_REMOTE_READ);
    check_samples(near, 2, 0, CARD_REMOTE_READ);
    /* Eight entries deep and nobody reads, as the bus monitors of Tikir & Hollingsworth. */
    card->depth = 8;
    uint64_t first = card->head;
    card->period = 1;
    card->control = CARD_RUN | CARD_SAMPLE;
    work((struct work){.cpu = 0, .memory = near, .last = 1, .reads = 1000});
    card->control = 0;
    check("samples that an eight-deep queue kept", card->head - first, 8, 0);
    check("lost", card->lost, 992, 1);
    return failed;
}
