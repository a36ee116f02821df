/* Counts by page: each vCPU has a table of its own, so that counting takes no lock. Pages are virtual ones of an
 * address space: what moves is the frame, and the question is who uses the page. */
#include "observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUCKETS = 1 << 16 };

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

void pages_report(int out) {
    FILE *file = fdopen(dup(out), "w");
    for (unsigned i = 0; file != NULL && i < options.nvcpus; i++)
        for (unsigned b = 0; vcpus[i].pages != NULL && b < BUCKETS; b++)
            for (struct page *page = vcpus[i].pages[b]; page != NULL; page = page->next)
                fprintf(file, "p %lx %lx %u %lu %lu %lu %u\n", page->space >> PAGE_SHIFT, page->number, i, page->reads,
                        page->writes, page->misses, page->home);
    if (file != NULL) fclose(file);
}
