/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Runs inside the recorded program: wraps its allocation functions, whatever library they come from, so that the
 * program keeps its own allocator and its own addresses, and pthread_join. Takes the program's marks.
 */
#include <stddef.h>
#include "requests.h"
#include "homing_wire.h"

#define ANY(function) I_WRAP_SONAME_FNNAME_ZU(Za, function)

#define ENTER(function) VALGRIND_DO_CLIENT_REQUEST_STMT(HOMING_REQUEST_ENTER, (function), 0, 0, 0, 0)
#define ALLOCATED(address, size, old) \
   VALGRIND_DO_CLIENT_REQUEST_STMT(HOMING_REQUEST_ALLOCATED, (address), (size), (old), 0, 0)

/* void* f(size) */
#define WRAP_SIZE(name, function)               \
   void* ANY(name)(size_t size);                \
   void* ANY(name)(size_t size)                 \
   {                                            \
      OrigFn original;                          \
      void* address;                            \
      VALGRIND_GET_ORIG_FN(original);           \
      ENTER(function);                          \
      CALL_FN_W_W(address, original, size);     \
      ALLOCATED(address, size, 0);              \
      return address;                           \
   }

/* void* f(size, anything) */
#define WRAP_SIZE_ANY(name, function)                 \
   void* ANY(name)(size_t size, size_t any);          \
   void* ANY(name)(size_t size, size_t any)           \
   {                                                  \
      OrigFn original;                                \
      void* address;                                  \
      VALGRIND_GET_ORIG_FN(original);                 \
      ENTER(function);                                \
      CALL_FN_W_WW(address, original, size, any);     \
      ALLOCATED(address, size, 0);                    \
      return address;                                 \
   }

/* void* f(size, anything, anything) */
#define WRAP_SIZE_ANY_ANY(name, function)                    \
   void* ANY(name)(size_t size, size_t a, size_t b);         \
   void* ANY(name)(size_t size, size_t a, size_t b)          \
   {                                                         \
      OrigFn original;                                       \
      void* address;                                         \
      VALGRIND_GET_ORIG_FN(original);                        \
      ENTER(function);                                       \
      CALL_FN_W_WWW(address, original, size, a, b);          \
      ALLOCATED(address, size, 0);                           \
      return address;                                        \
   }

/* void* f(alignment, size) */
#define WRAP_ALIGNED(name)                                    \
   void* ANY(name)(size_t alignment, size_t size);            \
   void* ANY(name)(size_t alignment, size_t size)             \
   {                                                          \
      OrigFn original;                                        \
      void* address;                                          \
      VALGRIND_GET_ORIG_FN(original);                         \
      ENTER(HOMING_ALLOC_MEMALIGN);                           \
      CALL_FN_W_WW(address, original, alignment, size);       \
      ALLOCATED(address, size, 0);                            \
      return address;                                         \
   }

WRAP_SIZE(malloc, HOMING_ALLOC_MALLOC)
WRAP_SIZE(valloc, HOMING_ALLOC_MEMALIGN)
WRAP_SIZE(_Znwm, HOMING_ALLOC_NEW)
WRAP_SIZE(_Znam, HOMING_ALLOC_NEW_ARRAY)
WRAP_SIZE_ANY(_ZnwmRKSt9nothrow_t, HOMING_ALLOC_NEW)
WRAP_SIZE_ANY(_ZnamRKSt9nothrow_t, HOMING_ALLOC_NEW_ARRAY)
WRAP_SIZE_ANY(_ZnwmSt11align_val_t, HOMING_ALLOC_NEW)
WRAP_SIZE_ANY(_ZnamSt11align_val_t, HOMING_ALLOC_NEW_ARRAY)
WRAP_SIZE_ANY_ANY(_ZnwmSt11align_val_tRKSt9nothrow_t, HOMING_ALLOC_NEW)
WRAP_SIZE_ANY_ANY(_ZnamSt11align_val_tRKSt9nothrow_t, HOMING_ALLOC_NEW_ARRAY)
WRAP_ALIGNED(memalign)
WRAP_ALIGNED(aligned_alloc)

void* ANY(calloc)(size_t count, size_t size);
void* ANY(calloc)(size_t count, size_t size)
{
   OrigFn original;
   void* address;
   VALGRIND_GET_ORIG_FN(original);
   ENTER(HOMING_ALLOC_CALLOC);
   CALL_FN_W_WW(address, original, count, size);
   ALLOCATED(address, count * size, 0);
   return address;
}

void* ANY(realloc)(void* old, size_t size);
void* ANY(realloc)(void* old, size_t size)
{
   OrigFn original;
   void* address;
   VALGRIND_GET_ORIG_FN(original);
   ENTER(HOMING_ALLOC_REALLOC);
   CALL_FN_W_WW(address, original, old, size);
   ALLOCATED(address, size, old);
   return address;
}

int ANY(posix_memalign)(void** out, size_t alignment, size_t size);
int ANY(posix_memalign)(void** out, size_t alignment, size_t size)
{
   OrigFn original;
   int error;
   VALGRIND_GET_ORIG_FN(original);
   ENTER(HOMING_ALLOC_MEMALIGN);
   CALL_FN_W_WWW(error, original, out, alignment, size);
   ALLOCATED(error == 0 ? *out : 0, size, 0);
   return error;
}

void ANY(free)(void* address);
void ANY(free)(void* address)
{
   OrigFn original;
   VALGRIND_GET_ORIG_FN(original);
   VALGRIND_DO_CLIENT_REQUEST_STMT(HOMING_REQUEST_FREE, address, 0, 0, 0, 0);
   CALL_FN_v_W(original, address);
}

int ANY(pthread_join)(unsigned long thread, void** result);
int ANY(pthread_join)(unsigned long thread, void** result)
{
   OrigFn original;
   int error;
   VALGRIND_GET_ORIG_FN(original);
   CALL_FN_W_WW(error, original, thread, result);
   if (error == 0)
      VALGRIND_DO_CLIENT_REQUEST_STMT(HOMING_REQUEST_JOINED, thread, 0, 0, 0, 0);
   return error;
}

/* What ../../include/homing.h calls. */
void homing_mark(const char* name);
void homing_mark(const char* name)
{
   VALGRIND_DO_CLIENT_REQUEST_STMT(HOMING_REQUEST_MARK, name, 0, 0, 0, 0);
}

/* Of CPython, if the program is linked with it. Valgrind does not read the symbols of the first one's section. */
extern char _PyRuntime[] __attribute__((weak));
extern const unsigned long Py_Version __attribute__((weak));
extern char PyCode_Type[] __attribute__((weak));

__attribute__((constructor)) static void look_for_python(void)
{
   if (_PyRuntime != NULL && &Py_Version != NULL && PyCode_Type != NULL)
      VALGRIND_DO_CLIENT_REQUEST_STMT(HOMING_REQUEST_PYTHON, _PyRuntime, &Py_Version, PyCode_Type, 0, 0);
}
