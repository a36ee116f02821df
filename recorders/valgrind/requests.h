/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The requests that preload.c, inside the program, makes to the tool.
 */
#ifndef HOMING_REQUESTS_H
#define HOMING_REQUESTS_H

#include "valgrind.h"

enum {
   /* Entering an allocation function: HOMING_ALLOC_* */
   HOMING_REQUEST_ENTER = VG_USERREQ_TOOL_BASE('H', 'O'),
   /* It returned: address, size */
   HOMING_REQUEST_ALLOCATED,
   /* About to free: address */
   HOMING_REQUEST_FREE,
   /* pthread_join returned: pthread_t */
   HOMING_REQUEST_JOINED,
   /* The program marks an iteration or a phase: name */
   HOMING_REQUEST_MARK,
   /* The program is CPython: where its variables _PyRuntime, Py_Version and PyCode_Type are */
   HOMING_REQUEST_PYTHON
};

#endif
