/* Files that a job made or changed, sent to the host over the control port. */
#define _GNU_SOURCE
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int control;

static void send_all(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(control, bytes, length);
        if (written <= 0) return;
        bytes += written;
        length -= written;
    }
}

static void send_file(const char *path, const struct stat *facts) {
    static char buffer[1 << 16];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return note("cannot read", path);
    dprintf(control, "file %o %lld %s\n", facts->st_mode & 0777, (long long)facts->st_size, path);
    long long left = facts->st_size;
    while (left > 0) {
        ssize_t got = read(fd, buffer, left < (long long)sizeof buffer ? (size_t)left : sizeof buffer);
        /* A file that shrinks while it is read is filled up: the host counts on the length that it was told. */
        if (got <= 0) memset(buffer, 0, got = left < (long long)sizeof buffer ? left : (long long)sizeof buffer);
        send_all(buffer, got);
        left -= got;
    }
    close(fd);
}

static int changed_since(const struct stat *facts, const struct timespec *start) {
    if (facts->st_ctim.tv_sec != start->tv_sec) return facts->st_ctim.tv_sec > start->tv_sec;
    return facts->st_ctim.tv_nsec >= start->tv_nsec;
}

/* Sends a changed file, or the changed files below a directory on the same file system. */
static void send_below(const char *path, const struct timespec *start, dev_t device, int depth) {
    struct stat facts;
    if (lstat(path, &facts) != 0 || facts.st_dev != device) return;
    if (S_ISREG(facts.st_mode)) {
        if (!changed_since(&facts, start)) return;
        if (strchr(path, '\n') != NULL) {
            errno = EINVAL;
            return note("cannot send", path);
        }
        return send_file(path, &facts);
    }
    if (!S_ISDIR(facts.st_mode) || depth == 0) return;
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char *below = NULL;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (asprintf(&below, "%s/%s", strcmp(path, "/") == 0 ? "" : path, entry->d_name) < 0) continue;
        send_below(below, start, device, depth - 1);
        free(below);
    }
    if (directory != NULL) closedir(directory);
}

void send_results(int out, const char *path, const struct timespec *start) {
    struct stat root;
    control = out;
    if (stat("/", &root) != 0) return note("stat", "/");
    send_below(path, start, root.st_dev, 64);
}
