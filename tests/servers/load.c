/* A load for memcached: each connection is a thread that asks for one value after the other. First all values are
 * stored. Prints requests per second, and the median and the 99th percentile of the time that a request took in
 * microseconds.
 *     load PORT CONNECTIONS KEYS BYTES REQUESTS */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int port, connections, keys, bytes, requests;
static double *took;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int begin(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    for (int tries = 0; connect(fd, (struct sockaddr *)&to, sizeof to) != 0; tries++) {
        if (tries == 600) fail("connect");
        usleep(100000);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Sends a request and reads until the answer ends so. */
static void ask(int fd, const char *request, size_t length, const char *end, char *answer, size_t room) {
    size_t have = 0, tail = strlen(end);
    for (size_t sent = 0; sent < length;) {
        ssize_t n = write(fd, request + sent, length - sent);
        if (n <= 0) fail("write");
        sent += n;
    }
    while (have < tail || memcmp(answer + have - tail, end, tail) != 0) {
        ssize_t n = have < room ? read(fd, answer + have, room - have) : 0;
        if (n <= 0) fail("read");
        have += n;
    }
}

static void *client(void *argument) {
    long self = (long)argument;
    size_t room = bytes + 4096;
    char *value = malloc(room), *answer = malloc(room);
    int fd = begin();
    uint64_t random = 88172645463325252ull + self;
    for (long i = self; i < requests; i += connections) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int length = sprintf(value, "get key%d\r\n", (int)(random % keys));
        double before = now();
        ask(fd, value, length, "END\r\n", answer, room);
        took[i] = now() - before;
    }
    close(fd);
    return NULL;
}

static int ascending(const void *a, const void *b) {
    return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b);
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    port = atoi(argv[1]), connections = atoi(argv[2]), keys = atoi(argv[3]), bytes = atoi(argv[4]);
    requests = atoi(argv[5]);
    took = calloc(requests, sizeof *took);
    pthread_t *threads = calloc(connections, sizeof *threads);
    char *value = malloc(bytes + 64), answer[64];
    int fd = begin();
    for (int key = 0; key < keys; key++) {
        int length = sprintf(value, "set key%d 0 0 %d\r\n", key, bytes);
        memset(value + length, 'v', bytes);
        memcpy(value + length + bytes, "\r\n", 2);
        ask(fd, value, length + bytes + 2, "STORED\r\n", answer, sizeof answer);
    }
    close(fd);
    double begun = now();
    for (long i = 0; i < connections; i++) pthread_create(&threads[i], NULL, client, (void *)i);
    for (int i = 0; i < connections; i++) pthread_join(threads[i], NULL);
    double seconds = (now() - begun) / 1e6;
    qsort(took, requests, sizeof *took, ascending);
    printf("%.0f %.0f %.0f\n", requests / seconds, took[requests / 2], took[(long)requests * 99 / 100]);
    return 0;
}
