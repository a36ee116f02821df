/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who touches a page first between windows: that says where the page begins, so the thread sends that one reference.
 * Code of recorders/clang writes its records into memory that nobody reads then. When that has gone round, or the
 * thread lets others go on, and the kernel has counted page faults of it meanwhile, the records are looked through for
 * pages that nobody is known to have touched. A page counts once, as long as the process runs. Of more than 64 threads
 * the further ones share that memory, and are not looked through. */
#include "runtime.h"

#include <sys/mman.h>
#include <sys/resource.h>

/* Pages that were touched, + 1: open addressing. */
enum { TABLE_LOG2 = 22, MOST = 3 << (TABLE_LOG2 - 2), PAGE_LOG2 = 12 };
static word *table;
static uint32_t used;

void homing_know_touches(void)
{
   if (__atomic_load_n(&table, __ATOMIC_ACQUIRE) != NULL)
      return;
   size_t bytes = sizeof(word) << TABLE_LOG2;
   int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
   word *fresh = (word *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0), *none = NULL;
   if (fresh != MAP_FAILED &&
       !__atomic_compare_exchange_n(&table, &none, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      syscall(SYS_munmap, fresh, bytes);
}

static int is_new(word page)
{
   word mask = (1ULL << TABLE_LOG2) - 1, at = (page * 0x9e3779b97f4a7c15ULL) >> (64 - TABLE_LOG2);
   for (; table != NULL; at = (at + 1) & mask) {
      word found = __atomic_load_n(&table[at], __ATOMIC_RELAXED);
      if (found == page + 1)
         return 0;
      if (found != 0)
         continue;
      if (__atomic_load_n(&used, __ATOMIC_RELAXED) >= MOST) {
         homing_lose_touch();
         return 0;
      }
      if (__atomic_compare_exchange_n(&table[at], &found, page + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
         __atomic_add_fetch(&used, 1, __ATOMIC_RELAXED);
         return 1;
      }
      if (found == page + 1)
         return 0;
   }
   return 0;
}

/* A page counts as touched from now on, whether or not its reference finds room. */
static int send_first(word reference)
{
   word *room = homing_reserve_aside(1);
   if (room != NULL)
      *room = reference;
   else
      homing_lose_touch();
   return room != NULL;
}

/* What others send from their next window on comes behind it. */
static void publish(void) { homing_sync_always(HOMING_SYNC_RELEASE, OBJECT_WINDOW); }

void homing_touch(word reference)
{
   word page = (reference & ((1ULL << HOMING_REFERENCE_CODE_AT) - 1)) >> PAGE_LOG2;
   word *last = &homing_self.touched[page % HOMING_TOUCHED];
   if (LIKELY(*last == page))
      return;
   *last = page;
   if (is_new(page) && send_first(reference))
      publish();
}

/* One access of a definition, from an address on, in steps. */
static int look(word access, word address, word step, word count)
{
   unsigned bytes = (unsigned)(access >> HOMING_ACCESS_SIZE_AT) & 0xffff, log2 = 0, sent = 0;
   unsigned write = access >> HOMING_ACCESS_WRITE_BIT & 1;
   while (log2 < 6 && 1u << log2 < bytes)
      log2++;
   word each = (int64_t)step < 0 ? -step : step, page_bytes = 1ULL << PAGE_LOG2;
   /* At least one a page, and the last. */
   word skip = each == 0 || each >= page_bytes ? 1 : page_bytes / each;
   word last = each == 0 ? 0 : count - 1;
   for (word i = 0; i / skip < MOST; i = last - i < skip ? last : i + skip) {
      word at = address + i * step;
      if (at == 0 || at >> HOMING_REFERENCE_CODE_AT != 0)
         break;
      if (is_new(at >> PAGE_LOG2))
         sent += (unsigned)send_first(homing_word(at, log2, write, 0));
      if (i == last)
         break;
   }
   return sent > 0;
}

static int has(word access, unsigned bit) { return access >> bit & 1; }

static int is_control(word words) { return words >> HOMING_CONTROL_BIT & 1; }

/* The record that begins here. Returns the words that it takes, of those up to `end`; adds whether it touched anything
 * that nobody had. */
static word look_at(const word *record, const word *end, int *any)
{
   enum { MOST_WORDS = 64 };
   unsigned operation = (unsigned)(*record >> HOMING_OPERATION_AT) & 0x7f;
   const word *definition = homing_definition(*record & ((1ULL << HOMING_OPERATION_AT) - 1));
   if (!is_control(*record) || (operation != HOMING_BLOCK && operation != HOMING_LOOP) || definition == NULL)
      return 1;
   /* Of each word of an execution: where it is among those that have a step in loops, or among the others. */
   struct {
      word at;
      int steps;
   } words[MOST_WORDS];
   word accesses = definition[0] >> 32, known = 0, regular = 0, each = 0, count = 1;
   for (word i = 0; i < accesses && known < MOST_WORDS; i++) {
      word access = definition[2 + i];
      if (has(access, HOMING_ACCESS_DERIVED_BIT))
         continue;
      int steps = operation == HOMING_LOOP && has(access, HOMING_ACCESS_STEPS_BIT);
      words[known].at = steps ? regular++ : each++;
      words[known++].steps = steps;
   }
   const word *next = record + 1, *steps = record + 2;
   if (operation == HOMING_LOOP) {
      next = steps + 2 * regular;
      if (next > end)
         return (word)(end - record);
      count = each == 0 ? record[1] : (word)(end - next) / each;
      if (each != 0 && record[1] / sizeof(word) < (word)(end - record)) {
         word taken = record[1] / sizeof(word), head = (word)(next - record);
         count = taken > head ? (taken - head) / each : 0;
      }
   }
   for (word i = 0, own = 0; i < accesses; i++) {
      word access = definition[2 + i], offset = 0, number = own;
      if (has(access, HOMING_ACCESS_DERIVED_BIT)) {
         number = access >> HOMING_ACCESS_WORD_AT & ((1ULL << (HOMING_ACCESS_OFFSET_AT - HOMING_ACCESS_WORD_AT)) - 1);
         offset = (word)((int64_t)access >> HOMING_ACCESS_OFFSET_AT);
      } else {
         own++;
      }
      if (number >= known)
         continue;
      if (words[number].steps && count > 0) {
         const word *start = steps + 2 * words[number].at;
         *any |= look(access, start[0] + offset, start[1], count);
      }
      const word *address = next + words[number].at;
      for (word turn = 0; !words[number].steps && turn < count && address < end; turn++, address += each)
         if (*address != 0) /* it happened */
            *any |= look(access, *address + offset, 0, 1);
   }
   next += each * count;
   return (word)((next < end ? next : end) - record);
}

void homing_look_for_touches(const word *from, const word *end)
{
   struct rusage usage;
   struct stream *self = &homing_self;
   if (syscall(SYS_getrusage, RUSAGE_THREAD, &usage) != 0)
      return;
   word faults = (word)usage.ru_minflt + (word)usage.ru_majflt;
   int any = 0, new = faults != self->faults && !self->muddled && !self->shares;
   self->faults = faults;
   self->muddled = 0;
   while (new && from < end)
      from += look_at(from, end, &any);
   if (any)
      publish();
}
