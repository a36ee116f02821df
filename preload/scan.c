/* Starts the scanning helper of hint faults in the program that this library is preloaded into, before the program
   begins. The engine finds the helper by the mark below (crates/homing-linux/src/hint_faults/preload.rs) and has
   nothing to inject.

   It does nothing unless the engine that is named in the environment runs, and whatever fails is left at that: the
   engine injects the helper then. The program keeps its signals, its descriptors and errno; it gets one page of memory,
   and a process that shares all its memory and ends by itself. */

#include <asm/signal.h>
#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/mman.h>
#include <stddef.h>
#include <stdint.h>

__asm__(".text\n"
	".intel_syntax noprefix\n"
	".include \"layout.s\"\n"
	".include \"scanner.s\"\n"
	".att_syntax\n");

extern const uint64_t homing_scanner_words[][2] __attribute__((visibility("hidden")));
extern const uint64_t homing_scanner_words_end[][2] __attribute__((visibility("hidden")));

/* Not yet, none, or the address of the page. */
enum { NOT_YET, NONE };
static struct {
	char name[16];
	volatile uint64_t page;
} mark __attribute__((used, aligned(8), section(".data"))) = {"homing-scan mark", NOT_YET};

/* Only glibc gives the environment to the functions that begin libraries. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));
extern unsigned long getauxval(unsigned long) __attribute__((weak));

#define PAGE 4096
#define WALL 0x40000000

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
        __asm__ volatile("syscall"
                         : "+a"(number)
                         : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        return number;
}

/* What follows `begin`, if the text begins so. */
static const char *after(const char *text, const char *begin)
{
	while (*begin)
		if (*text++ != *begin++)
			return NULL;
	return text;
}

static int contains(const char *text, const char *part)
{
	for (; *text; text++)
		if (after(text, part))
			return 1;
	return 0;
}

static const char *variable(char **environment, const char *name)
{
	for (; *environment; environment++) {
		const char *value = after(*environment, name);
		if (value && *value == '=')
			return value + 1;
	}
	return NULL;
}

/* Whether the engine that started this program, or one that this program descends from, runs. */
static int wanted(char **environment)
{
	const char *engine = variable(environment, "HOMING_SCAN");
	const char *preloaded = variable(environment, "LD_PRELOAD");
	long pid = 0;
	/* A program with the rights of another takes nothing from who started it. */
	if (!engine || !*engine || !getauxval || getauxval(AT_SECURE))
		return 0;
	/* Valgrind ends a program that makes processes as the helper is one. */
	if (preloaded && contains(preloaded, "/vgpreload_"))
		return 0;
	for (; *engine; engine++) {
		if (*engine < '0' || *engine > '9' || pid > 100000000)
			return 0;
		pid = pid * 10 + *engine - '0';
	}
	return pid > 0 && call(__NR_kill, pid, 0, 0, 0, 0, 0) != -3 /* ESRCH; another user's may not be signalled */;
}

/* Gives the go-between, or an error. */
static long start(char *page)
{
	register char *r12 __asm__("r12") = page;
	long between;
	__asm__ volatile("call homing_scanner_begin"
			 : "=a"(between)
			 : "r"(r12)
			 : "rcx", "rdx", "rsi", "rdi", "r8", "r10", "r11", "memory", "cc");
	return between;
}

static uint64_t helper(void)
{
	const uint64_t all = ~(uint64_t)0;
	uint64_t before;
	long page = call(__NR_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page < 0)
		return NONE;
	for (const uint64_t (*word)[2] = homing_scanner_words; word < homing_scanner_words_end; word++)
		*(uint64_t *)(page + (*word)[0]) = (*word)[1];
	if (call(__NR_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all, 0, 0) == 0) {
		long between = start((char *)page);
		if (between > 0)
			call(__NR_wait4, between, 0, WALL, 0, 0, 0);
		call(__NR_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
		if (between > 0)
			return page;
	}
	call(__NR_munmap, page, PAGE, 0, 0, 0, 0);
	return NONE;
}

__attribute__((constructor)) static void begin(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv;
	if (mark.page == NOT_YET)
		mark.page = gnu_get_libc_version && wanted(environment) ? helper() : NONE;
}
