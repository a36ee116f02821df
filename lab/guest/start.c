/* A command whose memory begins on some nodes, as after an initialisation by one thread: it starts in a control group that may only
 * allocate there, and may allocate everywhere as soon as it has computed for a while without growing. No memory policy is set, no page moved. */
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

/* "Not grown": by less than this in that time of its own (not of the clock: the host may be busy). */
static const long GROWTH = 256 << 10, QUIET_US = 1000000;

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

void start_begin(const char *nodes) {
    get(ROOT "/cpuset.mems.effective", all_nodes, sizeof all_nodes);
    waiting = put(ROOT "/cgroup.subtree_control", "+cpuset +memory") && (mkdir(GROUP, 0755), put(GROUP "/cpuset.mems", nodes));
}

/* By the command's process, before it becomes the command. */
void start_enter(void) {
    if (waiting) put(GROUP "/cgroup.procs", "0");
}

int start_waits(void) { return waiting; }

void start_look(void) {
    char text[1024];
    get(GROUP "/memory.current", text, sizeof text);
    long bytes = atol(text);
    get(GROUP "/cpu.stat", text, sizeof text);
    const char *user = strstr(text, "user_usec ");
    long now = user == NULL ? 0 : atol(user + strlen("user_usec "));
    if (bytes > last_bytes + GROWTH) {
        last_bytes = bytes;
        last_growth_us = now;
    }
    if (last_bytes == 0 || now - last_growth_us < QUIET_US) return;
    put(GROUP "/cpuset.mems", all_nodes);
    waiting = 0;
}
