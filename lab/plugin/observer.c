/* The observer's options, what it instruments, and the path of an access. */
#define _GNU_SOURCE
#include "observer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

EXPORT int qemu_plugin_version = 3;

struct vcpu vcpus[MOST_VCPUS];
/* The vCPU whose thread this is. */
static __thread struct vcpu *mine;
struct options options = {.out = -1, .cut = -1, .every_ms = 100, .cache_ways = 8, .card = -1, .trace = -1};

/* Delays are slept in portions of this many nanoseconds: a sleep costs more than a remote access. */
static const double PORTION = 200e3;

static unsigned home_of(uint64_t physical) {
    for (unsigned i = 0; i < options.nranges; i++)
        if (physical >= options.ranges[i].start && physical < options.ranges[i].end) return options.ranges[i].node;
    return NO_NODE;
}

/* The translation that the guest's own TLB holds; looked up in QEMU when this vCPU has not used it since its last
   flush. */
static struct mapping *map(struct vcpu *vcpu, mem_info info, uint64_t address) {
    uint64_t virtual_page = address >> PAGE_SHIFT;
    struct mapping *mapping = &vcpu->mappings[virtual_page % MAPPINGS];
    if (mapping->virtual_page == virtual_page + 1) return mapping;
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
    if (where == NULL) return NULL;
    mapping->virtual_page = virtual_page + 1;
    mapping->physical = qemu_plugin_hwaddr_phys_addr(where) & ~((1ull << PAGE_SHIFT) - 1);
    mapping->home = qemu_plugin_hwaddr_is_io(where) ? NO_NODE : home_of(mapping->physical);
    mapping->page = NULL;
    return mapping;
}

static void delay(struct vcpu *vcpu, unsigned home) {
    double wait;
    __atomic_load(&load_waits[vcpu - vcpus][home], &wait, __ATOMIC_RELAXED);
    vcpu->waited[home] += wait;
    vcpu->debt += options.latency[vcpu->node][home] * options.delay_scale + wait;
    if (vcpu->debt < PORTION) return;
    struct timespec before, after, sleep = {.tv_sec = 0, .tv_nsec = (long)vcpu->debt};
    if (vcpu->debt > 900e6) sleep.tv_nsec = 900000000;
    clock_gettime(CLOCK_MONOTONIC, &before);
    nanosleep(&sleep, NULL);
    clock_gettime(CLOCK_MONOTONIC, &after);
    double slept = (after.tv_sec - before.tv_sec) * 1e9 + (after.tv_nsec - before.tv_nsec);
    /* What was slept too long (the host was busy) is credit, but no more than a portion: a stall of the host is not the
       program's. */
    vcpu->debt -= slept;
    if (vcpu->debt < -PORTION) vcpu->debt = -PORTION;
    vcpu->delayed += slept;
}

static inline void on_access(unsigned index, mem_info info, uint64_t address, int write) {
    struct vcpu *vcpu = &vcpus[index];
    int counting = vcpu->counting;
    if (!counting && !card_sees_all()) return;
    struct mapping *mapping = map(vcpu, info, address);
    if (mapping == NULL || mapping->home == NO_NODE) {
        if (counting) vcpu->devices++;
        return;
    }
    unsigned home = mapping->home;
    uint64_t physical = mapping->physical | (address & ((1 << PAGE_SHIFT) - 1));
    int miss = options.cache_bytes == 0 || cache_misses(vcpu, physical, write);
    if (counting) {
        (write ? vcpu->accesses.writes : vcpu->accesses.reads)[home]++;
        if (miss && options.cache_bytes != 0) (write ? vcpu->misses.writes : vcpu->misses.reads)[home]++;
        if (options.pages) {
            if (mapping->page == NULL) {
                mapping->page = pages_find(vcpu, address >> PAGE_SHIFT);
                pages_meet(vcpu, mapping->page, mapping->physical);
            }
            mapping->page->home = home;
            *(write ? &mapping->page->writes : &mapping->page->reads) += 1;
            mapping->page->misses += miss;
        }
        if (options.trace >= 0)
            trace_put(index, options.trace_physical ? physical : address, qemu_plugin_mem_size_shift(info), write);
        if (miss && options.delay_scale > 0) delay(vcpu, home);
    }
    if (miss && card_runs()) card_transaction(vcpu, physical, home, write);
}

static void on_read(unsigned vcpu, mem_info info, uint64_t address, void *data) {
    (void)data;
    on_access(vcpu, info, address, 0);
}

static void on_write(unsigned vcpu, mem_info info, uint64_t address, void *data) {
    (void)data;
    on_access(vcpu, info, address, 1);
}

