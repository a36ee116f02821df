/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * OpenMP as gcc and gfortran compile it: the entry points of libgomp that instrumented code calls. Each does what
 * libgomp does and sends the edges: fork and join of a team, barriers, critical sections, ordered, locks, tasks.
 *
 * A team is the record on the stack of the thread that made it; a thread's current implicit task is in `here`. Barriers
 * are counted by each thread of the team, and instance n of a barrier is an object of its own. */
#include "runtime.h"

#include <stdbool.h>
#include <string.h>

int omp_get_num_threads(void);

typedef void function(void *);

struct team {
   void *reductions; /* first: where libgomp looks for them in the region's data */
   function *run;
   void *data;
   word object; /* with a ROLE_*; its barriers count upwards from 1 in the high half */
   int tasks;   /* a task was created: barriers wait for tasks, too */
};

static __thread struct {
   struct team *team;
   word barriers;
   word task;     /* object of the task that runs; its children release it, its taskwait acquires it */
} here;

static void acquire(word object) { homing_sync(HOMING_SYNC_ACQUIRE, object); }
static void release(word object) { homing_sync(HOMING_SYNC_RELEASE, object); }

/* Teams. */

static void run_member(void *argument)
{
   struct team *team = argument;
   __typeof__(here) outer = here;
   here.team = team;
   here.barriers = 0;
   here.task = homing_object();
   acquire(team->object + ROLE_FORK);
   team->run(team->data);
   release(team->object + ROLE_JOIN);
   here = outer;
   homing_may_block(); /* a pool thread now sleeps inside libgomp */
}

static void fork_team(struct team *team, function *run, void *data)
{
   homing_are_idle();
   *team = (struct team){.run = run, .data = data, .object = homing_object()};
   release(team->object + ROLE_FORK);
}

static void join_team(struct team *team)
{
   acquire(team->object + ROLE_JOIN);
   if (team->tasks)
      acquire(team->object + ROLE_TASKS);
}

void GOMP_parallel(function *run, void *data, unsigned threads, unsigned flags);
EXPORT void GOMP_parallel(function *run, void *data, unsigned threads, unsigned flags)
{
   struct team team;
   fork_team(&team, run, data);
   REAL(GOMP_parallel)(run_member, &team, threads, flags);
   join_team(&team);
}

unsigned GOMP_parallel_reductions(function *run, void *data, unsigned threads, unsigned flags);
EXPORT unsigned GOMP_parallel_reductions(function *run, void *data, unsigned threads, unsigned flags)
{
   struct team team;
   fork_team(&team, run, data);
   team.reductions = *(void **)data;
   unsigned made = REAL(GOMP_parallel_reductions)(run_member, &team, threads, flags);
   join_team(&team);
   return made;
}

void GOMP_parallel_sections(function *run, void *data, unsigned threads, unsigned count, unsigned flags);
EXPORT void GOMP_parallel_sections(function *run, void *data, unsigned threads, unsigned count, unsigned flags)
{
   struct team team;
   fork_team(&team, run, data);
   REAL(GOMP_parallel_sections)(run_member, &team, threads, count, flags);
   join_team(&team);
}

