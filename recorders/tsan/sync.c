/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Synchronisation by pthreads, semaphores and C11 locks: a release before the operation that lets another thread go on,
 * an acquire after the operation that waited for it. */
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

static void acquire(const volatile void *object) { homing_sync(HOMING_SYNC_ACQUIRE, (word)object); }
static void release(const volatile void *object) { homing_sync(HOMING_SYNC_RELEASE, (word)object); }

/* The second object of a lock: the readers of a reader-writer lock, the signals of a condition. Odd, so that it meets
 * no other lock. */
static const volatile void *second(const volatile void *object) { return (const volatile char *)object + 1; }

#define ACQUIRING(name, parameters, arguments, ok, object)                                                             \
   EXPORT int name parameters                                                                                          \
   {                                                                                                                   \
      homing_may_block();                                                                                              \
      int result = REAL(name) arguments;                                                                               \
      if (ok)                                                                                                          \
         acquire(object);                                                                                              \
      return result;                                                                                                   \
   }

#define RELEASING(name, parameters, arguments, object)                                                                 \
   EXPORT int name parameters                                                                                          \
   {                                                                                                                   \
      release(object);                                                                                                 \
      return REAL(name) arguments;                                                                                     \
   }

#define GOT (result == 0 || result == EOWNERDEAD)

/* Tries first: only a thread that must wait gives up its segment. */
EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
   int result = homing_active ? REAL(pthread_mutex_trylock)(m) : EBUSY;
   if (result == EBUSY) {
      homing_may_block();
      result = REAL(pthread_mutex_lock)(m);
   }
   if (GOT)
      acquire(m);
   return result;
}

ACQUIRING(pthread_mutex_trylock, (pthread_mutex_t * m), (m), GOT, m)
ACQUIRING(pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t), (m, t), GOT, m)
ACQUIRING(pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t c, const struct timespec *t), (m, c, t), GOT, m)
RELEASING(pthread_mutex_unlock, (pthread_mutex_t * m), (m), m)

ACQUIRING(mtx_lock, (mtx_t * m), (m), result == thrd_success, m)
ACQUIRING(mtx_trylock, (mtx_t * m), (m), result == thrd_success, m)
ACQUIRING(mtx_timedlock, (mtx_t * m, const struct timespec *t), (m, t), result == thrd_success, m)
RELEASING(mtx_unlock, (mtx_t * m), (m), m)

ACQUIRING(pthread_spin_lock, (pthread_spinlock_t * s), (s), result == 0, s)
ACQUIRING(pthread_spin_trylock, (pthread_spinlock_t * s), (s), result == 0, s)
RELEASING(pthread_spin_unlock, (pthread_spinlock_t * s), (s), s)

/* A reader comes after the writers before it; a writer also after the readers before it. */
ACQUIRING(pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l), result == 0, l)
ACQUIRING(pthread_rwlock_tryrdlock, (pthread_rwlock_t * l), (l), result == 0, l)
ACQUIRING(pthread_rwlock_timedrdlock, (pthread_rwlock_t * l, const struct timespec *t), (l, t), result == 0, l)

#define WRITING(name, parameters, arguments)                                                                           \
   EXPORT int name parameters                                                                                          \
   {                                                                                                                   \
      homing_may_block();                                                                                              \
      int result = REAL(name) arguments;                                                                               \
      if (result == 0) {                                                                                               \
         acquire(l);                                                                                                   \
         acquire(second(l));                                                                                           \
      }                                                                                                                \
      return result;                                                                                                   \
   }

WRITING(pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
WRITING(pthread_rwlock_trywrlock, (pthread_rwlock_t * l), (l))
WRITING(pthread_rwlock_timedwrlock, (pthread_rwlock_t * l, const struct timespec *t), (l, t))

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
   /* Only the holder for writing is in the lock's own field; what it releases, readers and writers wait for. */
   release(l->__data.__cur_writer != 0 ? (const void *)l : (const void *)second(l));
   return REAL(pthread_rwlock_unlock)(l);
}

/* Old programs' conditions have the same names: ask for today's. */
#define CONDITION(name)                                                                                                \
   ({                                                                                                                  \
      static __typeof__(&name) real_;                                                                                  \
      if (real_ == NULL)                                                                                               \
         real_ = (__typeof__(&name))dlvsym(RTLD_NEXT, #name, "GLIBC_2.3.2");                                           \
      real_ != NULL ? real_ : REAL(name);                                                                              \
   })

static int waited(int result, pthread_cond_t *c, pthread_mutex_t *m)
{
   acquire(m);
   if (result == 0)
      acquire(second(c));
   return result;
}

EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
   release(m);
   homing_may_block();
   return waited(CONDITION(pthread_cond_wait)(c, m), c, m);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
   release(m);
   homing_may_block();
   return waited(CONDITION(pthread_cond_timedwait)(c, m, t), c, m);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *t)
{
   release(m);
   homing_may_block();
   return waited(REAL(pthread_cond_clockwait)(c, m, clock, t), c, m);
}

EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
   release(second(c));
   return CONDITION(pthread_cond_signal)(c);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
   release(second(c));
   return CONDITION(pthread_cond_broadcast)(c);
}

EXPORT int cnd_wait(cnd_t *c, mtx_t *m)
{
   release(m);
   homing_may_block();
   int result = REAL(cnd_wait)(c, m);
   waited(result == thrd_success ? 0 : 1, (pthread_cond_t *)c, (pthread_mutex_t *)m);
   return result;
}

EXPORT int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *t)
{
   release(m);
   homing_may_block();
   int result = REAL(cnd_timedwait)(c, m, t);
   waited(result == thrd_success ? 0 : 1, (pthread_cond_t *)c, (pthread_mutex_t *)m);
   return result;
}

RELEASING(cnd_signal, (cnd_t * c), (c), second(c))
RELEASING(cnd_broadcast, (cnd_t * c), (c), second(c))

RELEASING(sem_post, (sem_t * s), (s), s)
ACQUIRING(sem_wait, (sem_t * s), (s), result == 0, s)
ACQUIRING(sem_trywait, (sem_t * s), (s), result == 0, s)
ACQUIRING(sem_timedwait, (sem_t * s, const struct timespec *t), (s, t), result == 0, s)
ACQUIRING(sem_clockwait, (sem_t * s, clockid_t c, const struct timespec *t), (s, c, t), result == 0, s)

/* Barriers. Each instance of a barrier is an object of its own: otherwise a thread that leaves late would seem to wait
 * for those that have already come back to the next instance. */
enum { BARRIERS = 256 };
static struct barrier {
   const volatile void *at;
   word object;
   unsigned count;
   uint64_t arrivals;
} barriers[BARRIERS];

static struct barrier *barrier_of(const volatile void *at)
{
   for (unsigned i = 0; i < BARRIERS; i++)
      if (__atomic_load_n(&barriers[i].at, __ATOMIC_ACQUIRE) == at)
         return &barriers[i];
   return NULL;
}

EXPORT int pthread_barrier_init(pthread_barrier_t *b, const pthread_barrierattr_t *attributes, unsigned count)
{
   struct barrier *entry = barrier_of(b);
   for (unsigned i = 0; entry == NULL && i < BARRIERS; i++) {
      const volatile void *nobody = NULL;
      if (__atomic_compare_exchange_n(&barriers[i].at, &nobody, b, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
         entry = &barriers[i];
   }
   if (entry != NULL) {
      entry->object = homing_object();
      entry->count = count;
      entry->arrivals = 0;
   }
   return REAL(pthread_barrier_init)(b, attributes, count);
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *b)
{
   struct barrier *entry = barrier_of(b);
   if (entry != NULL)
      __atomic_store_n(&entry->at, NULL, __ATOMIC_RELEASE);
   return REAL(pthread_barrier_destroy)(b);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *b)
{
   struct barrier *entry = barrier_of(b); /* arrivals count also while nothing is recorded */
   word object = (word)b; /* a barrier beyond the table: its instances share one object */
   if (entry != NULL && entry->count > 0) {
      uint64_t arrival = __atomic_fetch_add(&entry->arrivals, 1, __ATOMIC_ACQ_REL);
      object = entry->object | (arrival / entry->count) << 32;
   }
   release((void *)object);
   if (entry != NULL)
      homing_meet(object, (unsigned)entry->count);
   homing_may_block();
   int result = REAL(pthread_barrier_wait)(b);
   acquire((void *)object);
   return result;
}

/* pthread_once and call_once: whoever returns comes after the initialiser. */
static __thread void (*once_initialiser)(void);
static __thread const void *once_control;

static void run_once(void)
{
   const void *control = once_control;
   once_initialiser();
   release(control);
}

EXPORT int pthread_once(pthread_once_t *control, void (*initialiser)(void))
{
   if (!homing_active)
      return REAL(pthread_once)(control, initialiser);
   void (*outer)(void) = once_initialiser;
   const void *outer_control = once_control;
   once_initialiser = initialiser;
   once_control = control;
   int result = REAL(pthread_once)(control, run_once);
   once_initialiser = outer;
   once_control = outer_control;
   if (result == 0)
      acquire(control);
   return result;
}
