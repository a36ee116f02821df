/* A private cache of each vCPU: set-associative with 64-byte lines of physical memory, the least recently used line
 * goes. A write by one vCPU makes the others' copies of the line worthless, as an invalidating protocol does: each line
 * of memory has a word with its last writer and a version, and a copy is good while its version is the line's. So what
 * is counted as a miss is what would go to memory or to another cache. */
#define _GNU_SOURCE
#include "observer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct line {
    uint64_t number; /* of the line of memory, plus 1: 0 is none */
    uint32_t version;
    uint32_t used;   /* the set's clock at its last use */
};

static uint64_t nsets, nlines;
static uint32_t *versions; /* by line of memory: 8 bits last writer plus 1, 24 bits version */

void cache_begin(void) {
    nsets = options.cache_bytes >> LINE_SHIFT;
    nsets = nsets < (uint64_t)options.cache_ways ? 1 : nsets / options.cache_ways;
    for (unsigned i = 0; i < options.nranges; i++)
        if (options.ranges[i].end >> LINE_SHIFT > nlines) nlines = options.ranges[i].end >> LINE_SHIFT;
    /* Only what is written to takes memory. */
    versions = mmap(NULL, nlines * sizeof *versions, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (versions == MAP_FAILED) abort();
}

void cache_begin_vcpu(struct vcpu *vcpu) { vcpu->lines = calloc(nsets * options.cache_ways, sizeof *vcpu->lines); }

/* Between two programs: the next one's lines are not there yet. */
void cache_forget(void) {
    for (unsigned i = 0; i < options.nvcpus; i++)
        if (vcpus[i].lines != NULL) memset(vcpus[i].lines, 0, nsets * options.cache_ways * sizeof *vcpus[i].lines);
}

/* The version of a line; a writer that was not the last one makes a new one. */
static uint32_t version_of(const struct vcpu *vcpu, uint64_t number, int write) {
    uint32_t *word = &versions[number];
    uint32_t now = __atomic_load_n(word, __ATOMIC_RELAXED), me = (uint32_t)(vcpu - vcpus + 1) << 24;
    if (!write || (now & 0xff000000) == me) return now;
    uint32_t next = me | ((now + 1) & 0xffffff);
    __atomic_store_n(word, next, __ATOMIC_RELAXED);
    return next;
}

int cache_misses(struct vcpu *vcpu, uint64_t physical, int write) {
    uint64_t number = physical >> LINE_SHIFT;
    if (number >= nlines || vcpu->lines == NULL) return 1;
    uint32_t before = __atomic_load_n(&versions[number], __ATOMIC_RELAXED);
    uint32_t version = version_of(vcpu, number, write);
    struct line *set = &vcpu->lines[number % nsets * options.cache_ways], *oldest = set;
    uint32_t clock = 0;
    struct line *found = NULL;
    for (int way = 0; way < options.cache_ways; way++) {
        if (set[way].used > clock) clock = set[way].used;
        if (set[way].used < oldest->used) oldest = &set[way];
        if (set[way].number == number + 1) found = &set[way];
    }
    /* A write to a good copy that others may hold is an upgrade: it counts as a miss, since it goes to the
     * interconnect, only if somebody else wrote since this copy was filled. */
    int hit = found != NULL && found->version == before;
    if (found == NULL) found = oldest;
    *found = (struct line){.number = number + 1, .version = version, .used = clock + 1};
    return !hit;
}
