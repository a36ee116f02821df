/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which temporaries of a block differ by a constant (linear.h).
 */
#include "linear.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

static Sum opaque(IRTemp temp)
{
   return (Sum){ .terms = 1, .term = { { temp, 1 } } };
}

void linear_begin(Linear* linear, UInt temps)
{
   if (temps > linear->capacity) {
      VG_(free)(linear->sum);
      linear->capacity = 2 * temps;
      linear->sum = VG_(malloc)("homing.linear", linear->capacity * sizeof *linear->sum);
   }
   linear->temps = temps;
   for (UInt i = 0; i < temps; i++)
      linear->sum[i] = opaque(i);
}

/* The sum that an atom stands for; False if it is not a 64-bit integer. */
static Bool sum_of(const Linear* linear, const IRExpr* atom, Sum* sum)
{
   if (atom->tag == Iex_RdTmp && atom->Iex.RdTmp.tmp < linear->temps) {
      *sum = linear->sum[atom->Iex.RdTmp.tmp];
      return True;
   }
   if (atom->tag == Iex_Const && atom->Iex.Const.con->tag == Ico_U64) {
      *sum = (Sum){ .constant = (Long)atom->Iex.Const.con->Ico.U64 };
      return True;
   }
   return False;
}

/* a + factor * b, modulo 2^64; False if it has too many terms. */
static Bool combine(const Sum* a, const Sum* b, Long factor, Sum* out)
{
   Sum sum = { .constant = (Long)((ULong)a->constant + (ULong)factor * (ULong)b->constant) };
   UInt i = 0, k = 0;
   while (i < a->terms || k < b->terms) {
      Bool from_a = i < a->terms && (k == b->terms || a->term[i].temp <= b->term[k].temp);
      Bool from_b = k < b->terms && (i == a->terms || b->term[k].temp <= a->term[i].temp);
      IRTemp temp = from_a ? a->term[i].temp : b->term[k].temp;
      ULong total = from_a ? (ULong)a->term[i++].factor : 0;
      if (from_b)
         total += (ULong)factor * (ULong)b->term[k++].factor;
      if (total == 0)
         continue;
      if (sum.terms == LINEAR_TERMS)
         return False;
      sum.term[sum.terms].temp = temp;
      sum.term[sum.terms++].factor = (Long)total;
   }
   *out = sum;
   return True;
}

void linear_define(Linear* linear, IRTemp temp, const IRExpr* value)
{
   Sum a, b, result;
   if (value->tag == Iex_RdTmp || value->tag == Iex_Const) {
      if (sum_of(linear, value, &a))
         linear->sum[temp] = a;
      return;
   }
   if (value->tag != Iex_Binop)
      return;
   const Sum zero = { 0 };
   IROp op = value->Iex.Binop.op;
   const IRExpr* right = value->Iex.Binop.arg2;
   Bool known = False;
   if (op == Iop_Shl64 && right->tag == Iex_Const && right->Iex.Const.con->tag == Ico_U8)
      known = sum_of(linear, value->Iex.Binop.arg1, &a)
           && combine(&zero, &a, (Long)(1ULL << (right->Iex.Const.con->Ico.U8 & 63)), &result);
   else if (op == Iop_Add64 || op == Iop_Sub64)
      known = sum_of(linear, value->Iex.Binop.arg1, &a) && sum_of(linear, right, &b)
           && combine(&a, &b, op == Iop_Add64 ? 1 : -1, &result);
   if (known)
      linear->sum[temp] = result;
}

Bool linear_distance(const Linear* linear, const IRExpr* from, const IRExpr* to, Long* distance)
{
   Sum a, b, difference;
   if (!sum_of(linear, from, &a) || !sum_of(linear, to, &b) || !combine(&b, &a, -1, &difference))
      return False;
   *distance = difference.constant;
   return difference.terms == 0;
}
