/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Where a recording begins: with the program, when `homing record` starts it and leaves it a wire; or while it runs,
 * when `homing record --pid` waits for it (attach.c). */
#include "runtime.h"

#include <pthread.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

int homing_may_be_attached, homing_only_program;

static void in_forked_child(void)
{
   homing_leave_recording();
   homing_close_pipes();
}

/* The shared memory behind a descriptor, which is closed; NULL if it is no wire. */
static homing_wire_header *map_wire(int memory)
{
   struct stat status;
   if (fstat(memory, &status) != 0)
      return NULL;
   void *at = (void *)syscall(SYS_mmap, NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
   syscall(SYS_close, memory);
   homing_wire_header *header = at;
   int fits = at != MAP_FAILED && header->magic == HOMING_WIRE_MAGIC && header->segment_words > 2 * HOMING_RESERVE_MAX;
   return fits ? header : NULL;
}

/* One process records into a wire: the first. */
static int claim_wire(homing_wire_header *header)
{
   unsigned int flavour = 0;
   header->version = HOMING_WIRE_VERSION;
   if (__atomic_compare_exchange_n(&header->flavour, &flavour, HOMING_FLAVOUR_PARALLEL, 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
      return 1;
   if (flavour == HOMING_FLAVOUR_SERIAL) {
      homing_say("homing: this program is linked with the homing runtime (homing ldflags): record it with "
                 "--recorder tsan, or build it without the runtime to record it with --recorder valgrind\n");
      _exit(3);
   }
   return 0;
}

/* -fsanitize=thread at the link brings libtsan as well, and both would be half in charge. */
static void refuse_libtsan(void)
{
   if (dlsym(RTLD_NEXT, "__tsan_init") == NULL)
      return;
   homing_say("homing: this program was linked with -fsanitize=thread, which brings libtsan beside the homing runtime: "
              "compile with `homing cflags`, but link without them, with `homing ldflags` only\n");
   _exit(3);
}

/* Begins to record; `while_running`: other threads may be there, and send nothing before what comes first is sent.
 * Nothing is allocated. */
static int begin(int memory, int credit, int full, int while_running)
{
   homing_wire_header *header = map_wire(memory);
   if (header == NULL)
      return 0;
   homing_open_pipes(credit, full);
   int claimed = claim_wire(header);
   homing_begin_recording(header, while_running);
   if (!claimed) {
      homing_child();
      homing_say("homing: another process is being recorded already: this one runs without being recorded\n");
      homing_close_pipes();
      return 1;
   }
   if (while_running)
      homing_region_awaited = 0;
   else
      homing_region_start();
   homing_self.begins_recording = 1;
   homing_send_maps();
   if (while_running) {
      homing_send_blocks();
      homing_publish();
   }
   __atomic_store_n(&homing_active, 1, __ATOMIC_RELEASE);
   homing_self.begins_recording = 0;
   homing_follow_window();
   return 1;
}

int homing_attach(const int files[3], int only_program)
{
   homing_only_program = only_program;
   homing_forget_marks();
   homing_forget_stacks();
   if (begin(files[0], files[1], files[2], 1))
      return 1;
   syscall(SYS_close, files[1]);
   syscall(SYS_close, files[2]);
   return 0;
}

void homing_start(void)
{
   static int started;
   if (__atomic_exchange_n(&started, 1, __ATOMIC_ACQ_REL))
      return;
   refuse_libtsan();
   const char *attach = secure_getenv("HOMING_ATTACH"), *wire = secure_getenv(HOMING_WIRE_ENV);
   homing_may_be_attached = !getauxval(AT_SECURE) && (attach == NULL || attach[0] != '0');
   if (wire == NULL && !homing_may_be_attached)
      return;
   /* What allocates memory: later, the program may be in the middle of its own allocator. */
   homing_prepare_streams();
   pthread_atfork(NULL, NULL, in_forked_child);
   homing_look_for_python();
   if (wire == NULL)
      return;
   homing_only_program = secure_getenv(HOMING_ONLY_PROGRAM_ENV) != NULL;
   unsetenv(HOMING_ONLY_PROGRAM_ENV);
   homing_know_window_mark();
   int memory, credit, full;
   if (sscanf(wire, "%d,%d,%d", &memory, &credit, &full) != 3 || !begin(memory, credit, full, 0))
      homing_say("homing: " HOMING_WIRE_ENV " names no wire that this program can use: it does not record itself. "
                 "Under --recorder "
                 "valgrind that is so: record it with --recorder tsan, or build it without `homing cflags`\n");
   unsetenv(HOMING_WIRE_ENV);
}

static __attribute__((constructor(101))) void start_early(void) { homing_start(); }
