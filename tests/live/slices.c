/* Processes that share memory, each working on its own slice of it: main fills all of it (so it begins where main runs,
 * on the node of CPU 0), then process i, bound to CPU i (modulo the CPUs), works on slice i alone. At the end (after
 * SECONDS, or when the first process gets SIGTERM) every word is checked.
 *
 *   slices KIND PROCESSES PAGES SECONDS     PAGES each; KIND: posix, sysv, memfd, anonymous, or a path: a file there
 *   slices watch KIND SECONDS               maps the memory of KIND (posix, or a path) that is there, and uses nothing
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lab/guest/homing_section.h"
#include "bound.h"

enum { MAX_PROCESSES = 256, WORDS_A_PAGE = 512, STEP = 8 };

static const char NAME[] = "/homing-slices";

static volatile sig_atomic_t told_to_end;

static void on_signal(int signal) {
    (void)signal;
    told_to_end = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t *map_file(int file, size_t bytes) {
    if (file < 0 || (bytes > 0 && ftruncate(file, bytes) != 0)) fail("slices: file");
    if (bytes == 0) bytes = lseek(file, 0, SEEK_END);
    void *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) fail("slices: mmap");
    return words;
}

static uint64_t *map(const char *kind, size_t bytes) {
    if (strcmp(kind, "posix") == 0) return map_file(shm_open(NAME, O_RDWR | O_CREAT, 0600), bytes);
    if (strcmp(kind, "memfd") == 0) return map_file(memfd_create("slices", 0), bytes);
    if (strcmp(kind, "sysv") == 0) {
        int segment = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
        void *words = segment < 0 ? (void *)-1 : shmat(segment, NULL, 0);
        if (words == (void *)-1) fail("slices: System V shared memory");
        shmctl(segment, IPC_RMID, NULL);
        return words;
    }
    if (strcmp(kind, "anonymous") == 0) {
        void *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (words == MAP_FAILED) fail("slices: mmap");
        return words;
    }
    return map_file(open(kind, O_RDWR | O_CREAT, 0600), bytes);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "watch") == 0) {
        map(argv[2], 0);
        puts("ready"), fflush(stdout);
        for (double begin = now(); now() - begin < strtod(argv[3], NULL);) usleep(100000);
        return 0;
    }
    if (argc != 5) return fputs("usage: slices KIND PROCESSES PAGES SECONDS\n", stderr), 2;
    unsigned long processes = strtoul(argv[2], NULL, 10), pages = strtoul(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    if (processes < 1 || processes > MAX_PROCESSES || pages < 1)
        return fputs("slices: expected 1 to 256 processes, and pages\n", stderr), 2;
    struct sigaction ends = {.sa_handler = on_signal};
    sigaction(SIGTERM, &ends, NULL);
    bind_to(0);
    size_t bytes = pages * 4096, words = pages * WORDS_A_PAGE;
    uint64_t *all = map(argv[1], processes * bytes);
    for (unsigned long w = 0; w < processes * words; w++) all[w] = w;
    /* How many rounds each has made. */
    unsigned long *rounds = mmap(NULL, MAX_PROCESSES * 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rounds == MAP_FAILED) fail("slices: mmap");
    pid_t children[MAX_PROCESSES];
    HOMING_SECTION_BEGIN();
    for (unsigned long i = 0; i < processes; i++) {
        children[i] = fork();
        if (children[i] < 0) fail("slices: fork");
        if (children[i] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        bind_to(i);
        uint64_t *own = all + i * words;
        for (double begin = now(); now() - begin < seconds && !told_to_end; rounds[i * 8]++)
            for (unsigned long w = 0; w < words; w += STEP) own[w]++;
        _exit(0);
    }
    unsigned long wrong = 0, total = 0;
    for (unsigned long left = processes; left > 0;) {
        if (waitpid(-1, NULL, 0) > 0) left--;
        else if (told_to_end == 1) {
            told_to_end = 2;
            for (unsigned long i = 0; i < processes; i++) kill(children[i], SIGTERM);
        }
    }
    HOMING_SECTION_END();
    if (strcmp(argv[1], "posix") == 0) shm_unlink(NAME);
    for (unsigned long i = 0; i < processes; i++) {
        total += rounds[i * 8];
        for (unsigned long w = 0; w < words; w++)
            wrong += all[i * words + w] != i * words + w + (w % STEP == 0 ? rounds[i * 8] : 0);
    }
    printf("rounds=%lu wrong=%lu\n", total, wrong);
    return wrong != 0;
}
