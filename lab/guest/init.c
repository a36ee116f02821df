/* The first and only process that the lab's guest starts by itself: makes the usual mounts, carries out the jobs that
 * the launcher wrote into the initramfs, one after another as the host asks for them, and sends back over the control
 * port what came of each (docs/lab.md, "Many jobs in one machine").
 *
 * The jobs are /lab/jobs: pairs of NUL-ended strings, a key and its value, in order. Keys, first those of the machine:
 *   tune     FILE=VALUE, written before the first job
 *   marks    mark what is none of the observed commands for the observer (lab.h)
 *   job      begins a job, whose keys follow; the value is its name
 *   arg      one word of the command          env      NAME=VALUE for the command
 *   cwd      its working directory            stdin    it reads the host's input
 *   result   a file, or a directory with files: what has changed goes back to the host
 *   start    nodes on which the command's memory begins (start.c)
 *   beside   a line for sh, run beside the command and not observed
 *   observe  mark the command's address spaces for the observer (lab.h)
 *   shell    give a prompt on hvc0 instead of running a command
 *
 * Lines from the host: "run N" starts a job, counted from 0; "signal N" is for the job's command; "kill" ends the job;
 * "end" switches the machine off.
 */
#define _GNU_SOURCE
#include "init.h"
#include "lab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Modules of the kernel, where the launcher put some. */
#ifndef MODULES
#define MODULES "/lab/modules"
#endif

enum { MOST_WORDS = 65536, DEBUG_EXIT_PORT = 0xf4 };

static struct {
    char *args[MOST_WORDS], *env[MOST_WORDS], *tunes[MOST_WORDS], *results[MOST_WORDS], *beside[MOST_WORDS];
    int nargs, nenv, ntunes, nresults, nbeside;
    char *cwd, *start;
    int marks, observe, shell, input;
} job;

static struct pair {
    char *key, *value;
} *pairs;
static size_t npairs;

static int control = -1;

void note(const char *what, const char *which) {
    dprintf(control >= 0 ? control : 2, "note %s %s: %s\n", what, which, strerror(errno));
}

static void mount_all(void) {
    static const char *const mounts[][3] = {
        {"proc", "/proc", "proc"},
        {"sysfs", "/sys", "sysfs"},
        {"devtmpfs", "/dev", "devtmpfs"},
        {"devpts", "/dev/pts", "devpts"},
        {"tmpfs", "/dev/shm", "tmpfs"},
        {"debugfs", "/sys/kernel/debug", "debugfs"},
        {"tracefs", "/sys/kernel/tracing", "tracefs"},
        {"cgroup2", "/sys/fs/cgroup", "cgroup2"},
    };
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        mkdir(mounts[i][1], 0755);
        if (mount(mounts[i][0], mounts[i][1], mounts[i][2], 0, NULL) != 0 && errno != EBUSY)
            note("mount", mounts[i][1]);
    }
    static const char *const links[][2] = {
        {"/proc/self/fd", "/dev/fd"},
        {"/proc/self/fd/0", "/dev/stdin"},
        {"/proc/self/fd/1", "/dev/stdout"},
        {"/proc/self/fd/2", "/dev/stderr"},
    };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlink(links[i][0], links[i][1]) != 0 && errno != EEXIST) note("symlink", links[i][1]);
    mkdir("/run", 0755);
    mkdir("/tmp", 01777);
    chmod("/tmp", 01777);
}

/* Loads what of the kernel is not built in and needed here, in the order of names. */
static void load_modules(void) {
    struct dirent **entries;
    int count = scandir(MODULES, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, MODULES "/%s", entries[i]->d_name);
        int fd = entries[i]->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && syscall(SYS_finit_module, fd, "", 0) != 0) note("cannot load", path);
        if (fd >= 0) close(fd);
    }
}

static int is(const char *key, const char *name) { return strcmp(key, name) == 0; }

static void append(char **list, int *count, char *value) {
    if (*count < MOST_WORDS - 1) list[(*count)++] = value;
}

static void read_jobs(void) {
    struct stat facts;
    int fd = open("/lab/jobs", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0) return note("open", "/lab/jobs");
    char *text = calloc(1, facts.st_size + 1), *end = text + facts.st_size;
    /* A pair has two bytes at least. */
    pairs = calloc(facts.st_size / 2 + 1, sizeof *pairs);
    if (text == NULL || pairs == NULL || read(fd, text, facts.st_size) != facts.st_size)
        return note("read", "/lab/jobs");
    close(fd);
    while (text < end) {
        char *key = text, *value = key + strlen(key) + 1;
        if (value >= end) break;
        text = value + strlen(value) + 1;
        pairs[npairs++] = (struct pair){.key = key, .value = value};
    }
}

