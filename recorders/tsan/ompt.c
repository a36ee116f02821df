/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * OpenMP as clang compiles it: LLVM's libomp reports teams, barriers and tasks through its tool interface (OpenMP 5.0,
 * section 4), and the few calls whose release must be seen before it happens are wrapped: critical, ordered, reduce.
 * Locks are wrapped in gomp.c: they have the same names. */
#include "runtime.h"

#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void __libc_free(void *at);

/* The parts of the interface (omp-tools.h) that are used here; gcc does not ship the header. */
typedef union {
   uint64_t value;
   void *ptr;
} data;
typedef void (*any_function)(void);
typedef any_function (*lookup_function)(const char *name);
typedef int (*set_callback_function)(int which, any_function callback);
typedef struct {
   int (*initialize)(lookup_function lookup, int device, data *tool);
   void (*finalize)(data *tool);
   data tool;
} start_result;

enum { PARALLEL_BEGIN = 3, TASK_CREATE = 5, TASK_SCHEDULE = 6, IMPLICIT_TASK = 7, SYNC_REGION = 23 };
enum { SCOPE_BEGIN = 1, SCOPE_END = 2 };
enum { SYNC_TASKWAIT = 5, SYNC_TASKGROUP = 6, SYNC_REDUCTION = 7 };
enum { TASK_COMPLETE = 1, TASK_CANCEL = 3 };
enum { TASK_EXPLICIT = 4 };

/* A task, implicit (a member of a team) or explicit. */
struct task {
   word team;     /* object of the team */
   word object;   /* of this task; its children release it in the role of a join */
   word parent;
   word barriers; /* implicit tasks: barriers so far */
   int is_explicit;
   int depends;
   unsigned threads; /* of its team, of an implicit one */
};

/* Set by the first explicit task: from then on barriers also wait for tasks. */
static int tasks_seen;

static void acquire(word object) { homing_sync(HOMING_SYNC_ACQUIRE, object); }
static void release(word object) { homing_sync(HOMING_SYNC_RELEASE, object); }

static struct task *new_task(word team, word parent, int is_explicit)
{
   struct task *task = __libc_malloc(sizeof *task);
   if (task != NULL)
      *task = (struct task){
         .team = team, .object = homing_object(), .parent = parent, .barriers = 0, .is_explicit = is_explicit};
   return task;
}

static void parallel_begin(data *encountering, const void *frame, data *parallel, unsigned threads, int flags,
                           const void *code)
{
   (void)encountering, (void)frame, (void)threads, (void)flags, (void)code;
   homing_are_idle();
   parallel->value = homing_object();
   release(parallel->value + ROLE_FORK);
}

static void implicit_task(int scope, data *parallel, data *task, unsigned threads, unsigned index, int flags)
{
   (void)index, (void)flags;
   if (scope == SCOPE_BEGIN) {
      word team = parallel != NULL ? parallel->value : 0;
      struct task *own = task->ptr = new_task(team, 0, 0);
      if (own != NULL)
         own->threads = threads;
      if (team != 0)
         acquire(team + ROLE_FORK);
   } else if (task != NULL) {
      __libc_free(task->ptr);
      task->ptr = NULL;
   }
}

static void task_create(data *encountering, const void *frame, data *created, int flags, int depends, const void *code)
{
   (void)frame, (void)code;
   struct task *parent = encountering != NULL ? encountering->ptr : NULL;
   if (!(flags & TASK_EXPLICIT) || parent == NULL)
      return;
   struct task *task = new_task(parent->team, parent->object, 1);
   created->ptr = task;
   __atomic_store_n(&tasks_seen, 1, __ATOMIC_RELAXED);
   if (task == NULL)
      return;
   task->depends = depends;
   release(task->object);
}

static void task_schedule(data *prior_data, int status, data *next_data)
{
   struct task *prior = prior_data != NULL ? prior_data->ptr : NULL, *next = next_data != NULL ? next_data->ptr : NULL;
   if (prior != NULL && prior->is_explicit) {
      if (status == TASK_COMPLETE || status == TASK_CANCEL) {
         release(prior->parent + ROLE_JOIN);
         release(prior->team + ROLE_TASKS);
         __libc_free(prior);
         prior_data->ptr = NULL;
      } else
         release(prior->object); /* an untied task may go on elsewhere */
   }
   if (next != NULL && next->is_explicit) {
      acquire(next->object);
      if (next->depends) /* on which tasks is not said: on all that have finished */
         acquire(next->team + ROLE_TASKS);
   }
}

