/* Reports to libhoming, which is loaded beside it, where the parallel regions of programs built for GNU's OpenMP
   runtime begin and end, and where each thread of them begins and ends its part. It stands before the functions that
   begin a team of threads, and calls the next of them. Those that compilers before GCC 4.9 call leave the part of the
   first thread to the program: of these regions only begin and end are reported.

   A process may have several runtimes, each with work-sharing functions of its own that must not be mixed: the one that
   a caller is linked with is called. The main program's comes by the order of all libraries, another library's by that
   library's own dependencies. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern void homing_region_begin(const void *code) __attribute__((weak));
extern void homing_region_end(void) __attribute__((weak));
extern void homing_construct_begin(void) __attribute__((weak));
extern void homing_construct_end(void) __attribute__((weak));
extern unsigned homing_threads(unsigned fixed, unsigned most) __attribute__((weak));
extern void homing_part(unsigned index, unsigned team) __attribute__((weak));

/* The program's runtime. */
extern int omp_get_level(void) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_get_num_threads(void) __attribute__((weak));

typedef void body(void *);

/* Callers whose runtime is known. Others are looked up each time. */
enum { CALLERS = 64 };
struct known {
	_Atomic(void *) caller;
	void *function;
};

static void *look_up(const char *name, const char *file)
{
	void *next = dlsym(RTLD_NEXT, name);
	/* A library that was opened with its runtime for itself alone. It stays loaded: what is known of it must hold. */
	void *library = file ? dlopen(file, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	void *own = library ? dlsym(library, name) : NULL;
	Dl_info whose, here;
	if (own && dladdr(own, &whose) && dladdr((void *)look_up, &here) && whose.dli_fbase != here.dli_fbase)
		next = own;
	if (!next) {
		fprintf(stderr, "homing: no OpenMP runtime has %s: run the program without --runtime\n", name);
		abort();
	}
	return next;
}

/* The function that `site` would have called. Threads that look up the same caller find the same. */
static void *next_of(const char *name, struct known *known, const void *site)
{
	Dl_info caller;
	if (!dladdr(site, &caller))
		return look_up(name, NULL);
	for (int i = 0; i < CALLERS; i++) {
		void *whose = atomic_load_explicit(&known[i].caller, memory_order_acquire);
		if (whose == caller.dli_fbase)
			return known[i].function;
		if (!whose)
			break;
	}
	void *function = look_up(name, caller.dli_fname);
	static atomic_flag lock = ATOMIC_FLAG_INIT;
	if (!atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {
		for (int i = 0; i < CALLERS; i++)
			if (!atomic_load_explicit(&known[i].caller, memory_order_relaxed)) {
				known[i].function = function;
				atomic_store_explicit(&known[i].caller, caller.dli_fbase, memory_order_release);
				break;
			}
		atomic_flag_clear_explicit(&lock, memory_order_release);
	}
	return function;
}

static void begin(const void *code)
{
	if (homing_region_begin)
		homing_region_begin(code);
}

/* How many threads a region that begins is to have; 0: as many as the runtime gives. */
static unsigned team(unsigned threads)
{
	if (!homing_threads || !omp_get_level || !omp_get_max_threads || omp_get_level() > 0)
		return threads;
	return homing_threads(threads, (unsigned)omp_get_max_threads());
}

static void end(void)
{
	if (homing_region_end)
		homing_region_end();
}

/* What the threads of a team run instead of their part. It lives until all have ended. */
struct part {
	void *first; /* the first word of `data`, in which the runtime looks for reductions */
	body *code;
	void *data;
};

static void run_part(void *data)
{
	const struct part *part = data;
	homing_construct_begin();
	if (homing_part && omp_get_level && omp_get_thread_num && omp_get_num_threads && omp_get_level() == 1)
		homing_part((unsigned)omp_get_thread_num(), (unsigned)omp_get_num_threads());
	part->code(part->data);
	homing_construct_end();
}

static void wrap(struct part *part, body **code, void **data)
{
	if (!homing_construct_begin || !homing_construct_end)
		return;
	part->code = *code;
	part->data = *data;
	*code = run_part;
	*data = part;
}

/* A function that runs `code` on a team of threads and comes back when all have ended. */
#define STANDS_BEFORE(name, parameters, ...)                                                                           \
	__attribute__((visibility("default"))) void name parameters                                                    \
	{                                                                                                              \
		static struct known known[CALLERS];                                                                    \
		void(*next) parameters = next_of(#name, known, __builtin_return_address(0));                           \
		struct part part = {0};                                                                                \
		begin((const void *)code);                                                                             \
		threads = team(threads);                                                                               \
		wrap(&part, &code, &data);                                                                             \
		next(__VA_ARGS__);                                                                                     \
		end();                                                                                                 \
	}

#define LOOP (body * code, void *data, unsigned threads, long from, long to, long step, long chunk, unsigned flags)
#define LOOP_WITHOUT_CHUNK (body * code, void *data, unsigned threads, long from, long to, long step, unsigned flags)

STANDS_BEFORE(GOMP_parallel, (body * code, void *data, unsigned threads, unsigned flags), code, data, threads, flags)
STANDS_BEFORE(GOMP_parallel_sections, (body * code, void *data, unsigned threads, unsigned count, unsigned flags), code,
	      data, threads, count, flags)
STANDS_BEFORE(GOMP_parallel_loop_static, LOOP, code, data, threads, from, to, step, chunk, flags)
STANDS_BEFORE(GOMP_parallel_loop_dynamic, LOOP, code, data, threads, from, to, step, chunk, flags)
STANDS_BEFORE(GOMP_parallel_loop_guided, LOOP, code, data, threads, from, to, step, chunk, flags)
STANDS_BEFORE(GOMP_parallel_loop_nonmonotonic_dynamic, LOOP, code, data, threads, from, to, step, chunk, flags)
STANDS_BEFORE(GOMP_parallel_loop_nonmonotonic_guided, LOOP, code, data, threads, from, to, step, chunk, flags)
STANDS_BEFORE(GOMP_parallel_loop_runtime, LOOP_WITHOUT_CHUNK, code, data, threads, from, to, step, flags)
STANDS_BEFORE(GOMP_parallel_loop_nonmonotonic_runtime, LOOP_WITHOUT_CHUNK, code, data, threads, from, to, step, flags)
STANDS_BEFORE(GOMP_parallel_loop_maybe_nonmonotonic_runtime, LOOP_WITHOUT_CHUNK, code, data, threads, from, to, step,
	      flags)

__attribute__((visibility("default"))) unsigned GOMP_parallel_reductions(body *code, void *data, unsigned threads,
									  unsigned flags)
{
	static struct known known[CALLERS];
	unsigned (*next)(body *, void *, unsigned, unsigned) =
		next_of("GOMP_parallel_reductions", known, __builtin_return_address(0));
	struct part part = {.first = *(void **)data};
	begin((const void *)code);
	threads = team(threads);
	wrap(&part, &code, &data);
	unsigned had = next(code, data, threads, flags);
	end();
	return had;
}

/* A function that begins a team; the caller then runs the first thread's part itself, and calls GOMP_parallel_end. */
#define STANDS_BEFORE_START(name, parameters, ...)                                                                     \
	__attribute__((visibility("default"))) void name parameters                                                    \
	{                                                                                                              \
		static struct known known[CALLERS];                                                                    \
		void(*next) parameters = next_of(#name, known, __builtin_return_address(0));                           \
		begin((const void *)code);                                                                             \
		threads = team(threads);                                                                               \
		next(__VA_ARGS__);                                                                                     \
	}

#define LOOP_START (body * code, void *data, unsigned threads, long from, long to, long step, long chunk)

STANDS_BEFORE_START(GOMP_parallel_start, (body * code, void *data, unsigned threads), code, data, threads)
STANDS_BEFORE_START(GOMP_parallel_sections_start, (body * code, void *data, unsigned threads, unsigned count), code,
		    data, threads, count)
STANDS_BEFORE_START(GOMP_parallel_loop_static_start, LOOP_START, code, data, threads, from, to, step, chunk)
STANDS_BEFORE_START(GOMP_parallel_loop_dynamic_start, LOOP_START, code, data, threads, from, to, step, chunk)
STANDS_BEFORE_START(GOMP_parallel_loop_guided_start, LOOP_START, code, data, threads, from, to, step, chunk)
STANDS_BEFORE_START(GOMP_parallel_loop_runtime_start,
		    (body * code, void *data, unsigned threads, long from, long to, long step), code, data, threads, from,
		    to, step)

__attribute__((visibility("default"))) void GOMP_parallel_end(void)
{
	static struct known known[CALLERS];
	void (*next)(void) = next_of("GOMP_parallel_end", known, __builtin_return_address(0));
	next();
	end();
}
