/* A command whose memory begins on some nodes, as after an initialisation by one thread: it starts in a control group
 * that may only allocate there, and may allocate everywhere as soon as it has computed for a while without growing. No
 * memory policy is set, no page moved. */
#define _GNU_SOURCE
#include "init.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define GROUP ROOT "/command"

/* "Not grown": by less than this in that time of its own, for each CPU (not of the clock: the host may be busy). An
 * initialisation that computes much for each page grows slowly, and all the more in an emulator. */
static const long GROWTH = 32 << 10, QUIET_US = 250000;

static int waiting;
static long last_bytes, last_growth_us;
static char all_nodes[256];

static int put(const char *file, const char *value) {
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    int done = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
    if (!done) note("cannot set", file);
    if (fd >= 0) close(fd);
    return done;
}

static void get(const char *file, char *text, size_t size) {
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    text[length < 0 ? 0 : length] = 0;
    if (fd >= 0) close(fd);
}

/* The number behind a name; 0 if it is not there. */
static long after(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found == NULL ? 0 : atol(found + strlen(name));
}

/* Anonymous bytes of the engines among the command's processes: what they remember of its pages is no growth of the
 * program. Exact, unlike the counters of `status`, since the kernel walks their pages. */
static long engines(void) {
    char pids[4096], path[64], name[32];
    static char text[1 << 12];
    long bytes = 0;
    get(GROUP "/cgroup.procs", pids, sizeof pids);
    for (char *at = pids, *end; *at != 0; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at) break;
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        get(path, name, sizeof name);
        if (strcmp(name, "homing\n") != 0) continue;
        snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
        get(path, text, sizeof text);
        bytes += after(text, "\nAnonymous:") * 1024;
    }
    return bytes;
}

void start_begin(const char *nodes) {
    get(ROOT "/cpuset.mems.effective", all_nodes, sizeof all_nodes);
    waiting = put(ROOT "/cgroup.subtree_control", "+cpuset +memory") &&
              (mkdir(GROUP, 0755), put(GROUP "/cpuset.mems", nodes));
}

/* By the command's process, before it becomes the command. */
void start_enter(void) {
    if (waiting) put(GROUP "/cgroup.procs", "0");
}

int start_waits(void) { return waiting; }

void start_look(void) {
    static char text[1 << 14];
    /* The group's own counters run behind by up to 64 pages a CPU; the machine's are exact after a refresh, and nobody
     * else but an engine grows. */
    put("/proc/sys/vm/stat_refresh", "1");
    get("/proc/vmstat", text, sizeof text);
    long bytes = 4096 * (after(text, "nr_anon_pages ") + after(text, "nr_shmem ")) - engines();
    get(GROUP "/cpu.stat", text, sizeof text);
    long now = after(text, "user_usec ");
    if (bytes > last_bytes + GROWTH) {
        last_bytes = bytes;
        last_growth_us = now;
    }
    if (last_bytes == 0 || now - last_growth_us < QUIET_US * sysconf(_SC_NPROCESSORS_ONLN)) return;
    put(GROUP "/cpuset.mems", all_nodes);
    waiting = 0;
}
