/* A seccomp filter of some system calls, with an action for them. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_CALLS = 32 };

/* As programs install it: by prctl, or by the C library's `syscall`, as libseccomp does. */
static int install(uint32_t action, const int *calls, unsigned count, int by_syscall)
{
   struct sock_filter code[2 * MOST_CALLS + 2] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
   };
   unsigned short length = 1;
   for (unsigned i = 0; i < count && i < MOST_CALLS; i++) {
      code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
      code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
   }
   code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
   struct sock_fprog program = {length, code};
   if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
      return -1;
   return by_syscall ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                     : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
