/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The plain accesses that gcc and clang announce under -fsanitize=thread. Each is a handful of instructions: the
 * reference word is built from the address, constants and the return address, and stored at the stream's counter. */
#include "runtime.h"

#define ACCESS(name, log2, write)                                                                                      \
   EXPORT void __tsan_##name(void *address) { homing_reference(homing_word((word)address, log2, write, CALLER)); }
#define ACCESS_PC(name, log2, write)                                                                                   \
   EXPORT void __tsan_##name##_pc(void *address, void *pc)                                                             \
   {                                                                                                                   \
      homing_reference(homing_word((word)address, log2, write, (word)pc));                                             \
   }

#define SIZE(bytes, log2)                                                                                              \
   ACCESS(read##bytes, log2, 0)                                                                                        \
   ACCESS(write##bytes, log2, 1)                                                                                       \
   ACCESS(volatile_read##bytes, log2, 0)                                                                               \
   ACCESS(volatile_write##bytes, log2, 1)                                                                              \
   ACCESS(unaligned_read##bytes, log2, 0)                                                                              \
   ACCESS(unaligned_write##bytes, log2, 1)                                                                             \
   ACCESS(unaligned_volatile_read##bytes, log2, 0)                                                                     \
   ACCESS(unaligned_volatile_write##bytes, log2, 1)                                                                    \
   ACCESS_PC(read##bytes, log2, 0)                                                                                     \
   ACCESS_PC(write##bytes, log2, 1)                                                                                    \
   /* A compound access is the load and the store that the machine makes. */                                           \
   EXPORT void __tsan_read_write##bytes(void *address)                                                                 \
   {                                                                                                                   \
      homing_reference(homing_word((word)address, log2, 0, CALLER));                                                   \
      homing_reference(homing_word((word)address, log2, 1, CALLER));                                                   \
   }                                                                                                                   \
   EXPORT void __tsan_unaligned_read_write##bytes(void *address)                                                       \
   {                                                                                                                   \
      homing_reference(homing_word((word)address, log2, 0, CALLER));                                                   \
      homing_reference(homing_word((word)address, log2, 1, CALLER));                                                   \
   }

SIZE(1, 0)
SIZE(2, 1)
SIZE(4, 2)
SIZE(8, 3)
SIZE(16, 4)

EXPORT void __tsan_vptr_update(void **object, void *table)
{
   (void)table;
   homing_reference(homing_word((word)object, 3, 1, CALLER));
}

EXPORT void __tsan_vptr_read(void **object) { homing_reference(homing_word((word)object, 3, 0, CALLER)); }

EXPORT void __tsan_read_range(void *address, size_t bytes) { homing_range((word)address, bytes, 0, CALLER); }

EXPORT void __tsan_write_range(void *address, size_t bytes) { homing_range((word)address, bytes, 1, CALLER); }

EXPORT void __tsan_read_range_pc(void *address, size_t bytes, void *pc)
{
   homing_range((word)address, bytes, 0, (word)pc);
}

EXPORT void __tsan_write_range_pc(void *address, size_t bytes, void *pc)
{
   homing_range((word)address, bytes, 1, (word)pc);
}

/* A function entry is one unit of virtual time; it is sent with the next edge or segment. */
EXPORT void __tsan_func_entry(void *return_address)
{
   (void)return_address;
   homing_self.advance++;
   if (UNLIKELY(homing_region_awaited))
      homing_region_enter(CALLER);
}

EXPORT void __tsan_func_exit(void) {}

EXPORT void __tsan_init(void)
{
   homing_start();
   homing_send_libraries();
}

/* The checker's own switches: they say which races to report, not which accesses happen. */
EXPORT void __tsan_ignore_thread_begin(void) {}
EXPORT void __tsan_ignore_thread_end(void) {}
EXPORT void __tsan_acquire(void *object) { homing_sync(HOMING_SYNC_ACQUIRE, (word)object); }
EXPORT void __tsan_release(void *object) { homing_sync(HOMING_SYNC_RELEASE, (word)object); }

void homing_range(word address, word bytes, unsigned write, word site)
{
   for (; bytes >= 32; address += 32, bytes -= 32)
      homing_reference(homing_word(address, 5, write, site));
   for (unsigned log2 = 4; bytes > 0; log2--)
      if (bytes >> log2) {
         homing_reference(homing_word((word)address, log2, write, site));
         address += 1ULL << log2;
         bytes -= 1ULL << log2;
      }
}
