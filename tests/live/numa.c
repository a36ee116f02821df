/* numa interleave COMMAND...: runs a command under a memory policy, as `numactl --interleave=all` does. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    unsigned long nodes = 0xf;
    if (argc < 3 || strcmp(argv[1], "interleave") != 0) return fputs("usage: numa interleave COMMAND...\n", stderr), 2;
    if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &nodes, 8 * sizeof nodes) != 0) return perror("set_mempolicy"), 1;
    execvp(argv[2], argv + 2);
    return perror(argv[2]), 127;
}
