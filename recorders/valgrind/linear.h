/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which temporaries of a block differ by a constant: each is kept as a sum of multiples of other temporaries plus a
 * constant. A sum with more than LINEAR_TERMS terms is opaque: a term of its own.
 */
#ifndef HOMING_LINEAR_H
#define HOMING_LINEAR_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

#define LINEAR_TERMS 3

typedef struct {
   Long constant;
   UInt terms;
   struct { IRTemp temp; Long factor; } term[LINEAR_TERMS]; /* by rising temp, no factor is 0 */
} Sum;

typedef struct {
   Sum* sum; /* by temporary */
   UInt temps, capacity;
} Linear;

/* Forgets everything; the block has `temps` temporaries. */
void linear_begin(Linear* linear, UInt temps);
/* Learns that `temp` is `value`. */
void linear_define(Linear* linear, IRTemp temp, const IRExpr* value);
/* True if `to` - `from` is the same in every execution. Both are atoms. */
Bool linear_distance(const Linear* linear, const IRExpr* from, const IRExpr* to, Long* distance);

#endif
