/* Says whether memory and threads are where a resource set wants them, by what the kernel says of each page.
 *
 *   where striped PAGES NODE...   stripes of PAGES pages are on these nodes in turn, in memory of malloc, calloc,
 *                                 realloc, posix_memalign and mmap
 *   where remote|local            no page, or every page, is on the node of the thread that allocated it, whoever
 *                                 touches it
 *   where threads CPU...          threads, the first one included, run on these CPUs alone, in turn
 *   where inside NODE...          all pages, of a small allocation too, are on these nodes
 *   where huge                    a large allocation asks for huge pages
 *   where many [apart|together]   has allocations of 10240 pages, of which the fourth and the third from the end are on
 *                                 different nodes, or on the same
 *   where forked ...              the same in a child after fork
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, BYTES = PAGES * PAGE };

static int words;
static char **word;
static int failed;

static int node_here(void) {
    unsigned cpu, node;
    syscall(SYS_getcpu, &cpu, &node, NULL);
    return node;
}

static int node_of(void *address) {
    int status = -1;
    void *page = (void *)((uintptr_t)address & -PAGE);
    return syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0) == 0 ? status : -1;
}

/* The first ones are shown. */
static void not_ok(const char *what, long at, long found, const char *wanted) {
    if (failed++ < 5) printf("not ok %s: %ld is on %ld: expected %s\n", what, at, found, wanted);
}

/* Memory of each way to get it. */
static char *get(int how, const char **name) {
    static const char *const names[] = {"malloc", "calloc", "realloc", "posix_memalign", "mmap"};
    void *memory = NULL;
    *name = names[how];
    if (how == 0) memory = malloc(BYTES);
    if (how == 1) memory = calloc(PAGES, PAGE);
    if (how == 2) memory = realloc(malloc(BYTES / 4), BYTES);
    if (how == 3 && posix_memalign(&memory, 2 << 20, BYTES) != 0) memory = NULL;
    if (how == 4) memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!memory || memory == MAP_FAILED) perror(*name), exit(1);
    return memory;
}

static char *make(int how, const char **name) { return memset(get(how, name), 1, BYTES); }

/* Where stripes are single pages, which node comes first is the kernel's choice. */
static long first_turn(const char *memory, long pages, long nodes) {
    long turn = 0;
    int found = node_of((void *)memory);
    while (pages == 1 && turn < nodes && atoi(word[1 + turn]) != found) turn++;
    return turn % nodes;
}

static void striped(void) {
    long pages = atol(word[0]), nodes = words - 1;
    for (int how = 0; how < 5; how++) {
        const char *name;
        char *memory = make(how, &name);
        long turn = first_turn(memory, pages, nodes);
        for (long page = 0; page < PAGES; page++) {
            const char *wanted = word[1 + (turn + page / pages) % nodes];
            int found = node_of(memory + page * PAGE);
            if (found != atoi(wanted)) not_ok(name, page, found, wanted);
        }
    }
}

/* An allocation, and the node of the thread that made it. */
struct made {
    int how, node;
    char *memory;
    const char *name;
};

static void *allocate(void *data) {
    struct made *made = data;
    made->memory = get(made->how, &made->name);
    made->node = node_here();
    return NULL;
}

static void check_distance(struct made *made, int remote) {
    memset(made->memory, 1, BYTES);
    for (long page = 0; page < PAGES; page++) {
        int found = node_of(made->memory + page * PAGE);
        if (found < 0 || (found == made->node) == remote)
            not_ok(made->name, page, found, remote ? "another node than the thread's" : "the thread's node");
    }
}

/* This thread touches what another one allocated, and its own. */
static void distance(int remote) {
    struct made others = {.how = 4}, own = {.how = 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate, &others) != 0) perror("pthread_create"), exit(1);
    pthread_join(thread, NULL);
    allocate(&own);
    if (others.node == own.node && !remote) puts("not ok: both threads are on one node"), failed++;
    check_distance(&others, remote);
    check_distance(&own, remote);
}

static void *on_cpu(void *index) {
    cpu_set_t cpus;
    const char *wanted = word[(intptr_t)index % words];
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) perror("sched_getaffinity"), exit(1);
    if (CPU_COUNT(&cpus) != 1 || !CPU_ISSET(atoi(wanted), &cpus))
        not_ok("thread", (intptr_t)index, sched_getcpu(), wanted);
    return NULL;
}

static void threads(void) {
    for (intptr_t index = 1; index < 6; index++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, on_cpu, (void *)index) != 0) perror("pthread_create"), exit(1);
        pthread_join(thread, NULL);
    }
    on_cpu(0);
}

static void inside(void) {
    const char *name;
    char *memory[] = {malloc(10 * PAGE), make(4, &name)};
    memset(memory[0], 1, 10 * PAGE);
    for (int which = 0; which < 2; which++)
        for (long page = 0; page < 10; page++) {
            int found = node_of(memory[which] + page * PAGE), known = 0;
            for (int at = 0; at < words; at++) known |= found == atoi(word[at]);
            if (!known) not_ok(which ? "mmap" : "malloc", page, found, "a node of the set");
        }
}

/* The kernel shows the wish of a mapping as `hg` among its flags. */
static void huge(void) {
    char line[512];
    char *memory = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *maps = fopen("/proc/self/smaps", "r");
    unsigned long from, to;
    int own = 0, wished = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) own = from <= (uintptr_t)memory && (uintptr_t)memory < to;
        wished |= own && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg");
    }
    if (!wished) not_ok("mapping", 0, 0, "a wish for huge pages");
}

static void many(void) {
    for (int turn = 0; turn < 2; turn++) {
        void *memory = mmap(NULL, 40 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) perror("mmap"), exit(1);
        char *last = (char *)memory + (40 << 20) - 4 * PAGE;
        memset(last, 1, 4 * PAGE);
        int first = node_of(last), after = node_of(last + PAGE);
        if (words > 0 && (first == after) != (strcmp(word[0], "apart") != 0)) not_ok("page", 1, after, word[0]);
    }
}

/* Gives the status of a child that goes on with the other words; in the child, -1. */
static int forked(void) {
    int status;
    pid_t child = fork();
    if (child == 0) return -1;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "forked") == 0) {
        int status = forked();
        if (status >= 0) return status;
        argc--, argv++;
    }
    if (argc < 2) return fputs("usage: where WHAT ...\n", stderr), 2;
    words = argc - 2, word = argv + 2;
    if (strcmp(argv[1], "striped") == 0) striped();
    if (strcmp(argv[1], "remote") == 0) distance(1);
    if (strcmp(argv[1], "local") == 0) distance(0);
    if (strcmp(argv[1], "threads") == 0) threads();
    if (strcmp(argv[1], "inside") == 0) inside();
    if (strcmp(argv[1], "huge") == 0) huge();
    if (strcmp(argv[1], "many") == 0) many();
    if (failed > 5) printf("not ok: %d in all\n", failed);
    return failed != 0;
}
