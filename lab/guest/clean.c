/* What is done after a job, so that the next one finds the machine as the first one did: its processes end, settings
 * get their values back, mounts, control groups and files at the places for what is temporary go. */
#define _GNU_SOURCE
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS "/sys/fs/cgroup"
#define BALANCING "/sys/kernel/debug/sched/numa_balancing/"

enum { MOST_SETTINGS = 64, MOST_ENTRIES = 4096, SETTING = 256, END_LOOKS = 2000, END_LOOK_US = 10000 };

/* Settings that the engine or a program that measures changes; further ones are those that the host asked for. */
static const char *const known[] = {
    "/proc/sys/kernel/numa_balancing", BALANCING "scan_delay_ms",      BALANCING "scan_period_min_ms",
    BALANCING "scan_period_max_ms",    BALANCING "scan_size_mb",       BALANCING "hot_threshold_ms",
    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag",
    "/proc/sys/kernel/perf_event_paranoid", "/proc/sys/vm/nr_hugepages",
};
static const char *const places[] = {"/tmp", "/var/tmp", "/run", "/dev/shm"};
enum { PLACES = sizeof places / sizeof *places };

static struct {
    const char *file;
    char text[SETTING];
} settings[MOST_SETTINGS];
static int nsettings, nmounts;
/* Names that the places had at the beginning. */
static char *entries[MOST_ENTRIES];
static int nentries;

static int read_text(const char *file, char *text) {
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = fd < 0 ? -1 : read(fd, text, SETTING - 1);
    if (fd >= 0) close(fd);
    text[length < 0 ? 0 : length] = 0;
    return length > 0;
}

static void remember_setting(const char *file) {
    if (nsettings == MOST_SETTINGS || !read_text(file, settings[nsettings].text)) return;
    settings[nsettings++].file = file;
}

/* "always [madvise] never" is set by the word in brackets. */
static void put_back_settings(void) {
    char now[SETTING], value[SETTING];
    for (int i = 0; i < nsettings; i++) {
        if (read_text(settings[i].file, now) && strcmp(now, settings[i].text) == 0) continue;
        const char *chosen = strchr(settings[i].text, '[');
        if (chosen == NULL || sscanf(chosen, "[%255[^]]", value) != 1)
            snprintf(value, sizeof value, "%s", settings[i].text);
        int fd = open(settings[i].file, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, value, strlen(value)) < 0) note("cannot put back", settings[i].file);
        if (fd >= 0) close(fd);
    }
}

/* How many file systems are mounted; `names` gets the places of those from number `from` on, in order. */
static int mounts(int from, char names[][SETTING], int most) {
    int count = 0;
    char line[1024];
    FILE *file = fopen("/proc/self/mounts", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (count >= from && count - from < most) sscanf(line, "%*s %255s", names[count - from]);
        count++;
    }
    if (file != NULL) fclose(file);
    return count;
}

static void unmount(void) {
    static char names[64][SETTING];
    for (int last = mounts(nmounts, names, 64) - nmounts; last > 0; last--)
        if (last <= 64 && umount2(names[last - 1], MNT_DETACH) != 0) note("cannot unmount", names[last - 1]);
}

static void remove_tree(const char *path, int directories_only) {
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char *below = NULL;
        struct stat facts;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (asprintf(&below, "%s/%s", path, entry->d_name) < 0) continue;
        if (lstat(below, &facts) == 0 && S_ISDIR(facts.st_mode)) {
            remove_tree(below, directories_only);
            rmdir(below);
        } else if (!directories_only) unlink(below);
        free(below);
    }
    if (directory != NULL) closedir(directory);
}

/* No process is left, so that all groups can go; those that are above may divide nothing any more. */
static void remove_groups(void) {
    char text[SETTING], change[SETTING];
    remove_tree(GROUPS, 1);
    if (!read_text(GROUPS "/cgroup.subtree_control", text)) return;
    for (char *word = strtok(text, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        snprintf(change, sizeof change, "-%s", word);
        int fd = open(GROUPS "/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, change, strlen(change)) < 0) note("cannot write", GROUPS "/cgroup.subtree_control");
        if (fd >= 0) close(fd);
    }
}

static int was_there(const char *path) {
    for (int i = 0; i < nentries; i++)
        if (strcmp(entries[i], path) == 0) return 1;
    return 0;
}

/* Calls `f` with the path of each entry of the places. */
static void each_entry(void (*f)(const char *path)) {
    for (int i = 0; i < PLACES; i++) {
        DIR *directory = opendir(places[i]);
        struct dirent *entry;
        char path[SETTING + 32];
        while (directory != NULL && (entry = readdir(directory)) != NULL) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            snprintf(path, sizeof path, "%s/%s", places[i], entry->d_name);
            f(path);
        }
        if (directory != NULL) closedir(directory);
    }
}

static void remember_entry(const char *path) {
    if (nentries < MOST_ENTRIES) entries[nentries++] = strdup(path);
}

static void remove_entry(const char *path) {
    struct stat facts;
    if (was_there(path) || lstat(path, &facts) != 0) return;
    if (S_ISDIR(facts.st_mode)) remove_tree(path, 0);
    if (remove(path) != 0) note("cannot remove", path);
}

/* Segments of System V's shared memory, which outlive their processes. */
static void remove_segments(void) {
    struct shmid_ds facts;
    int last = shmctl(0, IPC_INFO, &facts);
    for (int i = 0; i <= last; i++) {
        int id = shmctl(i, SHM_STAT, &facts);
        if (id >= 0) shmctl(id, IPC_RMID, NULL);
    }
}

void clean_remember(char *const *tuned, int ntuned) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) remember_setting(known[i]);
    for (int i = 0; i < ntuned; i++) remember_setting(tuned[i]);
    nmounts = mounts(0, NULL, 0);
    each_entry(remember_entry);
}

void clean_processes(void) {
    for (int look = 0; look < END_LOOKS; look++) {
        kill(-1, SIGKILL);
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (ended < 0 && errno == ECHILD) return;
        usleep(END_LOOK_US);
    }
    errno = EBUSY;
    note("cannot end", "the job's processes");
}

void clean_up(void) {
    unmount();
    remove_groups();
    remove_segments();
    each_entry(remove_entry);
    put_back_settings();
}
