/* The observer: a QEMU plugin that counts the memory accesses of the lab's virtual machine (docs/lab.md, "The
 * observer").
 *
 * One vCPU is one thread of QEMU; everything in struct vcpu is written by that thread alone, so the hot path takes no
 * lock.
 */
#ifndef HOMING_OBSERVER_H
#define HOMING_OBSERVER_H

#include "qemu.h"

#include <pthread.h>

enum {
    MOST_NODES = 32,
    MOST_VCPUS = 128,
    MOST_RANGES = 64,
    MOST_PROGRAMS = 64,
    ENTRY_BYTES = 48,
    PAGE_SHIFT = 12,
    LINE_SHIFT = 6,
    MAPPINGS = 1024, /* of a vCPU's translation cache */
    NO_NODE = 255,
    MOST_TWINS = 4, /* of a page, as each vCPU sees it: enough to join all that share it */
};

/* What happened to one kind of access: to which home, reads and writes. */
struct counts {
    uint64_t reads[MOST_NODES], writes[MOST_NODES];
};

/* Accesses of one vCPU to one page of one address space. */
struct page {
    uint64_t space, number; /* of the address space; of the virtual page */
    uint64_t reads, writes, misses;
    unsigned home;     /* when this vCPU last looked its place up */
    uint64_t frame;    /* where this vCPU last found it */
    unsigned ntwins;   /* pages of other address spaces that were found in the same frame, and the frame */
    struct { uint64_t space, number, frame; } twins[MOST_TWINS];
    struct page *next; /* of the same hash */
};

/* A virtual page as this vCPU last saw it: what a hardware TLB holds, and dropped when the guest drops that. */
struct mapping {
    uint64_t virtual_page; /* plus 1: 0 is none */
    uint64_t physical;     /* address of the page */
    unsigned home;
    struct page *page;
};

struct vcpu {
    int present;
    unsigned cpu;          /* the number that the guest knows it by */
    unsigned node;
    volatile int counting; /* the address space in use is the program's (and its marked section runs) */
    uint64_t space;        /* the address space in use: CR3 without its flags */
    int program_marked;    /* this system call has come past the program's mark */
    struct counts accesses, misses;
    uint64_t devices;      /* accesses to no memory of a node */
    double debt;           /* nanoseconds of delay not yet slept */
    uint64_t delayed;      /* nanoseconds slept */
    double waited[MOST_NODES]; /* nanoseconds of delay that were waits at each memory, scaled */
    uint64_t until_sample; /* misses to come before the card takes its next sample */
    struct mapping mappings[MAPPINGS];
    struct line *lines;    /* the cache, if one is modelled */
    struct page **pages;   /* hash table, if pages are counted */
    struct qemu_plugin_register *registers[16];
    GByteArray *scratch;
} __attribute__((aligned(64)));

extern struct vcpu vcpus[MOST_VCPUS];

/* The options, fixed when the plugin is loaded. */
extern struct options {
    int out;              /* descriptor of the report */
    int cut;              /* descriptor from which a byte comes at the end of each window, or -1 */
    int every_ms;         /* length of an interval */
    int kernel;           /* count the kernel's accesses, too */
    int pages;            /* count by page */
    int marked;           /* count only between the program's marks */
    int all;              /* count every process */
    long cache_bytes;     /* 0: no cache, every access is a transaction */
    int cache_ways;
    double delay_scale;   /* 0: none */
    double busy_ns;       /* what one request takes of a memory; 0: memories have no load */
    int card;             /* descriptor of the card's memory, or -1 */
    int trace;            /* descriptor that the trace goes to, or -1 */
    int trace_physical;
    unsigned nvcpus, nnodes, nranges;
    struct { uint64_t start, end; unsigned node; } ranges[MOST_RANGES];
    double latency[MOST_NODES][MOST_NODES];
} options;

/* spaces.c: whose address space is in use. */
void spaces_instrument(struct qemu_plugin_insn *insn, uint64_t address, const uint8_t *bytes, size_t length);
void spaces_instrument_entry(struct qemu_plugin_tb *tb);
void spaces_begin_vcpu(struct vcpu *vcpu);
int spaces_entry(const char *text);
unsigned spaces_programs(void);
void spaces_forget(void);
int spaces_of_engine(const struct vcpu *vcpu, uint64_t address);

/* cache.c: a private cache of each vCPU, kept coherent by invalidation. 1 for a miss. */
void cache_begin(void);
void cache_begin_vcpu(struct vcpu *vcpu);
void cache_forget(void);
int cache_misses(struct vcpu *vcpu, uint64_t physical, int write);

/* pages.c: counts by page. */
void pages_begin(void);
struct page *pages_find(struct vcpu *vcpu, uint64_t virtual_page);
void pages_meet(struct vcpu *vcpu, struct page *page, uint64_t physical);
void pages_report(int out);
void pages_forget(void);

/* load.c: what a request of a vCPU waits at each memory now, in nanoseconds, scaled as delays are. */
extern double load_waits[MOST_VCPUS][MOST_NODES];
int load_begin(void);
void load_end(void);

/* card.c: the monitor card. */
int card_begin(void);
int card_runs(void);
int card_sees_all(void);
void card_tick(void);
void card_stop(void);
void card_transaction(struct vcpu *vcpu, uint64_t physical, unsigned home, int write);

/* trace.c: the accesses themselves. */
int trace_begin(void);
void trace_put(unsigned vcpu, uint64_t address, unsigned size_shift, int write);
void trace_end(void);

/* report.c: what was counted, over time and at the end. */
int report_begin(void);
void report_end(void);

#endif
