/* The monitor card: what the plug-in boards of Brock et al. 2001 (section 2) and the bus monitors of Tikir &
 * Hollingsworth 2008 (section
 * 2.2) do, behind registers in shared memory that the guest maps and programs (card.h, docs/monitor-card.md). It sees
 * every transaction: a miss of the modelled cache, or every access where none is modelled, of all user-space code. */
#define _GNU_SOURCE
#include "card.h"
#include "observer.h"

#include <sys/mman.h>
#include <time.h>

static struct card *card;
static pthread_mutex_t fifo = PTHREAD_MUTEX_INITIALIZER;
static struct timespec start;

#define READ(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

int card_begin(void) {
    if (options.card < 0) return 0;
    card = mmap(NULL, sizeof *card, PROT_READ | PROT_WRITE, MAP_SHARED, options.card, 0);
    if (card == MAP_FAILED) return -1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    card->id = CARD_ID;
    card->nodes = options.nnodes;
    for (unsigned i = 0; i < options.nvcpus; i++) card->cpus += vcpus[i].present;
    card->depth = CARD_SAMPLES;
    return 0;
}

int card_runs(void) { return card != NULL && (READ(card->control) & CARD_RUN) != 0; }

/* Whether what is not the program's is of interest, too. */
int card_sees_all(void) { return card != NULL && (READ(card->control) & (CARD_RUN | CARD_PROGRAM)) == CARD_RUN; }

/* Between two programs: one that was killed may have left it running. */
void card_stop(void) {
    if (card != NULL) __atomic_store_n(&card->control, 0, __ATOMIC_RELAXED);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (time.tv_sec - start.tv_sec) * 1000000000ull + time.tv_nsec - start.tv_nsec;
}

/* Every interval of the report. */
void card_tick(void) {
    if (card != NULL) __atomic_store_n(&card->time, now(), __ATOMIC_RELAXED);
}

/* A mask of 0 lets everything pass. */
static int passes(uint64_t mask, uint64_t bits) { return mask == 0 || (mask & bits) != 0; }

static void take_sample(struct vcpu *vcpu, uint64_t physical, unsigned home, unsigned type) {
    uint64_t from = READ(card->sample_start), size = READ(card->sample_size);
    if (!passes(READ(card->sample_types), type) || !passes(READ(card->sample_cpus), 1ull << (vcpu->cpu & 63))) return;
    if (size != 0 && physical - from >= size) return;
    uint64_t period = READ(card->period);
    /* It may have been shortened. */
    if (vcpu->until_sample > period) vcpu->until_sample = period;
    if (vcpu->until_sample > 1) {
        vcpu->until_sample--;
        return;
    }
    vcpu->until_sample = period;
    pthread_mutex_lock(&fifo);
    uint64_t head = card->head, depth = READ(card->depth);
    if (depth == 0 || depth > CARD_SAMPLES) depth = CARD_SAMPLES;
    if (head - __atomic_load_n(&card->tail, __ATOMIC_ACQUIRE) >= depth) {
        card->lost++;
    } else {
        struct card_sample *slot = &card->samples[head % CARD_SAMPLES];
        slot->time = now();
        slot->address = physical;
        slot->cpu = vcpu->cpu;
        slot->type = type;
        slot->home = home;
        __atomic_store_n(&slot->number, head + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&card->head, head + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&fifo);
}

static void raise_event(uint64_t counter) {
    pthread_mutex_lock(&fifo);
    uint64_t head = card->event_head;
    if (head - __atomic_load_n(&card->event_tail, __ATOMIC_ACQUIRE) >= CARD_EVENTS) {
        card->event_lost++;
    } else {
        card->events[head % CARD_EVENTS] = (struct card_event){.counter = counter, .time = now()};
        __atomic_store_n(&card->event_head, head + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&fifo);
}

/* Counts in one region; gives whether the transaction was one of it. */
static int count(const struct card_filter *filter, uint64_t physical, unsigned requester, unsigned home,
                 unsigned type) {
    uint64_t offset = physical - READ(filter->start), granularity = READ(filter->granularity);
    if (offset >= READ(filter->size) || !passes(READ(filter->types), type)) return 0;
    if (!passes(READ(filter->requesters), 1ull << requester) || !passes(READ(filter->homes), 1ull << home)) return 0;
    if (granularity < 32) granularity = 32;
    uint64_t index = READ(filter->base) + offset / granularity;
    if (index >= CARD_COUNTERS) return 0;
    uint64_t value = __atomic_add_fetch(&card->counters[index], 1, __ATOMIC_RELAXED);
    if (value == READ(card->thresholds[index])) raise_event(index);
    return 1;
}

void card_transaction(struct vcpu *vcpu, uint64_t physical, unsigned home, int write) {
    uint64_t control = READ(card->control), counted = 0;
    unsigned type = (write ? CARD_LOCAL_WRITE : CARD_LOCAL_READ) << (home == vcpu->node ? 0 : 2);
    for (uint64_t on = READ(card->filters_on) & 0xffffffff; on != 0; on &= on - 1) {
        unsigned i = __builtin_ctzll(on);
        if (count(&card->filters[i], physical, vcpu->node, home, type)) counted |= 1ull << i;
    }
    for (unsigned i = 0; i < CARD_SECONDARIES && counted != 0; i++) {
        struct card_secondary *secondary = &card->secondaries[i];
        if ((READ(secondary->regions) & counted) != 0 && passes(READ(secondary->types), type))
            __atomic_fetch_add(&secondary->count, 1, __ATOMIC_RELAXED);
    }
    if ((control & CARD_SAMPLE) != 0) take_sample(vcpu, physical, home, type);
}