/* Takes the pairs of the machine and those of a job; -1: of none. */
static void take_job(int wanted) {
    int number = -1;
    job.nargs = job.nenv = job.ntunes = job.nresults = job.nbeside = 0;
    job.cwd = job.start = NULL;
    job.marks = job.observe = job.shell = job.input = 0;
    for (struct pair *pair = pairs; pair < pairs + npairs; pair++) {
        const char *key = pair->key;
        number += is(key, "job");
        if (number != -1 && number != wanted) continue;
        if (is(key, "arg")) append(job.args, &job.nargs, pair->value);
        else if (is(key, "env")) append(job.env, &job.nenv, pair->value);
        else if (is(key, "tune")) append(job.tunes, &job.ntunes, pair->value);
        else if (is(key, "result")) append(job.results, &job.nresults, pair->value);
        else if (is(key, "beside")) append(job.beside, &job.nbeside, pair->value);
        else if (is(key, "cwd")) job.cwd = pair->value;
        else if (is(key, "start")) job.start = pair->value;
        else if (is(key, "marks")) job.marks = 1;
        else if (is(key, "observe")) job.observe = 1;
        else if (is(key, "shell")) job.shell = 1;
        else if (is(key, "stdin")) job.input = 1;
    }
    job.args[job.nargs] = NULL;
}

static void tune(char *setting) {
    char *value = strchr(setting, '=');
    if (value == NULL) return;
    *value++ = 0;
    int fd = open(setting, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0) note("cannot set", setting);
    if (fd >= 0) close(fd);
}

/* The kernel patches its own code when the first event of a kind is opened and when the last one is closed, and an
 * emulated processor may then run an instruction that is half patched: the kernel panics ("int3"), or hangs. Events of
 * the kinds that the engine opens, which count nothing and stay open, let that happen once, while nothing else runs. */
static void keep_events_open(void) {
    static const unsigned kinds[] = {PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_CPU_MIGRATIONS};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct perf_event_attr event = {
            .type = PERF_TYPE_SOFTWARE, .size = sizeof event, .config = kinds[i], .disabled = 1};
        if (syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
            note("cannot open", "a perf event");
    }
}

static void raise_loopback(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) note("cannot raise", "lo");
    close(fd);
}

/* The directory and the environment of the command, also for what runs beside it. */
static void set_environment(void) {
    if (job.cwd != NULL && chdir(job.cwd) != 0) dprintf(2, "lab: cannot enter %s: %s\n", job.cwd, strerror(errno));
    clearenv();
    for (int i = 0; i < job.nenv; i++) putenv(job.env[i]);
}