#define LOOP_TEAM(name, extra_parameters, extra_arguments)                                                             \
   void GOMP_parallel_loop_##name(function *run, void *data, unsigned threads, long start, long end,                   \
                                  long step extra_parameters, unsigned flags);                                         \
   EXPORT void GOMP_parallel_loop_##name(function *run, void *data, unsigned threads, long start, long end,            \
                                         long step extra_parameters, unsigned flags)                                   \
   {                                                                                                                   \
      struct team team;                                                                                                \
      fork_team(&team, run, data);                                                                                     \
      REAL(GOMP_parallel_loop_##name)(run_member, &team, threads, start, end, step extra_arguments, flags);            \
      join_team(&team);                                                                                                \
   }

#define COMMA ,
#define CHUNKED(name) LOOP_TEAM(name, COMMA long chunk, COMMA chunk)
CHUNKED(static)
CHUNKED(dynamic)
CHUNKED(guided)
CHUNKED(nonmonotonic_dynamic)
CHUNKED(nonmonotonic_guided)
LOOP_TEAM(runtime, , )
LOOP_TEAM(nonmonotonic_runtime, , )
LOOP_TEAM(maybe_nonmonotonic_runtime, , )

/* Barriers, and the constructs that end with one. */

static word arrive(void)
{
   if (here.team == NULL)
      return 0;
   word object = here.team->object + (++here.barriers << 32);
   release(object);
   if (homing_counts_meetings())
      homing_meet(object, (unsigned)REAL(omp_get_num_threads)());
   homing_may_block();
   return object;
}

static void leave(word object)
{
   if (object == 0)
      return;
   acquire(object);
   if (__atomic_load_n(&here.team->tasks, __ATOMIC_RELAXED))
      acquire(here.team->object + ROLE_TASKS);
}

#define BARRIER(name)                                                                                                  \
   void name(void);                                                                                                    \
   EXPORT void name(void)                                                                                              \
   {                                                                                                                   \
      word object = arrive();                                                                                          \
      REAL(name)();                                                                                                    \
      leave(object);                                                                                                   \
   }
#define BARRIER_CANCEL(name)                                                                                           \
   bool name(void);                                                                                                    \
   EXPORT bool name(void)                                                                                              \
   {                                                                                                                   \
      word object = arrive();                                                                                          \
      bool cancelled = REAL(name)();                                                                                   \
      leave(object);                                                                                                   \
      return cancelled;                                                                                                \
   }

BARRIER(GOMP_barrier)
BARRIER(GOMP_loop_end)
BARRIER(GOMP_sections_end)
BARRIER_CANCEL(GOMP_barrier_cancel)
BARRIER_CANCEL(GOMP_loop_end_cancel)
BARRIER_CANCEL(GOMP_sections_end_cancel)

/* `single copyprivate`: the one that runs the block passes a pointer to the rest. */
void *GOMP_single_copy_start(void);
EXPORT void *GOMP_single_copy_start(void)
{
   word object = here.team != NULL ? here.team->object + (++here.barriers << 32) : 0;
   void *data = REAL(GOMP_single_copy_start)();
   if (data != NULL)
      leave(object);
   return data;
}

void GOMP_single_copy_end(void *data);
EXPORT void GOMP_single_copy_end(void *data)
{
   if (here.team != NULL)
      release(here.team->object + (here.barriers << 32));
   REAL(GOMP_single_copy_end)(data);
}

/* Critical sections, ordered, locks. */

#define ENTER(name, parameters, arguments, object)                                                                     \
   void name parameters;                                                                                               \
   EXPORT void name parameters                                                                                         \
   {                                                                                                                   \
      homing_may_block();                                                                                              \
      REAL(name) arguments;                                                                                            \
      acquire((word)(object));                                                                                         \
   }
#define EXIT(name, parameters, arguments, object)                                                                      \
   void name parameters;                                                                                               \
   EXPORT void name parameters                                                                                         \
   {                                                                                                                   \
      release((word)(object));                                                                                         \
      REAL(name) arguments;                                                                                            \
   }
#define TEST(name)                                                                                                     \
   int name(void *lock);                                                                                               \
   EXPORT int name(void *lock)                                                                                         \
   {                                                                                                                   \
      int got = REAL(name)(lock);                                                                                      \
      if (got)                                                                                                         \
         acquire((word)lock);                                                                                          \
      return got;                                                                                                      \
   }

ENTER(GOMP_critical_start, (void), (), OBJECT_CRITICAL)
EXIT(GOMP_critical_end, (void), (), OBJECT_CRITICAL)
ENTER(GOMP_critical_name_start, (void **lock), (lock), lock)
EXIT(GOMP_critical_name_end, (void **lock), (lock), lock)
ENTER(GOMP_atomic_start, (void), (), OBJECT_ATOMIC)
EXIT(GOMP_atomic_end, (void), (), OBJECT_ATOMIC)
ENTER(GOMP_ordered_start, (void), (), here.team != NULL ? here.team->object + ROLE_ORDERED : OBJECT_CRITICAL)
EXIT(GOMP_ordered_end, (void), (), here.team != NULL ? here.team->object + ROLE_ORDERED : OBJECT_CRITICAL)

#define LOCKS(suffix)                                                                                                  \
   ENTER(omp_set_lock##suffix, (void *lock), (lock), lock)                                                             \
   EXIT(omp_unset_lock##suffix, (void *lock), (lock), lock)                                                            \
   TEST(omp_test_lock##suffix)                                                                                         \
   ENTER(omp_set_nest_lock##suffix, (void *lock), (lock), lock)                                                        \
   EXIT(omp_unset_nest_lock##suffix, (void *lock), (lock), lock)                                                       \
   TEST(omp_test_nest_lock##suffix)
LOCKS()
LOCKS(_) /* gfortran */

/* Tasks. libgomp copies the task's data; ours go in front of them. The first two words stay free: taskloop writes its
 * bounds there, for the task's function to find at the start of its data. */

struct task {
   long bounds[2];
   function *run;
   void (*copy)(void *, void *);
   void *data;        /* the creator's, to be copied */
   size_t bytes;
   struct team *team;
   word object;       /* this task */
   word parent;       /* the task whose taskwait waits for it */
   uint32_t offset;   /* from this record to the copied data */
   bool is_loop;
   bool has_depend;
};

static void run_task(void *argument)
{
   struct task *task = argument;
   char *data = (char *)argument + task->offset;
   __typeof__(here) outer = here;
   acquire(task->object);
   if (task->has_depend && task->team != NULL)
      acquire(task->team->object + ROLE_TASKS);
   here.task = task->object + ROLE_JOIN;
   here.team = task->team;
   if (task->is_loop)
      ((long *)data)[0] = task->bounds[0], ((long *)data)[1] = task->bounds[1];
   task->run(data);
   release(task->parent);
   if (task->team != NULL)
      release(task->team->object + ROLE_TASKS);
   here = outer;
}

/* libgomp calls this before anybody can run the task, so what it writes is released here. */
static void copy_task(void *to, void *from)
{
   struct task *task = from;
   char *data = (char *)to + task->offset;
   *(struct task *)to = *task;
   if (task->copy != NULL)
      task->copy(data, task->data);
   else
      memcpy(data, task->data, task->bytes);
   release(task->object);
}

/* The record that stands for the task while libgomp copies it. */
#define TASK_RECORD(run_, data_, copy_, bytes_, alignment)                                                             \
   size_t align_ = (alignment) > (long)_Alignof(struct task) ? (size_t)(alignment) : _Alignof(struct task);            \
   size_t offset_ = (sizeof(struct task) + align_ - 1) & ~(align_ - 1);                                                \
   struct task *task = &(struct task){0};                                                                              \
   *task = (struct task){.run = (run_),                                                                                \
                         .copy = (copy_),                                                                              \
                         .data = (data_),                                                                              \
                         .team = here.team,                                                                            \
                         .object = homing_object(),                                                                    \
                         .parent = here.task,                                                                          \
                         .bytes = (size_t)(bytes_),                                                                    \
                         .offset = (uint32_t)offset_};                                                                 \
   if (here.team != NULL)                                                                                              \
      __atomic_store_n(&here.team->tasks, 1, __ATOMIC_RELAXED);

/* gomp-constants.h */
enum { TASK_DEPEND = 1 << 3, TASK_REDUCTION = 1 << 12, TASK_DETACH = 1 << 13 };

void GOMP_task(function *run, void *data, void (*copy)(void *, void *), long bytes, long alignment, bool now,
               unsigned flags, void **depend, int priority, void *detach);
EXPORT void GOMP_task(function *run, void *data, void (*copy)(void *, void *), long bytes, long alignment, bool now,
                      unsigned flags, void **depend, int priority, void *detach)
{
   if (!homing_active || (flags & TASK_DETACH)) { /* a detached task's event lies in its data */
      REAL(GOMP_task)(run, data, copy, bytes, alignment, now, flags, depend, priority, detach);
      return;
   }
   TASK_RECORD(run, data, copy, bytes, alignment)
   task->has_depend = flags & TASK_DEPEND;
   REAL(GOMP_task)
   (run_task, task, copy_task, (long)offset_ + bytes, (long)align_, now, flags, depend, priority,
    detach);
}

#define TASKLOOP(name, type)                                                                                           \
   void name(function *run, void *data, void (*copy)(void *, void *), long bytes, long alignment, unsigned flags,      \
             unsigned long tasks, int priority, type start, type end, type step);                                      \
   EXPORT void name(function *run, void *data, void (*copy)(void *, void *), long bytes, long alignment,               \
                    unsigned flags, unsigned long tasks, int priority, type start, type end, type step)                \
   {                                                                                                                   \
      if (!homing_active || (flags & TASK_REDUCTION)) { /* reductions: libgomp reads them from the data */             \
         REAL(name)(run, data, copy, bytes, alignment, flags, tasks, priority, start, end, step);                      \
         return;                                                                                                       \
      }                                                                                                                \
      TASK_RECORD(run, data, copy, bytes, alignment)                                                                   \
      task->is_loop = true;                                                                                            \
      word parent = here.task;                                                                                         \
      REAL(name)(run_task, task, copy_task, (long)offset_ + bytes, (long)align_, flags, tasks, priority, start, end,   \
                 step);                                                                                                \
      acquire(parent);                                                                                                 \
   }

TASKLOOP(GOMP_taskloop, long)
TASKLOOP(GOMP_taskloop_ull, unsigned long long)

#define TASK_WAIT(name, parameters, arguments)                                                                         \
   void name parameters;                                                                                               \
   EXPORT void name parameters                                                                                         \
   {                                                                                                                   \
      REAL(name) arguments;                                                                                            \
      acquire(here.task);                                                                                              \
      if (here.team != NULL && here.team->tasks)                                                                       \
         acquire(here.team->object + ROLE_TASKS);                                                                      \
   }

TASK_WAIT(GOMP_taskwait, (void), ())
TASK_WAIT(GOMP_taskwait_depend, (void **depend), (depend))
TASK_WAIT(GOMP_taskgroup_end, (void), ())
