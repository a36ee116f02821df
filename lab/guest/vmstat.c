/* What the kernel counted while the command ran: the growth of some lines of /proc/vmstat, sent to the host. */
#define _GNU_SOURCE
#include "init.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {"numa_pte_updates",    "numa_hint_faults",  "numa_hint_faults_local",
                                    "numa_pages_migrated", "pgmigrate_success", "pgmigrate_fail",
                                    "thp_fault_alloc",     "thp_split_pmd"};
enum { NAMES = sizeof names / sizeof *names };

static unsigned long long before[NAMES];

static void read_all(unsigned long long *values) {
    char name[64];
    unsigned long long value;
    FILE *file = fopen("/proc/vmstat", "re");
    if (file == NULL) return note("cannot read", "/proc/vmstat");
    while (fscanf(file, "%63s %llu", name, &value) == 2)
        for (int i = 0; i < NAMES; i++)
            if (strcmp(name, names[i]) == 0) values[i] = value;
    fclose(file);
}

void vmstat_begin(void) { read_all(before); }

void vmstat_end(int out) {
    unsigned long long after[NAMES] = {0};
    read_all(after);
    for (int i = 0; i < NAMES; i++) dprintf(out, "count %s %llu\n", names[i], after[i] - before[i]);
}
