/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * execveat(FD, "", ..., AT_EMPTY_PATH) of a file that has no path: a memfd, or one that was removed. Valgrind looks for
 * the path that the kernel shows for the descriptor, finds no such file, and the call would fail. So the process leaves
 * Valgrind here: the kernel executes the file, and it runs unrecorded.
 */
#include "homing.h"

/* Of the core, which the tool is linked with, but not among the headers for tools. */
extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);
extern Bool VG_(resolve_filename)(Int fd, const HChar** path);
extern HChar** VG_(env_clone)(HChar** environment);
extern void VG_(env_remove_valgrind_env_stuff)(HChar** environment);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId tid, Int how, vki_sigset_t* set, vki_sigset_t* before);
extern Int VG_(sigprocmask)(Int how, const vki_sigset_t* set, vki_sigset_t* before);
extern Int VG_(setrlimit)(Int resource, const struct vki_rlimit* limit);
extern struct vki_rlimit VG_(client_rlimit_data);

enum { EMPTY_PATH = 0x1000 };

/* Whether the file of a descriptor is the one that stands under the path that the kernel shows for it. */
static Bool has_path(Int fd)
{
   const HChar* path;
   struct vg_stat by_path, own;
   return VG_(resolve_filename)(fd, &path) && VG_(fstat)(fd, &own) == 0 && !sr_isError(VG_(stat)(path, &by_path)) &&
          own.dev == by_path.dev && own.ino == by_path.ino;
}

/* Whether a list of pointers that ends with NULL is the client's memory up to its end. */
static Bool is_list(const HChar* const* list)
{
   for (; VG_(am_is_valid_for_client)((Addr)list, sizeof *list, VKI_PROT_READ); list++)
      if (*list == NULL)
         return True;
   return False;
}

void homing_exec_without_path(ThreadId tid, const UWord* args)
{
   const HChar* path = (const HChar*)args[1];
   vki_sigset_t mask, before;
   if (!(args[4] & EMPTY_PATH) || !VG_(am_is_valid_for_client)(args[1], 1, VKI_PROT_READ) || *path != 0 ||
       has_path((Int)args[0]) || !is_list((const HChar* const*)args[3]))
      return;
   HChar** environment = VG_(env_clone)((HChar**)args[3]);
   VG_(env_remove_valgrind_env_stuff)(environment);
   VG_(umsg)("a file without a path (execveat): it runs unrecorded\n");
   VG_(setrlimit)(VKI_RLIMIT_DATA, &VG_(client_rlimit_data));
   VG_(do_sys_sigprocmask)(tid, VKI_SIG_SETMASK, NULL, &mask);
   VG_(sigprocmask)(VKI_SIG_SETMASK, &mask, &before);
   VG_(do_syscall)(__NR_execveat, args[0], args[1], args[2], (UWord)environment, args[4], 0, 0, 0);
   /* It failed, and so will Valgrind. */
   VG_(sigprocmask)(VKI_SIG_SETMASK, &before, NULL);
}
