/* numa interleave|bind COMMAND...: runs a command under a memory policy, as `numactl --interleave=all` or `--membind=0`
 * does. */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int bind = argc > 2 && strcmp(argv[1], "bind") == 0;
    unsigned long nodes = bind ? 1 : 0xf;
    if (argc < 3 || (!bind && strcmp(argv[1], "interleave") != 0))
        return fputs("usage: numa interleave|bind COMMAND...\n", stderr), 2;
    int mode = bind ? MPOL_BIND : MPOL_INTERLEAVE;
    if (syscall(SYS_set_mempolicy, mode, &nodes, 8 * sizeof nodes) != 0) return perror("set_mempolicy"), 1;
    execvp(argv[2], argv + 2);
    return perror(argv[2]), 127;
}
