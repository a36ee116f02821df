/* Race-free programs, one for each way of synchronising: `constructs NAME`. The test replays the recorded references
 * and finds every pair that conflicts ordered by the recorded edges. Prints a value that shows that the program still
 * computes what it should. */
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 512 };
static long a[N], b[N], sum;
static long *const shared = a;

static void parallel_for(void)
{
#pragma omp parallel for
   for (int i = 0; i < N; i++)
      a[i] = i;
#pragma omp parallel for schedule(static, 8)
   for (int i = 0; i < N; i++)
      b[i] = a[N - 1 - i];
   for (int i = 0; i < N; i++)
      sum += b[i];
}

static void dynamic_for(void)
{
#pragma omp parallel for schedule(dynamic, 8)
   for (int i = 0; i < N; i++)
      a[i] = i;
#pragma omp parallel for schedule(guided)
   for (int i = 0; i < N; i++)
      b[i] = a[N - 1 - i];
#pragma omp parallel for schedule(runtime)
   for (int i = 0; i < N; i++)
      a[i] = b[N - 1 - i];
   for (int i = 0; i < N; i++)
      sum += a[i];
}

static void barrier(void)
{
#pragma omp parallel
   {
      int me = omp_get_thread_num(), all = omp_get_num_threads();
      for (int round = 0; round < 20; round++) {
         a[me] = round;
#pragma omp barrier
         b[me] = a[(me + 1) % all];
#pragma omp barrier
      }
   }
   sum = b[0];
}

static void reduction(void)
{
   long total = 0;
#pragma omp parallel for reduction(+ : total)
   for (int i = 0; i < N; i++)
      total += i;
   sum = total;
}

static void critical(void)
{
#pragma omp parallel for
   for (int i = 0; i < N; i++) {
#pragma omp critical
      sum += i;
#pragma omp critical(other)
      a[0] += i;
   }
}

static void ordered(void)
{
#pragma omp parallel for ordered schedule(static, 1)
   for (int i = 0; i < 64; i++) {
#pragma omp ordered
      sum = 2 * sum % 1000 + i;
   }
}

static void single(void)
{
#pragma omp parallel
   {
      long mine = 0;
#pragma omp single
      a[0] = 7;
      b[omp_get_thread_num()] = a[0];
#pragma omp single copyprivate(mine)
      {
         a[1] = 5;
         mine = 5;
      }
#pragma omp critical
      sum += mine == 5 && a[1] == 5 ? 0 : 1;
   }
   sum += b[0];
}

static void sections(void)
{
#pragma omp parallel
   {
#pragma omp sections
      {
#pragma omp section
         a[0] = 1;
#pragma omp section
         a[1] = 2;
      }
#pragma omp single
      sum = a[0] + a[1];
   }
}

static void tasks(void)
{
#pragma omp parallel
#pragma omp single
   {
      for (int i = 0; i < 32; i++) {
         b[i] = i;
#pragma omp task firstprivate(i)
         a[i] = b[i];
      }
#pragma omp taskwait
      for (int i = 0; i < 32; i++)
         sum += a[i];
#pragma omp taskgroup
      {
#pragma omp task
         a[40] = 3;
      }
      sum += a[40];
   }
}

static void depend(void)
{
#pragma omp parallel
#pragma omp single
   for (int i = 0; i < 32; i++) {
#pragma omp task depend(inout : sum) firstprivate(i)
      sum = 3 * sum % 1001 + i;
   }
}

static void taskloop(void)
{
#pragma omp parallel
#pragma omp single
   {
      for (int i = 0; i < N; i++)
         a[i] = i;
#pragma omp taskloop grainsize(16)
      for (int i = 0; i < N; i++)
         b[i] = a[i];
      for (int i = 0; i < N; i++)
         sum += b[i];
   }
}

static void task_barrier(void)
{
#pragma omp parallel
   {
#pragma omp single nowait
      for (int i = 0; i < 32; i++) {
#pragma omp task firstprivate(i)
         a[i] = i;
      }
#pragma omp barrier
#pragma omp for
      for (int i = 0; i < 32; i++)
         b[i] = a[31 - i];
   }
   for (int i = 0; i < 32; i++)
      sum += b[i];
}

static void locks(void)
{
   omp_lock_t lock;
   omp_nest_lock_t nest;
   omp_init_lock(&lock);
   omp_init_nest_lock(&nest);
#pragma omp parallel for
   for (int i = 0; i < N; i++) {
      omp_set_lock(&lock);
      sum += i;
      omp_unset_lock(&lock);
      if (omp_test_lock(&lock)) {
         a[1]++;
         omp_unset_lock(&lock);
      }
      omp_set_nest_lock(&nest);
      a[0] += i;
      omp_unset_nest_lock(&nest);
   }
}

static void nested(void)
{
   omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
   {
      int base = 64 * omp_get_thread_num();
#pragma omp parallel for num_threads(2)
      for (int i = 0; i < 64; i++)
         a[base + i] = i;
#pragma omp critical
      for (int i = 0; i < 64; i++)
         sum += a[base + i];
   }
}

/* pthreads */

