/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libhoming: a program that brings its own memory pages home, to the nodes of the threads that use them. homing(3) and
 * docs/runtime.md have examples.
 *
 *    #include <homing/runtime.h>
 *    homing_start(NULL);                                   // before threads begin
 *    homing_area(matrix, bytes, "matrix");                 // leave out to have all memory looked after
 *    for (int i = 0; i < steps; i++) { ...  homing_iteration(); }
 *    homing_stop();
 *
 *    cc program.c $(pkg-config --cflags --libs homing)
 *
 * Every function may be called by any thread at any time, and returns at once except homing_start and homing_stop.
 * Where nothing can be done (one node, no rights, no source of samples) a program runs on as it is, and the status
 * says so.
 * The marks homing_iteration and homing_phase of homing.h go to the library, or to the recorder where there is one.
 */
#ifndef HOMING_RUNTIME_H
#define HOMING_RUNTIME_H

#include "../homing.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Statuses. 0: done. Above 0: nothing is moved here, and nothing is wrong with the program. Below 0: an error of the
 * call. homing_status_text and homing_reason say more. */
enum homing_status {
   HOMING_OK = 0,
   HOMING_ONE_NODE = 1,  /* the machine has one memory node */
   HOMING_NO_SOURCE = 2, /* nothing tells here which thread uses which page: homing_reason says what is missing */
   HOMING_RECORDED = 3,  /* a recorder of Homing is at work: marks go to it */
   HOMING_SECURE = 4,    /* the program has more rights than who started it (set-user-ID) */
   HOMING_FORKED = 5,    /* a child of the process that started the library: homing_start begins anew only after exec */
   HOMING_ENDED = 6,     /* the manager had to end: homing_reason says why */
   HOMING_BAD_ARGUMENT = -1,
   HOMING_NOT_STARTED = -2,
   HOMING_STARTED = -3, /* it has been started already */
   HOMING_FAILED = -4   /* homing_reason says what */
};

/* Starts the manager, a thread of its own that watches this process and moves its pages. `settings` is TOML, a line for
 * each setting of docs/live.md such as "interval = \"50ms\"\nrate-limit = \"100M\"", or NULL for the defaults. The
 * calling thread, and those that it starts from now on, no longer take part in the kernel's own balancing. */
int homing_start(const char *settings);

/* Ends the manager, waits for that, and gives the kernel's settings back. Areas stay known for another start. */
int homing_stop(void);

/* What homing_start or the manager came to last: HOMING_OK while it works. */
int homing_status(void);

/* This memory matters; once there is an area all other memory is left alone. A page that is partly in an area counts as
 * in it. `name` (or NULL) is for homing_area_forget. Areas over each other are refused. */
int homing_area(const void *address, size_t bytes, const char *name);

/* As homing_area, with what holds for this area alone: TOML, or NULL. "stays = true": its accesses are counted and its
 * pages are never moved. "threshold = 2.0": a page moves after twice the usual evidence (below 1: after less).
 * "set = [\"competitive.cold=9\"]": parameters of the policies competitive and predictive (migration-cost, contention,
 * selectivity, cold). */
int homing_area_with(const void *address, size_t bytes, const char *name, const char *own);

/* The areas with this first address, or those with this name, matter no longer. Without any area all memory does. */
int homing_area_forget(const void *address);
int homing_area_forget_name(const char *name);

/* What the manager has seen and done since homing_start. */
struct homing_statistics {
   size_t size;              /* sizeof(struct homing_statistics), set by the caller */
   uint64_t samples_local;   /* accesses seen, by CPUs of the node that holds the page */
   uint64_t samples_remote;  /* ... and by others */
   uint64_t samples_outside; /* accesses outside of the areas */
   uint64_t samples_lost;    /* samples that the kernel dropped */
   uint64_t pages;           /* pages known now */
   uint64_t pages_moved;     /* moves, each confirmed by the kernel */
   uint64_t bytes_moved;
   uint64_t moves_failed;
   uint64_t scans;        /* scans for hint faults */
   uint64_t scans_missed; /* ... that the kernel did not make */
   uint64_t iterations;   /* marks taken */
   uint64_t phases;
   uint64_t marks_lost; /* marks dropped, since the manager was far behind */
   uint64_t areas;      /* areas now */
   uint64_t manager_ns; /* CPU time of the manager and its helpers */
};

