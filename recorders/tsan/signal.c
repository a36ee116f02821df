/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Signal handlers of the program. A handler may refer to memory at any instruction, and so also while the thread is in
 * the middle of writing to its stream. Taking room is one instruction, so the handler's words then lie behind the
 * unfinished ones; but no segment must be posted before those are written. Handlers are therefore called through a
 * function that finishes an interrupted reference, and that knows whether the runtime's other code was interrupted:
 * that code is one section, `homing_text`. While segments change, signals are blocked. */
#include "runtime.h"

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

extern HIDDEN const char __start_homing_text[], __stop_homing_text[];
/* Where the stores of homing_reference() are, relative to the entry. */
extern HIDDEN const int32_t __start_homing_stores[], __stop_homing_stores[];

union handler {
   void (*plain)(int);
   void (*with_details)(int, siginfo_t *, void *);
};

/* What the program installed. */
static struct {
   union handler handler;
   int flags;
} installed[NSIG];

/* If the next instruction is the store of homing_reference(), does it. */
static int finish_reference(greg_t *registers)
{
   for (const int32_t *store = __start_homing_stores; store < __stop_homing_stores; store++)
      if ((word)store + (word)*store == (word)registers[REG_RIP]) {
         *(word *)registers[REG_RAX] = (word)registers[REG_RDX];
         registers[REG_RIP] += HOMING_STORE_BYTES;
         return 1;
      }
   return 0;
}

static void call_handler(int signal, siginfo_t *details, void *context)
{
   ucontext_t *interrupted = context;
   greg_t *registers = interrupted->uc_mcontext.gregs;
   const char *at = (const char *)registers[REG_RIP];
   struct stream *self = &homing_self;
   struct stack_range before = self->interrupted;
   int in_runtime = self->inside || (at >= __start_homing_text && at < __stop_homing_text);
   word outer = self->handler_frame;
   self->handler_frame = (word)__builtin_frame_address(0);
   struct kept kept = homing_begin_handler();
   if ((kept.begun || (in_runtime && !finish_reference(registers))) && before.end == 0) {
      const stack_t *other = &interrupted->uc_stack;
      word here = (word)__builtin_frame_address(0), start = (word)other->ss_sp;
      int on_other = !(other->ss_flags & SS_DISABLE) && here - start < other->ss_size;
      self->interrupted = on_other ? (struct stack_range){start, start + other->ss_size}
                                   : (struct stack_range){0, (word)here + 1};
   }
   if (installed[signal].flags & SA_SIGINFO)
      installed[signal].handler.with_details(signal, details, context);
   else
      installed[signal].handler.plain(signal);
   homing_end_handler(kept);
   self->interrupted = before;
   self->handler_frame = outer;
}

/* A handler that jumps out of itself never returns: it has ended, and the runtime's code that it interrupted with it,
 * when the stack it ran on is no longer in use. */
int homing_interrupted(void)
{
   struct stream *self = &homing_self;
   word here = (word)__builtin_frame_address(0);
   if (self->interrupted.end != 0 && (here < self->interrupted.start || here >= self->interrupted.end)) {
      self->interrupted = (struct stack_range){0, 0};
      self->inside = 0;
      homing_abandon_handler();
   }
   return self->interrupted.end != 0;
}

EXPORT int sigaction(int signal, const struct sigaction *restrict new, struct sigaction *restrict old)
{
   if (signal <= 0 || signal >= NSIG)
      return REAL(sigaction)(signal, new, old);
   __typeof__(installed[0]) before = installed[signal];
   struct sigaction ours, was;
   int is_handler = new != NULL && new->sa_handler != SIG_DFL && new->sa_handler != SIG_IGN;
   if (is_handler) {
      ours = *new;
      installed[signal].handler.with_details = new->sa_sigaction;
      installed[signal].flags = new->sa_flags;
      ours.sa_sigaction = call_handler;
      ours.sa_flags |= SA_SIGINFO;
   }
   int result = REAL(sigaction)(signal, is_handler ? &ours : new, &was);
   if (result != 0) {
      installed[signal] = before;
      return result;
   }
   if (old != NULL) {
      *old = was;
      if (was.sa_sigaction == call_handler) {
         old->sa_sigaction = before.handler.with_details;
         old->sa_flags = (was.sa_flags & ~SA_SIGINFO) | (before.flags & SA_SIGINFO);
      }
   }
   return 0;
}

/* As glibc has it: the handler stays, and calls that it interrupts are restarted. */
EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
   struct sigaction new = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
   if (handler == SIG_ERR || number <= 0 || number >= NSIG) {
      errno = EINVAL;
      return SIG_ERR;
   }
   sigemptyset(&new.sa_mask);
   sigaddset(&new.sa_mask, number);
   return sigaction(number, &new, &old) == 0 ? old.sa_handler : SIG_ERR;
}
