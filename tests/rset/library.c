/* Resource sets by libhoming, on four nodes of two CPUs each: memory of homing_rset_alloc is where its policy wants it,
 * by what the kernel says of each page, and the threads of homing_team_run are on the CPUs of the layout. */
#define _GNU_SOURCE
#include <homing/runtime.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, STRIPE = 16 };

static int failed;

static void expect(int holds, const char *what) {
    if (!holds) {
        char why[512];
        homing_reason(why, sizeof why);
        printf("not ok %s: %s\n", what, why), failed = 1;
    }
}

static int node_of(void *page) {
    int status = -1;
    return syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0) == 0 ? status : -1;
}

static int node_here(void) {
    unsigned cpu, node;
    syscall(SYS_getcpu, &cpu, &node, NULL);
    return node;
}

static char *make(const struct homing_rset *set, enum homing_memory memory, size_t stride) {
    char *made = homing_rset_alloc(set, PAGES * PAGE, memory, stride);
    if (!made) expect(0, "homing_rset_alloc"), exit(1);
    memset(made, 1, PAGES * PAGE);
    return made;
}

static void memories(const struct homing_rset *set) {
    char *striped = make(set, HOMING_STRIPED, STRIPE * PAGE), *remote = make(set, HOMING_REMOTE, 0);
    char *local = make(set, HOMING_LOCAL, 0), *floating = make(set, HOMING_FLOAT, 0);
    int here = node_here();
    for (int page = 0; page < PAGES; page++) {
        expect(node_of(striped + page * PAGE) == 1 + page / STRIPE % 2, "striped");
        expect(node_of(remote + page * PAGE) == 3 - here, "remote");
        expect(node_of(local + page * PAGE) == here, "local");
        int any = node_of(floating + page * PAGE);
        expect(any == 1 || any == 2, "float");
    }
    expect(homing_rset_free(striped) == HOMING_OK, "homing_rset_free");
    expect(homing_rset_free(striped) == HOMING_BAD_ARGUMENT, "what was freed is not freed again");
}

static unsigned cpus[8];

static void member(unsigned thread, void *argument) {
    cpu_set_t mask;
    expect(argument == cpus && sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) == 1, "a member");
    cpus[thread] = sched_getcpu();
}

static void team(const struct homing_rset *set) {
    const unsigned in_turn[] = {2, 4, 3, 5, 2}, one_each[] = {2, 4};
    expect(homing_team_run(set, HOMING_ROUND_ROBIN, 5, member, cpus) == HOMING_OK, "homing_team_run");
    expect(memcmp(cpus, in_turn, sizeof in_turn) == 0, "the nodes in turn");
    expect(homing_team_run(set, HOMING_ONE_PER_NODE, 0, member, cpus) == HOMING_OK, "homing_team_run");
    expect(memcmp(cpus, one_each, sizeof one_each) == 0, "one thread a node");
}

int main(void) {
    struct homing_rset *set, *none;
    expect(homing_rset_open("node:1-2", &set) == HOMING_OK, "homing_rset_open");
    expect(homing_rset_open("node:9", &none) == HOMING_BAD_ARGUMENT && !none, "a node that is not there");
    struct homing_rset_facts facts = {.size = sizeof facts};
    expect(homing_rset_query(set, &facts) == HOMING_OK, "homing_rset_query");
    expect(facts.cpus == 4 && facts.nodes == 2 && facts.bytes > 0, "facts");
    unsigned nodes[1];
    expect(homing_rset_nodes(set, nodes, 1) == 2 && nodes[0] == 1, "nodes");
    expect(homing_rset_bind_thread(set) == HOMING_OK && (node_here() == 1 || node_here() == 2), "bound");
    memories(set);
    team(set);
    homing_rset_close(set);
    return failed;
}
