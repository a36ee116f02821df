/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Creation, end and join of threads, and fork. */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <threads.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void __libc_free(void *at);

/* What a new thread is handed. */
struct birth {
   void *(*run)(void *);
   int (*run_c11)(void *);
   void *argument;
   uint32_t thread, recording;
};

/* Numbers of the threads that can still be joined, by handle. */
struct joinable {
   struct joinable *next;
   pthread_t handle;
   uint32_t thread, recording;
};
static struct joinable *joinables;
static int joinables_lock;

static void remember(pthread_t handle, uint32_t thread)
{
   struct joinable *entry = __libc_malloc(sizeof *entry);
   if (entry == NULL)
      return;
   *entry = (struct joinable){.handle = handle, .thread = thread, .recording = homing_recording()};
   homing_lock(&joinables_lock);
   entry->next = joinables;
   joinables = entry;
   homing_unlock(&joinables_lock);
}

/* The thread's number, which is then forgotten; 0 if it was never known, or in an earlier recording. */
static uint32_t forget(pthread_t handle)
{
   uint32_t thread = 0;
   struct joinable *found = NULL;
   homing_lock(&joinables_lock);
   for (struct joinable **at = &joinables; *at != NULL; at = &(*at)->next)
      if (pthread_equal((*at)->handle, handle)) {
         found = *at;
         *at = found->next;
         thread = found->recording == homing_recording() ? found->thread : 0;
         break;
      }
   homing_unlock(&joinables_lock);
   __libc_free(found);
   return thread;
}

static struct birth *announce(struct birth birth)
{
   struct birth *sent = __libc_malloc(sizeof *sent);
   if (sent == NULL)
      return NULL;
   birth.recording = homing_recording();
   birth.thread = homing_new_thread();
   *sent = birth;
   homing_send(2, HOMING_WORD(HOMING_THREAD_START, sent->thread), homing_self.thread, 0, 0, 0);
   return sent;
}

static struct birth take(struct birth *sent)
{
   struct birth birth = *sent;
   __libc_free(sent);
   homing_begin_thread(birth.thread, birth.recording);
   return birth;
}

static void *begin(void *argument)
{
   struct birth birth = take(argument);
   return birth.run(birth.argument);
}

static int begin_c11(void *argument)
{
   struct birth birth = take(argument);
   return birth.run_c11(birth.argument);
}

EXPORT int pthread_create(pthread_t *handle, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
   struct birth *sent =
      homing_active ? announce((struct birth){.run = run, .argument = argument}) : NULL;
   if (sent == NULL)
      return REAL(pthread_create)(handle, attributes, run, argument);
   uint32_t thread = sent->thread;
   int result = REAL(pthread_create)(handle, attributes, begin, sent);
   if (result != 0) {
      __libc_free(sent);
      return result;
   }
   int detached = PTHREAD_CREATE_JOINABLE;
   if (attributes == NULL || pthread_attr_getdetachstate(attributes, &detached) != 0 ||
       detached == PTHREAD_CREATE_JOINABLE)
      remember(*handle, thread);
   return 0;
}

EXPORT int thrd_create(thrd_t *handle, thrd_start_t run, void *argument)
{
   struct birth *sent =
      homing_active ? announce((struct birth){.run_c11 = run, .argument = argument}) : NULL;
   if (sent == NULL)
      return REAL(thrd_create)(handle, run, argument);
   uint32_t thread = sent->thread;
   int result = REAL(thrd_create)(handle, begin_c11, sent);
   if (result == thrd_success)
      remember((pthread_t)*handle, thread);
   else
      __libc_free(sent);
   return result;
}

static void joined(pthread_t handle)
{
   uint32_t thread = forget(handle);
   if (thread != 0 && homing_active)
      homing_send(1, HOMING_WORD(HOMING_THREAD_JOIN, thread), 0, 0, 0, 0);
}

#define JOIN(name, type, parameters, arguments)                                                                        \
   EXPORT int name parameters                                                                                          \
   {                                                                                                                   \
      homing_may_block();                                                                                              \
      int result = REAL(name) arguments;                                                                               \
      if (result == 0)                                                                                                 \
         joined((pthread_t)handle);                                                                                    \
      return result;                                                                                                   \
   }

JOIN(pthread_join, pthread_t, (pthread_t handle, void **value), (handle, value))
JOIN(pthread_tryjoin_np, pthread_t, (pthread_t handle, void **value), (handle, value))
JOIN(pthread_timedjoin_np, pthread_t, (pthread_t handle, void **value, const struct timespec *until),
     (handle, value, until))
JOIN(thrd_join, thrd_t, (thrd_t handle, int *value), (handle, value))

EXPORT int pthread_detach(pthread_t handle)
{
   forget(handle);
   return REAL(pthread_detach)(handle);
}

EXPORT pid_t fork(void)
{
   pid_t child = REAL(fork)();
   if (child > 0) {
      homing_child(); /* also of a child that is not recorded */
      if (homing_active)
         homing_send(1, HOMING_WORD(HOMING_FORK, (word)child), 0, 0, 0, 0);
   }
   return child;
}
