/* Executes a command under a seccomp filter that refuses system calls.
 *
 *   filter EPERM|ENOSYS|kill CALL,... COMMAND...
 */
#define _GNU_SOURCE
#include "filter.h"
#include <stdio.h>
#include <string.h>

static const struct {
   const char *name;
   int number;
} calls[] = {
   {"mbind", SYS_mbind}, {"set_mempolicy", SYS_set_mempolicy}, {"get_mempolicy", SYS_get_mempolicy},
   {"move_pages", SYS_move_pages}, {"perf_event_open", SYS_perf_event_open}, {"signalfd", SYS_signalfd4},
   {"sched_setaffinity", SYS_sched_setaffinity}, {"pidfd_open", SYS_pidfd_open}, {"getcpu", SYS_getcpu},
   {"tgkill", SYS_tgkill}, {"setsid", SYS_setsid}, {"fork", SYS_fork}, {"vfork", SYS_vfork},
};

int main(int argc, char **argv)
{
   int refused[MOST_CALLS];
   unsigned count = 0;
   if (argc < 4)
      return fputs("usage: filter EPERM|ENOSYS|kill CALL,... COMMAND...\n", stderr), 2;
   uint32_t action = strcmp(argv[1], "kill") == 0    ? SECCOMP_RET_KILL_PROCESS
                     : strcmp(argv[1], "EPERM") == 0 ? SECCOMP_RET_ERRNO | EPERM
                                                     : SECCOMP_RET_ERRNO | ENOSYS;
   for (char *name = strtok(argv[2], ","); name; name = strtok(NULL, ",")) {
      unsigned known = 0;
      while (known < sizeof calls / sizeof *calls && strcmp(calls[known].name, name) != 0)
         known++;
      if (known == sizeof calls / sizeof *calls || count == MOST_CALLS)
         return fprintf(stderr, "filter: no call %s\n", name), 2;
      refused[count++] = calls[known].number;
   }
   if (install(action, refused, count, 0) != 0)
      return perror("filter"), 1;
   execvp(argv[3], argv + 3);
   return perror(argv[3]), 1;
}