static void become_command(int in, int out, int error) {
    struct rlimit none = {0, 0};
    sigset_t all;
    start_enter();
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    setrlimit(RLIMIT_CORE, &none);
    if (job.shell) ioctl(in, TIOCSCTTY, 0);
    dup2(in, 0);
    dup2(out, 1);
    dup2(error, 2);
    if (job.observe && mark_address_spaces(PROGRAM_MARK) != 0) dprintf(2, "lab: cannot mark: %s\n", strerror(errno));
    set_environment();
    execvp(job.args[0], job.args);
    dprintf(2, "lab: cannot execute %s: %s\n", job.args[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Runs a line for sh that is none of the command's: a daemon that works on it. */
static void run_beside(char *line, int error) {
    if (fork() != 0) return;
    int in = open("/dev/null", O_RDONLY);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    dup2(in, 0);
    dup2(error, 1);
    dup2(error, 2);
    set_environment();
    execl("/bin/busybox", "sh", "-c", line, (char *)NULL);
    dprintf(2, "lab: cannot execute busybox: %s\n", strerror(errno));
    _exit(127);
}

/* The next line from the host, which is waited for or, if it is not there yet, NULL; NULL also if the host is gone. */
static const char *host_line(int wait) {
    static char line[64];
    static size_t used;
    char byte;
    struct pollfd waiting = {.fd = control, .events = POLLIN};
    while ((wait || (poll(&waiting, 1, 0) > 0 && (waiting.revents & POLLIN) != 0)) && read(control, &byte, 1) == 1) {
        if (byte == '\n') {
            line[used] = 0;
            used = 0;
            return line;
        }
        if (used < sizeof line - 1) line[used++] = byte;
    }
    return NULL;
}

/* Passes "signal N" from the host on to the command's process group; "kill" is for all of the job. */
static void pass_signals(pid_t command) {
    const char *line;
    int number = 0;
    while ((line = host_line(0)) != NULL) {
        if (sscanf(line, "signal %d", &number) == 1) kill(-command, number);
        else if (strcmp(line, "kill") == 0) kill(-1, SIGKILL);
    }
}

/* Waits for the command and reaps whatever else ends meanwhile; gives its status as a shell does. */
static int wait_for(pid_t command) {
    for (;;) {
        int status;
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
            if (ended != command) continue;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        struct pollfd waiting = {.fd = control, .events = POLLIN};
        sigset_t none;
        sigemptyset(&none);
        struct timespec soon = {.tv_nsec = 50000000};
        if (start_waits()) start_look(control);
        /* SIGCHLD, blocked elsewhere, ends this wait. */
        if (ppoll(&waiting, 1, start_waits() ? &soon : NULL, &none) > 0) {
            pass_signals(command);
            if ((waiting.revents & POLLHUP) != 0) usleep(10000);
        }
    }
}

/* The command's output goes to ports that this process holds open from job to job: the host sees no end between. */
static int run_command(void) {
    static int out = -1, error = -1;
    int in;
    if (job.shell) {
        in = out = error = open("/dev/hvc0", O_RDWR | O_CLOEXEC);
    } else {
        in = job.input ? open_port("homing.stdin") : open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (out < 0) out = open_port("homing.stdout");
        if (error < 0) error = open_port("homing.stderr");
    }
    if (in < 0 || out < 0 || error < 0) {
        note("no port", "for the command's streams");
        return 1;
    }
    for (int i = 0; i < job.nbeside; i++) run_beside(job.beside[i], error);
    if (job.start != NULL) start_begin(job.start, job.args[0]);
    vmstat_begin();
    pid_t command = fork();
    if (command == 0) become_command(in, out, error);
    /* The host sees the end of the input of a command only if nobody else holds the port. */
    close(in);
    int status = command < 0 ? 1 : wait_for(command);
    vmstat_end(control);
    start_end(control);
    return status;
}

/* Carries a job out and tells its end. What was written to a port is still under way then: the host goes on once it has
 * all of it. */
static void run_job(int number) {
    struct timespec start;
    take_job(number);
    clock_gettime(CLOCK_REALTIME_COARSE, &start);
    int status = job.nargs > 0 ? run_command() : 127;
    clean_processes();
    for (int i = 0; i < job.nresults; i++) send_results(control, job.results[i], &start);
    unsigned long long out = job.shell ? 0 : port_sent("homing.stdout"),
                       error = job.shell ? 0 : port_sent("homing.stderr");
    dprintf(control, "exit %d %llu %llu\n", status, out, error);
}

/* The number of the job that the host asks for; -1 at the end. */
static int next_job(void) {
    const char *line;
    int number;
    while ((line = host_line(1)) != NULL && strcmp(line, "end") != 0)
        if (sscanf(line, "run %d", &number) == 1 && number >= 0) return number;
    return -1;
}

static void switch_off(void) {
    /* QEMU's debug-exit device ends the machine at once; the kernel's own way takes a second. */
    if (ioperm(DEBUG_EXIT_PORT, 1, 1) == 0) outb(0, DEBUG_EXIT_PORT);
    reboot(RB_POWER_OFF);
    for (;;) pause();
}

static void on_child(int signal) { (void)signal; }

int main(void) {
    struct sigaction quiet = {.sa_handler = on_child};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    sigaction(SIGCHLD, &quiet, NULL);
    mount_all();
    load_modules();
    control = open_port("homing.control");
    if (control < 0) {
        note("no port", "homing.control: expected a kernel with virtio consoles, built in or as modules");
        switch_off();
    }
    read_jobs();
    take_job(-1);
    raise_loopback();
    keep_events_open();
    for (int i = 0; i < job.ntunes; i++) tune(job.tunes[i]);
    if (job.marks && mark_address_spaces(OTHER_MARK) != 0) note("cannot mark", "address spaces");
    clean_remember(job.tunes, job.ntunes);
    dprintf(control, "ready\n");
    for (int number, ran = 0; (number = next_job()) >= 0; ran = 1) {
        if (ran) clean_up();
        run_job(number);
    }
    switch_off();
}