static void run(void *(*f)(void *))
{
   pthread_t threads[3];
   for (long i = 0; i < 3; i++)
      pthread_create(&threads[i], NULL, f, (void *)i);
   for (int i = 0; i < 3; i++)
      pthread_join(threads[i], NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t pbarrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t semaphore;
static _Atomic long flag;

static void *under_mutex(void *me)
{
   for (int i = 0; i < 100; i++) {
      pthread_mutex_lock(&mutex);
      sum += (long)me;
      pthread_mutex_unlock(&mutex);
      while (pthread_mutex_trylock(&mutex) != 0) {
      }
      a[0]++;
      pthread_mutex_unlock(&mutex);
   }
   return NULL;
}

static void mutexes(void) { run(under_mutex); }

static void *in_turn(void *me)
{
   for (int i = 0; i < 10; i++) {
      pthread_mutex_lock(&mutex);
      while (a[0] % 3 != (long)me)
         pthread_cond_wait(&condition, &mutex);
      sum = 2 * sum % 1000 + (long)me;
      a[0]++;
      pthread_cond_broadcast(&condition);
      pthread_mutex_unlock(&mutex);
   }
   return NULL;
}

static void conditions(void) { run(in_turn); }

static void *reads_and_writes(void *me)
{
   for (int i = 0; i < 50; i++) {
      pthread_rwlock_rdlock(&rwlock);
      b[(long)me] += a[0];
      pthread_rwlock_unlock(&rwlock);
      pthread_rwlock_wrlock(&rwlock);
      a[0]++;
      sum++;
      pthread_rwlock_unlock(&rwlock);
   }
   return NULL;
}

static void rwlocks(void) { run(reads_and_writes); }

static void *at_barrier(void *me)
{
   for (int i = 0; i < 20; i++) {
      a[(long)me] = i;
      pthread_barrier_wait(&pbarrier);
      b[(long)me] += a[((long)me + 1) % 3];
      pthread_barrier_wait(&pbarrier);
   }
   return NULL;
}

static void barriers(void)
{
   pthread_barrier_init(&pbarrier, NULL, 3);
   run(at_barrier);
   pthread_barrier_destroy(&pbarrier);
   sum = b[0];
}

static void *with_semaphore(void *me)
{
   for (int i = 0; i < 50; i++) {
      sem_wait(&semaphore);
      sum += (long)me;
      sem_post(&semaphore);
   }
   return NULL;
}

static void semaphores(void)
{
   sem_init(&semaphore, 0, 1);
   run(with_semaphore);
}

static void *with_spin(void *me)
{
   for (int i = 0; i < 50; i++) {
      pthread_spin_lock(&spin);
      sum += (long)me;
      pthread_spin_unlock(&spin);
   }
   return NULL;
}

static void spins(void)
{
   pthread_spin_init(&spin, 0);
   run(with_spin);
}

static void initialise(void) { a[0] = 42; }

static void *only_once(void *me)
{
   pthread_once(&once, initialise);
   b[(long)me] = a[0];
   return NULL;
}

static void onces(void)
{
   run(only_once);
   sum = b[2];
}

static void *through_flag(void *me)
{
   if ((long)me == 0) {
      for (int i = 0; i < N; i++)
         a[i] = i;
      atomic_store_explicit(&flag, 1, memory_order_release);
   } else {
      while (atomic_load_explicit(&flag, memory_order_acquire) == 0) {
      }
      for (int i = 0; i < N; i++)
         b[i * ((long)me == 1)] = a[i] * ((long)me == 1);
   }
   return NULL;
}

static void *counts_down(void *me)
{
   a[(long)me] = 1;
   if (atomic_fetch_sub(&flag, 1) == 1)
      sum = a[0] + a[1] + a[2];
   return NULL;
}

static void flags(void)
{
   pthread_t threads[2];
   for (long i = 0; i < 2; i++)
      pthread_create(&threads[i], NULL, through_flag, (void *)i);
   for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
   for (int i = 0; i < N; i++)
      sum += b[i];
   flag = 3;
   run(counts_down);
}

/* Memory that one thread frees and another gets. */
static void *passes_memory(void *me)
{
   for (int i = 0; i < 50; i++) {
      long *p = malloc(sizeof *p * 16);
      for (int j = 0; j < 16; j++)
         p[j] = (long)me;
      pthread_mutex_lock(&mutex);
      long *other = (long *)b[0];
      b[0] = (long)p;
      pthread_mutex_unlock(&mutex);
      free(other);
   }
   return NULL;
}

static void memory(void)
{
   run(passes_memory);
   free((void *)b[0]);
   sum = 1;
}

/* Not race-free: the test must see that. */
static void *races(void *me)
{
   for (int i = 0; i < N; i++)
      shared[i] = (long)me;
   return NULL;
}

static void racy(void)
{
   run(races);
   sum = 0;
}

static const struct {
   const char *name;
   void (*run)(void);
} programs[] = {{"parallel_for", parallel_for}, {"dynamic_for", dynamic_for}, {"barrier", barrier},
                {"reduction", reduction},       {"critical", critical},       {"ordered", ordered},
                {"single", single},             {"sections", sections},       {"tasks", tasks},
                {"depend", depend},             {"taskloop", taskloop},       {"task_barrier", task_barrier},
                {"locks", locks},               {"nested", nested},           {"mutexes", mutexes},
                {"conditions", conditions},     {"rwlocks", rwlocks},         {"barriers", barriers},
                {"semaphores", semaphores},     {"spins", spins},             {"onces", onces},
                {"flags", flags},               {"memory", memory},           {"racy", racy}};

int main(int count, char **arguments)
{
   for (size_t i = 0; count > 1 && i < sizeof programs / sizeof programs[0]; i++)
      if (strcmp(arguments[1], programs[i].name) == 0) {
         programs[i].run();
         printf("%ld\n", sum);
         return 0;
      }
   return 2;
}
