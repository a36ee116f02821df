/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Atomic operations: done for real, recorded as one reference (a read-modify-write counts as one write, as in the
 * Valgrind recorder), and, where the order asks for it, as an edge between the thread that released and the one that
 * acquired. The operations use the strongest order that costs nothing more on x86-64; a plain store is the exception.
 * */
#include "runtime.h"

#include <stdbool.h>

typedef uint8_t a8;
typedef uint16_t a16;
typedef uint32_t a32;
typedef uint64_t a64;
__extension__ typedef unsigned __int128 a128;

static bool acquires(int order)
{
   return order == __ATOMIC_CONSUME || order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL ||
          order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
   return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static inline void before(const volatile void *at, int order)
{
   if (releases(order) && homing_active)
      homing_sync(HOMING_SYNC_RELEASE, (word)at);
}

static inline void after(const volatile void *at, int order)
{
   if (acquires(order) && homing_active)
      homing_sync(HOMING_SYNC_ACQUIRE, (word)at);
}

/* A load: a thread that sees the same value again learnt nothing, so a spin on a flag is one edge. */
static inline void after_load(const volatile void *at, word value, int order)
{
   if (!acquires(order) || !homing_active)
      return;
   if (homing_self.seen_at == at && homing_self.seen_value == value)
      return;
   homing_self.seen_at = at;
   homing_self.seen_value = value;
   homing_sync(HOMING_SYNC_ACQUIRE, (word)at);
}

static inline void reference(const volatile void *at, unsigned log2, unsigned write, word site)
{
   homing_reference(homing_word((word)at, log2, write, site));
}

#define LOAD_STORE(bits, log2)                                                                                         \
   EXPORT a##bits __tsan_atomic##bits##_load(const volatile a##bits *at, int order)                                    \
   {                                                                                                                   \
      a##bits value = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                           \
      after_load(at, (word)value, order);                                                                              \
      reference(at, log2, 0, CALLER);                                                                                  \
      return value;                                                                                                    \
   }                                                                                                                   \
   EXPORT void __tsan_atomic##bits##_store(volatile a##bits *at, a##bits value, int order)                             \
   {                                                                                                                   \
      reference(at, log2, 1, CALLER);                                                                                  \
      before(at, order);                                                                                               \
      if (order == __ATOMIC_SEQ_CST)                                                                                   \
         __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                \
      else                                                                                                             \
         __atomic_store_n(at, value, __ATOMIC_RELEASE);                                                                \
   }

/* A read-modify-write: `operation` computes the old value. */
#define MODIFY(bits, log2, name, operation)                                                                            \
   EXPORT a##bits __tsan_atomic##bits##_##name(volatile a##bits *at, a##bits value, int order)                         \
   {                                                                                                                   \
      reference(at, log2, 1, CALLER);                                                                                  \
      before(at, order);                                                                                               \
      a##bits old = operation;                                                                                         \
      after(at, order);                                                                                                \
      return old;                                                                                                      \
   }

#define MODIFY_ALL(bits, log2)                                                                                         \
   MODIFY(bits, log2, exchange, __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, log2, fetch_add, __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, log2, fetch_sub, __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, log2, fetch_and, __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, log2, fetch_or, __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST))                                        \
   MODIFY(bits, log2, fetch_xor, __atomic_fetch_xor(at, value, __ATOMIC_SEQ_CST))                                      \
   MODIFY(bits, log2, fetch_nand, __atomic_fetch_nand(at, value, __ATOMIC_SEQ_CST))

/* `swap` stores `value` if `*at` is `expected`, and gives what was there. */
#define COMPARE(bits, log2, swap)                                                                                      \
   EXPORT a##bits __tsan_atomic##bits##_compare_exchange_val(volatile a##bits *at, a##bits expected, a##bits value,    \
                                                             int order, int failure_order)                             \
   {                                                                                                                   \
      reference(at, log2, 1, CALLER);                                                                                  \
      before(at, order);                                                                                               \
      a##bits old = swap(at, expected, value);                                                                         \
      after(at, old == expected ? order : failure_order);                                                              \
      return old;                                                                                                      \
   }                                                                                                                   \
   EXPORT int __tsan_atomic##bits##_compare_exchange_strong(volatile a##bits *at, a##bits *expected, a##bits value,    \
                                                            int order, int failure_order)                              \
   {                                                                                                                   \
      reference(at, log2, 1, CALLER);                                                                                  \
      before(at, order);                                                                                               \
      a##bits old = swap(at, *expected, value);                                                                        \
      bool same = old == *expected;                                                                                    \
      after(at, same ? order : failure_order);                                                                         \
      *expected = old;                                                                                                 \
      return same;                                                                                                     \
   }                                                                                                                   \
   EXPORT int __tsan_atomic##bits##_compare_exchange_weak(volatile a##bits *at, a##bits *expected, a##bits value,      \
                                                          int order, int failure_order)                                \
      __attribute__((alias("__tsan_atomic" #bits "_compare_exchange_strong")));

LOAD_STORE(8, 0)
LOAD_STORE(16, 1)
LOAD_STORE(32, 2)
LOAD_STORE(64, 3)
MODIFY_ALL(8, 0)
MODIFY_ALL(16, 1)
MODIFY_ALL(32, 2)
MODIFY_ALL(64, 3)
COMPARE(8, 0, __sync_val_compare_and_swap)
COMPARE(16, 1, __sync_val_compare_and_swap)
COMPARE(32, 2, __sync_val_compare_and_swap)
COMPARE(64, 3, __sync_val_compare_and_swap)

/* Sixteen bytes: everything is a compare and swap (cmpxchg16b), without a need for libatomic. */
static a128 swap128(volatile a128 *at, a128 expected, a128 value)
{
   return __sync_val_compare_and_swap(at, expected, value);
}

#define MODIFY128(name, result)                                                                                        \
   EXPORT a128 __tsan_atomic128_##name(volatile a128 *at, a128 value, int order)                                       \
   {                                                                                                                   \
      reference(at, 4, 1, CALLER);                                                                                     \
      before(at, order);                                                                                               \
      a128 old = *at;                                                                                                  \
      for (a128 seen; (seen = swap128(at, old, result)) != old; old = seen) {                                          \
      }                                                                                                                \
      after(at, order);                                                                                                \
      return old;                                                                                                      \
   }

MODIFY128(exchange, value)
MODIFY128(fetch_add, old + value)
MODIFY128(fetch_sub, old - value)
MODIFY128(fetch_and, old &value)
MODIFY128(fetch_or, old | value)
MODIFY128(fetch_xor, old ^ value)
MODIFY128(fetch_nand, ~(old & value))
COMPARE(128, 4, swap128)

EXPORT a128 __tsan_atomic128_load(const volatile a128 *at, int order)
{
   a128 value = swap128((volatile a128 *)at, 0, 0);
   after_load(at, (word)value, order);
   reference(at, 4, 0, CALLER);
   return value;
}

EXPORT void __tsan_atomic128_store(volatile a128 *at, a128 value, int order)
{
   reference(at, 4, 1, CALLER);
   before(at, order);
   for (a128 old = *at, seen; (seen = swap128(at, old, value)) != old; old = seen) {
   }
}

/* Every releasing fence orders every later acquiring one. */
EXPORT void __tsan_atomic_thread_fence(int order)
{
   before((void *)OBJECT_FENCE, order);
   __atomic_thread_fence(__ATOMIC_SEQ_CST);
   after((void *)OBJECT_FENCE, order);
}

EXPORT void __tsan_atomic_signal_fence(int order)
{
   (void)order;
   __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
