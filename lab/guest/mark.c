/* Marks address spaces for the observer by a seccomp filter that allows everything (lab.h). */
#include "lab.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

int mark_address_spaces(unsigned mark) {
    struct sock_filter code[] = {
        /* It must look at an argument: the kernel caches the verdict of filters that look only at the number. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, mark, 0, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
