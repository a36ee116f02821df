/* Counts by page: each vCPU has a table of its own, so that counting takes no lock. Pages are virtual ones of an
 * address space: what moves is the frame, and the question is who uses the page.
 *
 * Pages of several address spaces that are the same memory (shared memory, files, what a fork has not written yet) are
 * found by their frame and reported as pairs. A frame that was given back and handed out again is no shared one, so two
 * pages are a pair only if one of them was found there before and after the other, or is still in its vCPU's table of
 * translations. A frame at several places of one address space is the kernel's page of zeros, or mapped twice: what is
 * there has no one page, and makes no pairs. */
#include "observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS = 1 << 16 };

/* Who was last seen in a frame. */
static struct frame {
    uint64_t space, number; /* 0: nobody */
    unsigned vcpu;
    int common; /* several pages of one address space were there at once */
} *frames;
static uint64_t nframes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void pages_begin(void) {
    for (unsigned i = 0; i < options.nranges; i++)
        if (options.ranges[i].end >> PAGE_SHIFT > nframes) nframes = options.ranges[i].end >> PAGE_SHIFT;
    frames = calloc(nframes, sizeof *frames);
    if (frames == NULL) abort();
}

struct page *pages_find(struct vcpu *vcpu, uint64_t virtual_page) {
    if (vcpu->pages == NULL) vcpu->pages = calloc(BUCKETS, sizeof *vcpu->pages);
    struct page **bucket = &vcpu->pages[(virtual_page ^ vcpu->space >> PAGE_SHIFT) * 0x9e3779b97f4a7c15 >> 48];
    for (struct page *page = *bucket; page != NULL; page = page->next)
        if (page->number == virtual_page && page->space == vcpu->space) return page;
    struct page *page = calloc(1, sizeof *page);
    if (page == NULL) abort();
    *page = (struct page){.space = vcpu->space, .number = virtual_page, .next = *bucket};
    return *bucket = page;
}

/* Whether the page that was last seen in a frame is still mapped there. */
static int still_there(const struct frame *frame, uint64_t physical) {
    const struct mapping *mapping = &vcpus[frame->vcpu].mappings[frame->number % MAPPINGS];
    return __atomic_load_n(&mapping->virtual_page, __ATOMIC_RELAXED) == frame->number + 1 &&
           __atomic_load_n(&mapping->physical, __ATOMIC_RELAXED) == physical &&
           __atomic_load_n(&vcpus[frame->vcpu].space, __ATOMIC_RELAXED) == frame->space;
}

static void add_twin(struct page *page, const struct frame *other) {
    for (unsigned i = 0; i < page->ntwins; i++)
        if (page->twins[i].space == other->space && page->twins[i].number == other->number) return;
    if (page->ntwins == MOST_TWINS) return;
    page->twins[page->ntwins].space = other->space;
    page->twins[page->ntwins].number = other->number;
    page->twins[page->ntwins++].frame = other - frames;
}

/* A vCPU has looked up where a page is. */
void pages_meet(struct vcpu *vcpu, struct page *page, uint64_t physical) {
    /* The kernel has all memory mapped besides. */
    if (physical >> PAGE_SHIFT >= nframes || page->number >> (63 - PAGE_SHIFT)) return;
    struct frame *frame = &frames[physical >> PAGE_SHIFT];
    pthread_mutex_lock(&lock);
    int another = frame->space != 0 && (frame->space != page->space || frame->number != page->number);
    if (another && (page->frame == physical || still_there(frame, physical))) {
        if (frame->space == page->space) frame->common = 1;
        else if (!frame->common) add_twin(page, frame);
    }
    frame->space = page->space;
    frame->number = page->number;
    frame->vcpu = vcpu - vcpus;
    page->frame = physical;
    pthread_mutex_unlock(&lock);
}

static void report(FILE *file, unsigned vcpu, const struct page *page) {
    if (page->reads + page->writes == 0) return;
    fprintf(file, "p %lx %lx %u %lu %lu %lu %u\n", page->space >> PAGE_SHIFT, page->number, vcpu, page->reads,
            page->writes, page->misses, page->home);
    for (unsigned i = 0; i < page->ntwins; i++)
        if (!frames[page->twins[i].frame].common)
            fprintf(file, "s %lx %lx %lx %lx\n", page->space >> PAGE_SHIFT, page->number,
                    page->twins[i].space >> PAGE_SHIFT, page->twins[i].number);
}

void pages_report(int out) {
    FILE *file = fdopen(dup(out), "w");
    for (unsigned i = 0; file != NULL && i < options.nvcpus; i++)
        for (unsigned b = 0; vcpus[i].pages != NULL && b < BUCKETS; b++)
            for (struct page *page = vcpus[i].pages[b]; page != NULL; page = page->next) report(file, i, page);
    if (file != NULL) fclose(file);
}

/* Between two programs. Pages stay in the tables: a vCPU's translations may still point to them. */
void pages_forget(void) {
    pthread_mutex_lock(&lock);
    memset(frames, 0, nframes * sizeof *frames);
    for (unsigned i = 0; i < options.nvcpus; i++)
        for (unsigned b = 0; vcpus[i].pages != NULL && b < BUCKETS; b++)
            for (struct page *page = vcpus[i].pages[b]; page != NULL; page = page->next) {
                page->reads = page->writes = page->misses = page->frame = 0;
                page->ntwins = 0;
            }
    pthread_mutex_unlock(&lock);
}