/* Whether no access of a block will ever be counted: each would cost a call, and make the engine slow. */
static int is_left_alone(struct qemu_plugin_tb *tb) {
    if (options.all || options.card >= 0 || mine == NULL) return 0;
    return spaces_of_engine(mine, qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)));
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb) {
    (void)id;
    int alone = is_left_alone(tb);
    size_t count = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        uint8_t bytes[16] = {0};
        size_t length = qemu_plugin_insn_data(insn, bytes, sizeof bytes);
        spaces_instrument(insn, address, bytes, length);
        if (alone || (address >> 63 && !options.kernel)) continue;
        qemu_plugin_register_vcpu_mem_cb(insn, on_read, CB_NO_REGS, MEM_READ, NULL);
        qemu_plugin_register_vcpu_mem_cb(insn, on_write, CB_NO_REGS, MEM_WRITE, NULL);
    }
    spaces_instrument_entry(tb);
}

static void on_vcpu(plugin_id id, unsigned index) {
    (void)id;
    if (index >= MOST_VCPUS) return;
    struct vcpu *vcpu = mine = &vcpus[index];
    spaces_begin_vcpu(vcpu);
    if (options.cache_bytes != 0) cache_begin_vcpu(vcpu);
    /* Sleeps of this thread end when they should. */
    prctl(PR_SET_TIMERSLACK, 1000ul);
}

static void on_end(plugin_id id, void *data) {
    (void)id;
    (void)data;
    load_end();
    trace_end();
    report_end();
}

/* "0.0.255.1": the node of each vCPU; 255 for one that is not there. */
static void parse_vcpus(const char *text) {
    unsigned ncpus = 0;
    for (char *end; *text != 0 && options.nvcpus < MOST_VCPUS; text = *end == '.' ? end + 1 : end) {
        unsigned node = strtoul(text, &end, 10);
        vcpus[options.nvcpus].present = node != NO_NODE;
        vcpus[options.nvcpus].cpu = ncpus;
        ncpus += node != NO_NODE;
        vcpus[options.nvcpus++].node = node;
        if (end == text) return;
    }
}

/* "START-END:NODE;...": the nodes' physical memory, in hexadecimal; the node is decimal. */
static void parse_ranges(const char *text) {
    while (*text != 0 && options.nranges < MOST_RANGES) {
        unsigned long long start, end;
        unsigned node;
        int used = 0;
        if (sscanf(text, "%llx-%llx:%u%n", &start, &end, &node, &used) != 3) return;
        options.ranges[options.nranges].start = start;
        options.ranges[options.nranges].end = end;
        options.ranges[options.nranges++].node = node;
        text += used + (text[used] == ';');
    }
}

/* "80;150;150;80": nanoseconds, row by row. */
static void parse_latency(const char *text) {
    char *end;
    for (unsigned i = 0; i < options.nnodes * options.nnodes && *text != 0; i++) {
        options.latency[i / options.nnodes][i % options.nnodes] = strtod(text, &end);
        text = *end == ';' ? end + 1 : end;
    }
}

static int parse(const char *argument) {
    const char *value = strchr(argument, '=');
    size_t length = value == NULL ? 0 : (size_t)(value++ - argument);
#define IS(name) (length == sizeof name - 1 && strncmp(argument, name, length) == 0)
    if (IS("out")) options.out = atoi(value);
    else if (IS("cut")) options.cut = atoi(value);
    else if (IS("every")) options.every_ms = atoi(value);
    else if (IS("kernel")) options.kernel = atoi(value);
    else if (IS("pages")) options.pages = atoi(value);
    else if (IS("marked")) options.marked = atoi(value);
    else if (IS("all")) options.all = atoi(value);
    else if (IS("cache")) options.cache_bytes = atol(value);
    else if (IS("ways")) options.cache_ways = atoi(value);
    else if (IS("scale")) options.delay_scale = strtod(value, NULL);
    else if (IS("busy")) options.busy_ns = strtod(value, NULL);
    else if (IS("card")) options.card = atoi(value);
    else if (IS("trace")) options.trace = atoi(value);
    else if (IS("physical")) options.trace_physical = atoi(value);
    else if (IS("nodes")) options.nnodes = atoi(value);
    else if (IS("vcpus")) parse_vcpus(value);
    else if (IS("ranges")) parse_ranges(value);
    else if (IS("latency")) parse_latency(value);
    else if (IS("entry")) return spaces_entry(value);
    else return -1;
#undef IS
    return 0;
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        if (parse(argv[i]) == 0) continue;
        fprintf(stderr, "observer: cannot understand `%s`\n", argv[i]);
        return -1;
    }
    if (!info->system_emulation || options.nnodes == 0 || options.nnodes > MOST_NODES || options.nvcpus == 0 ||
        options.nranges == 0) {
        fprintf(stderr, "observer: expected a whole machine, and vcpus, nodes and ranges among the options\n");
        return -1;
    }
    if (options.cache_bytes != 0) cache_begin();
    if (options.pages) pages_begin();
    if (card_begin() != 0 || trace_begin() != 0 || load_begin() != 0 || report_begin() != 0) {
        fprintf(stderr, "observer: cannot begin: %s\n", strerror(errno));
        return -1;
    }
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}