/* Fills what `statistics->size` has room for. */
int homing_statistics(struct homing_statistics *statistics);

/* What the manager has seen and done in an area. */
struct homing_area_statistics {
   size_t size;             /* sizeof(struct homing_area_statistics), set by the caller */
   uint64_t samples_local;  /* as in homing_statistics */
   uint64_t samples_remote; /* ... */
   uint64_t pages;          /* pages that were seen */
   uint64_t pages_eligible; /* ... and that the policy wanted elsewhere */
   uint64_t pages_migrated; /* ... and that have moved */
   uint64_t pages_frozen;   /* pages that the policy froze, since they would have gone back */
   uint64_t moves;
};

/* As homing_statistics, for the area with this first address. */
int homing_area_statistics(const void *address, struct homing_area_statistics *statistics);

/* A sentence for a status. The text is constant. */
const char *homing_status_text(int status);

/* Writes why the last status is what it is into `text`, at most `bytes` with the final zero, and returns the length
 * that all of it has (as snprintf). */
size_t homing_reason(char *text, size_t bytes);

/* The source of samples while the manager works, as homing_reason; else nothing. */
size_t homing_source(char *text, size_t bytes);

/* ---- Resource sets: CPUs and memories, docs/rset.md. They need no homing_start. ---- */

/* A set; several threads may use one. */
struct homing_rset;

/* The set of an expression such as "node:0-1 & !cpu:3", in which named sets of ~/.config/homing/rsets.toml may stand.
 * HOMING_BAD_ARGUMENT, and homing_reason, where it is wrong, empty, or beyond what the process may use. */
int homing_rset_open(const char *expression, struct homing_rset **set);
void homing_rset_close(struct homing_rset *set);

/* What a set has. */
struct homing_rset_facts {
   size_t size;         /* sizeof(struct homing_rset_facts), set by the caller */
   uint64_t cpus;       /* how many */
   uint64_t nodes;      /* ... whose memory is in it */
   uint64_t bytes;      /* of their memory */
   uint64_t free_bytes; /* ... that nobody uses now */
};
int homing_rset_query(const struct homing_rset *set, struct homing_rset_facts *facts);

/* Writes the numbers of its CPUs, or of the nodes whose memory it has, at most `room`, and returns how many it has. */
size_t homing_rset_cpus(const struct homing_rset *set, unsigned *numbers, size_t room);
size_t homing_rset_nodes(const struct homing_rset *set, unsigned *numbers, size_t room);

/* Binds the calling thread to its CPUs and its memory. */
int homing_rset_bind_thread(const struct homing_rset *set);

/* Which memory of a set an allocation has. */
enum homing_memory {
   HOMING_FLOAT = 0,  /* any */
   HOMING_LOCAL = 1,  /* that of the node on which the calling thread runs */
   HOMING_REMOTE = 2, /* any but that */
   HOMING_STRIPED = 3 /* the nodes in turn, `stride` bytes on each */
};

/* Memory that begins with a page and holds zeros. `stride`: a multiple of the page size, or 0 for a page; 0 for all but
 * HOMING_STRIPED. NULL, and homing_reason, where there is none. */
void *homing_rset_alloc(const struct homing_rset *set, size_t bytes, enum homing_memory memory, size_t stride);
int homing_rset_free(void *memory);

/* Which CPU of a set each thread gets. */
enum homing_layout {
   HOMING_FILL = 0,        /* all CPUs of a node, then the next node */
   HOMING_ROUND_ROBIN = 1, /* the nodes in turn */
   HOMING_ONE_PER_NODE = 2 /* one CPU of each node */
};

/* Calls `work` with its number, from 0, and `argument` once on each of `threads` new threads (0: as many as the layout
 * has CPUs), each bound to its CPU, and waits until all have returned. Either all are called or none. `work` must
 * return: an exception of C++ that leaves it ends the program by SIGABRT, as one that leaves a std::thread does. */
int homing_team_run(const struct homing_rset *set, enum homing_layout layout, unsigned threads,
                    void (*work)(unsigned thread, void *argument), void *argument);

#ifdef __cplusplus
}
#endif
#endif
