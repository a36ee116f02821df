/* A command whose memory begins on some nodes, as after an initialisation by one thread: it starts in a control group
 * that may only allocate there, and may allocate everywhere as soon as several of its threads have computed for a while
 * without growing. No memory policy is set, no page moved. The host is told when that was. The kernel's balancing is
 * off until then. Its moves to other nodes would fail, and after each failure it scans half as often
 * (`update_task_scan_period`): it would stay slow for long. */
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
#define BALANCING "/proc/sys/kernel/numa_balancing"

/* "Not grown": by less than this in that time of its own, for each CPU (not of the clock: the host may be busy). An
 * initialisation that computes much for each page grows slowly, and all the more in an emulator. */
static const long GROWTH = 32 << 10, QUIET_US = 250000;

/* One thread alone may be about to fill memory that it has not touched yet: it is waited for ten times as long. */
static const long ALONE = 10;

/* A thread computes if it has used this much since the memory grew last. */
static const long COMPUTES_US = 20000;

enum { MOST_THREADS = 1024 };

static int waiting, held;
static long last_bytes, last_growth_us;
static struct {
    long tid, us;
} threads[MOST_THREADS];
static int nthreads;
static char all_nodes[256], balancing[16] = "0";

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

/* Whether a process or thread is the live engine's, which is none of the program. */
static int is_engine(long id) {
    char path[64], name[32];
    snprintf(path, sizeof path, "/proc/%ld/comm", id);
    get(path, name, sizeof name);
    return strcmp(name, "homing\n") == 0;
}

/* CPU time of a thread in its own code, in microseconds. */
static long used_us(long tid) {
    char path[64], text[1024];
    unsigned long ticks = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", tid);
    get(path, text, sizeof text);
    char *behind_name = strrchr(text, ')');
    if (behind_name == NULL) return 0;
    sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", &ticks);
    return ticks * 1000000 / sysconf(_SC_CLK_TCK);
}

/* Calls `f` with each thread of the program. */
static void each_thread(void (*f)(long tid)) {
    static char tids[1 << 15];
    get(GROUP "/cgroup.threads", tids, sizeof tids);
    for (char *at = tids, *end; *at != 0; at = end) {
        long tid = strtol(at, &end, 10);
        if (end == at) break;
        if (!is_engine(tid)) f(tid);
    }
}

static void remember(long tid) {
    if (nthreads == MOST_THREADS) return;
    threads[nthreads].tid = tid;
    threads[nthreads++].us = used_us(tid);
}

static int computing;

static void count_computing(long tid) {
    long before = 0;
    for (int i = 0; i < nthreads; i++)
        if (threads[i].tid == tid) before = threads[i].us;
    computing += used_us(tid) - before >= COMPUTES_US;
}

/* Anonymous bytes of the engines among the command's processes: what they remember of its pages is no growth of the
 * program. Exact, unlike the counters of `status`, since the kernel walks their pages. */
static long engines(void) {
    char pids[4096], path[64];
    static char text[1 << 12];
    long bytes = 0;
    get(GROUP "/cgroup.procs", pids, sizeof pids);
    for (char *at = pids, *end; *at != 0; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at) break;
        if (!is_engine(pid)) continue;
        snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
        get(path, text, sizeof text);
        bytes += after(text, "\nAnonymous:") * 1024;
    }
    return bytes;
}

/* An engine that is the command sets the balancing as it needs it: it must find it as it was asked for. */
void start_begin(const char *nodes, const char *command) {
    const char *slash = strrchr(command, '/');
    last_bytes = last_growth_us = nthreads = 0;
    snprintf(balancing, sizeof balancing, "0");
    get(ROOT "/cpuset.mems.effective", all_nodes, sizeof all_nodes);
    held = waiting = put(ROOT "/cgroup.subtree_control", "+cpuset +memory") &&
              (mkdir(GROUP, 0755), put(GROUP "/cpuset.mems", nodes));
    if (!held || strcmp(slash == NULL ? command : slash + 1, "homing") == 0) return;
    get(BALANCING, balancing, sizeof balancing);
    if (atol(balancing) != 0) put(BALANCING, "0");
}

/* Memory may be anywhere from now on. */
static void let_go(void) {
    char now[16];
    put(GROUP "/cpuset.mems", all_nodes);
    get(BALANCING, now, sizeof now);
    if (atol(balancing) != 0 && atol(now) == 0) put(BALANCING, balancing);
    waiting = 0;
}

/* By the command's process, before it becomes the command. */
void start_enter(void) {
    if (waiting) put(GROUP "/cgroup.procs", "0");
}

int start_waits(void) { return waiting; }

void start_end(int out) {
    if (held && waiting) dprintf(out, "held to the end %ld\n", last_bytes);
    held = waiting = 0;
}

void start_look(int out) {
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
        nthreads = 0;
        each_thread(remember);
    }
    long quiet = QUIET_US * sysconf(_SC_NPROCESSORS_ONLN);
    if (last_bytes == 0 || now - last_growth_us < quiet) return;
    computing = 0;
    each_thread(count_computing);
    if (computing < 2 && now - last_growth_us < ALONE * quiet) return;
    let_go();
    dprintf(out, "held until now %ld\n", last_bytes);
}
