/* The monitor card's registers, as its memory (BAR 2 of PCI device 1af4:1110) shows them; docs/monitor-card.md
   describes each. */
#ifndef HOMING_CARD_H
#define HOMING_CARD_H

#include <stdint.h>

enum {
    CARD_BYTES = 16 << 20,
    CARD_FILTERS = 32,
    CARD_SECONDARIES = 16,
    CARD_COUNTERS = 512 << 10,
    CARD_SAMPLES = 65536,
    CARD_EVENTS = 4096,
    CARD_RUN = 1,     /* CONTROL */
    CARD_SAMPLE = 2,
    CARD_PROGRAM = 4,
    CARD_LOCAL_READ = 1, /* types of transactions */
    CARD_LOCAL_WRITE = 2,
    CARD_REMOTE_READ = 4,
    CARD_REMOTE_WRITE = 8,
};

#define CARD_ID 0x00000001434d4f48ull /* "HOMC", version 1 */

struct card_filter {
    uint64_t start, size, granularity, types, base, requesters, homes, reserved;
};

struct card_secondary {
    uint64_t regions, types, count, reserved;
};

struct card_event {
    uint64_t counter, time;
};

struct card_sample {
    uint64_t number, time, address;
    uint32_t cpu;
    uint16_t type, home;
};

struct card {
    uint64_t id, nodes, cpus, time;                                           /* 0x00 */
    uint64_t control, period, depth, head, tail, lost;                         /* 0x20 */
    uint64_t sample_start, sample_size, sample_cpus, sample_types;             /* 0x50 */
    uint64_t event_head, event_tail, event_lost, filters_on;                   /* 0x70 */
    uint8_t gap0[0x1000 - 0x90];
    struct card_filter filters[CARD_FILTERS];                                  /* 0x1000 */
    uint8_t gap1[0x2000 - 0x1000 - CARD_FILTERS * sizeof(struct card_filter)];
    struct card_secondary secondaries[CARD_SECONDARIES];                       /* 0x2000 */
    uint8_t gap2[0x10000 - 0x2000 - CARD_SECONDARIES * sizeof(struct card_secondary)];
    struct card_event events[CARD_EVENTS];                                     /* 0x10000 */
    uint8_t gap3[0x200000 - 0x10000 - CARD_EVENTS * sizeof(struct card_event)];
    struct card_sample samples[CARD_SAMPLES];                                  /* 0x200000 */
    uint64_t counters[CARD_COUNTERS];                                          /* 0x400000 */
    uint64_t thresholds[CARD_COUNTERS];                                        /* 0x800000 */
    uint8_t gap4[CARD_BYTES - 0xc00000];
};

_Static_assert(sizeof(struct card) == CARD_BYTES, "the card's memory");
_Static_assert(sizeof(struct card_sample) == 32, "a sample");

#endif