static void sync_region(int kind, int scope, data *parallel, data *task_data, const void *code)
{
   (void)parallel, (void)code;
   struct task *task = task_data != NULL ? task_data->ptr : NULL;
   if (task == NULL || kind == SYNC_REDUCTION)
      return;
   if (kind == SYNC_TASKWAIT || kind == SYNC_TASKGROUP) {
      if (scope == SCOPE_END)
         acquire(kind == SYNC_TASKWAIT ? task->object + ROLE_JOIN : task->team + ROLE_TASKS);
      return;
   }
   if (scope == SCOPE_BEGIN) {
      release(task->team + (++task->barriers << 32));
      homing_meet(task->team + (task->barriers << 32), task->threads);
      homing_may_block();
      return;
   }
   acquire(task->team + (task->barriers << 32));
   if (__atomic_load_n(&tasks_seen, __ATOMIC_RELAXED))
      acquire(task->team + ROLE_TASKS);
}

static int initialize(lookup_function lookup, int device, data *tool)
{
   (void)device, (void)tool;
   set_callback_function set_callback = (set_callback_function)lookup("ompt_set_callback");
   if (set_callback == NULL)
      return 0;
   set_callback(PARALLEL_BEGIN, (any_function)parallel_begin);
   set_callback(IMPLICIT_TASK, (any_function)implicit_task);
   set_callback(TASK_CREATE, (any_function)task_create);
   set_callback(TASK_SCHEDULE, (any_function)task_schedule);
   set_callback(SYNC_REGION, (any_function)sync_region);
   return 1;
}

static void finalize(data *tool) { (void)tool; }

/* libomp asks every program for its tool. A recording may begin later (attach.c), but then another tool comes first. */
start_result *ompt_start_tool(unsigned version, const char *runtime);
EXPORT start_result *ompt_start_tool(unsigned version, const char *runtime)
{
   (void)version, (void)runtime;
   static start_result result = {.initialize = initialize, .finalize = finalize};
   homing_start();
   return homing_active || (homing_may_be_attached && secure_getenv("OMP_TOOL_LIBRARIES") == NULL) ? &result : NULL;
}

/* The calls that clang emits for critical, ordered and reduction. */

#define CALL(type, name, parameters, arguments, before, after)                                                         \
   type name parameters;                                                                                               \
   EXPORT type name parameters                                                                                         \
   {                                                                                                                   \
      before;                                                                                                          \
      REAL(name) arguments;                                                                                            \
      after;                                                                                                           \
   }

CALL(void, __kmpc_critical, (void *at, int thread, void *lock), (at, thread, lock), homing_may_block(),
     acquire((word)lock))
CALL(void, __kmpc_critical_with_hint, (void *at, int thread, void *lock, uint32_t hint), (at, thread, lock, hint),
     homing_may_block(), acquire((word)lock))
CALL(void, __kmpc_end_critical, (void *at, int thread, void *lock), (at, thread, lock), release((word)lock), )
CALL(void, __kmpc_ordered, (void *at, int thread), (at, thread), homing_may_block(), acquire(OBJECT_CRITICAL))
CALL(void, __kmpc_end_ordered, (void *at, int thread), (at, thread), release(OBJECT_CRITICAL), )
CALL(void, __kmpc_end_reduce, (void *at, int thread, void *lock), (at, thread, lock), release((word)lock), )
CALL(void, __kmpc_end_reduce_nowait, (void *at, int thread, void *lock), (at, thread, lock), release((word)lock), )

typedef void combine(void *, void *);
#define REDUCE(name)                                                                                                   \
   int name(void *at, int thread, int count, size_t bytes, void *values, combine *run, void *lock);                    \
   EXPORT int name(void *at, int thread, int count, size_t bytes, void *values, combine *run, void *lock)              \
   {                                                                                                                   \
      int method = REAL(name)(at, thread, count, bytes, values, run, lock);                                            \
      if (method == 1)                                                                                                 \
         acquire((word)lock);                                                                                          \
      return method;                                                                                                   \
   }
REDUCE(__kmpc_reduce)
REDUCE(__kmpc_reduce_nowait)
