/* The virtio ports by which the guest talks to the host; their device numbers are only known from sysfs. */
#define _GNU_SOURCE
#include "init.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where the kernel shows ports, and has their devices; a test has directories of its own. */
#ifndef PORTS
#define PORTS "/sys/class/virtio-ports"
#define DEVICES "/dev"
#endif

/* The driver learns of ports and their names by messages from the host: they may come after the first process has
 * begun, and late where the host is busy. */
enum { PORT_LOOKS = 3000, PORT_LOOK_US = 10000 };

/* The device of the port of a name; "" if there is none. */
static void find_port(const char *wanted, char *device, size_t size) {
    DIR *ports = opendir(PORTS);
    struct dirent *entry;
    device[0] = 0;
    while (ports != NULL && device[0] == 0 && (entry = readdir(ports)) != NULL) {
        char path[512], name[64] = "";
        snprintf(path, sizeof path, PORTS "/%s/name", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        if (fgets(name, sizeof name, file) != NULL) name[strcspn(name, "\n")] = 0;
        fclose(file);
        if (strcmp(name, wanted) == 0) snprintf(device, size, "%s", entry->d_name);
    }
    if (ports != NULL) closedir(ports);
}

int open_port(const char *name) {
    char device[256], path[512];
    for (int look = 0; look < PORT_LOOKS; look++) {
        if (look > 0) usleep(PORT_LOOK_US);
        find_port(name, device, sizeof device);
        if (device[0] == 0) continue;
        snprintf(path, sizeof path, DEVICES "/%s", device);
        int port = open(path, O_RDWR | O_CLOEXEC);
        if (port >= 0) return port;
    }
    return -1;
}

unsigned long long port_sent(const char *name) {
    char device[256], path[512], line[128];
    unsigned long long sent = 0;
    find_port(name, device, sizeof device);
    snprintf(path, sizeof path, "/sys/kernel/debug/virtio-ports/%s", device);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        note("cannot read", path);
        return 0;
    }
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "bytes_sent: %llu", &sent) != 1) continue;
    fclose(file);
    return sent;
}
