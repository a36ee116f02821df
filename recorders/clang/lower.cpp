/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Atomic operations and ranges become calls of the runtime's functions for -fsanitize=thread: it records them, with
 * their synchronisation, and does the work. */
#include "pass.h"

#include "llvm/IR/DataLayout.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace homing {
namespace {

/* The order's number in the interface, which is C's. */
Value *order(IRBuilder<> &builder, AtomicOrdering ordering)
{
   unsigned number = 0;
   switch (ordering) {
   case AtomicOrdering::Acquire:
      number = 2;
      break;
   case AtomicOrdering::Release:
      number = 3;
      break;
   case AtomicOrdering::AcquireRelease:
      number = 4;
      break;
   case AtomicOrdering::SequentiallyConsistent:
      number = 5;
      break;
   default:
      break;
   }
   return builder.getInt32(number);
}

Value *to_integer(IRBuilder<> &builder, Value *value, Type *integer)
{
   return value->getType()->isPointerTy() ? builder.CreatePtrToInt(value, integer)
                                          : builder.CreateBitCast(value, integer);
}

Value *from_integer(IRBuilder<> &builder, Value *value, Type *type)
{
   return type->isPointerTy() ? builder.CreateIntToPtr(value, type) : builder.CreateBitCast(value, type);
}

const char *name_of(AtomicRMWInst::BinOp operation)
{
   switch (operation) {
   case AtomicRMWInst::Xchg:
      return "exchange";
   case AtomicRMWInst::Add:
      return "fetch_add";
   case AtomicRMWInst::Sub:
      return "fetch_sub";
   case AtomicRMWInst::And:
      return "fetch_and";
   case AtomicRMWInst::Or:
      return "fetch_or";
   case AtomicRMWInst::Xor:
      return "fetch_xor";
   case AtomicRMWInst::Nand:
      return "fetch_nand";
   default:
      return nullptr;
   }
}

/* An atomic operation on a place, in terms of integers of its size. */
class Atomic {
   Instruction *const at;
   Module &module;
   IRBuilder<> builder;
   Type *const type;
   unsigned const bytes;
   Type *const integer;
   Value *const pointer;

   std::string name(const char *operation) { return "__tsan_atomic" + std::to_string(8 * bytes) + "_" + operation; }

   FunctionCallee function(const std::string &name, Type *result, ArrayRef<Type *> parameters)
   {
      return module.getOrInsertFunction(name, FunctionType::get(result, parameters, false));
   }

   void replace(Value *value)
   {
      at->replaceAllUsesWith(value);
      at->eraseFromParent();
   }

 public:
   Atomic(Instruction *at, Value *pointer, Type *type)
      : at(at), module(*at->getModule()), builder(at), type(type),
        bytes(unsigned(uint64_t(module.getDataLayout().getTypeStoreSize(type)))),
        integer(builder.getIntNTy(8 * bytes)),
        pointer(builder.CreatePointerCast(pointer, PointerType::get(integer, 0)))
   {
   }

   void load(LoadInst *load)
   {
      Type *i32 = builder.getInt32Ty();
      Value *value = builder.CreateCall(function(name("load"), integer, {pointer->getType(), i32}),
                                        {pointer, order(builder, load->getOrdering())});
      replace(from_integer(builder, value, type));
   }

   void store(StoreInst *store)
   {
      Type *i32 = builder.getInt32Ty();
      builder.CreateCall(function(name("store"), builder.getVoidTy(), {pointer->getType(), integer, i32}),
                         {pointer, to_integer(builder, store->getValueOperand(), integer),
                          order(builder, store->getOrdering())});
      at->eraseFromParent();
   }

   void modify(AtomicRMWInst *modify)
   {
      Type *i32 = builder.getInt32Ty();
      const char *operation = name_of(modify->getOperation());
      if (operation == nullptr || bytes > 16) {
         beside();
         return;
      }
      Value *old = builder.CreateCall(function(name(operation), integer, {pointer->getType(), integer, i32}),
                                      {pointer, to_integer(builder, modify->getValOperand(), integer),
                                       order(builder, modify->getOrdering())});
      replace(from_integer(builder, old, type));
   }

   void compare(AtomicCmpXchgInst *compare)
   {
      Type *i32 = builder.getInt32Ty();
      if (bytes > 16) {
         beside();
         return;
      }
      Value *expected = to_integer(builder, compare->getCompareOperand(), integer);
      Value *wanted = to_integer(builder, compare->getNewValOperand(), integer);
      Value *old = builder.CreateCall(
         function(name("compare_exchange_val"), integer, {pointer->getType(), integer, integer, i32, i32}),
         {pointer, expected, wanted, order(builder, compare->getSuccessOrdering()),
          order(builder, compare->getFailureOrdering())});
      Value *same = builder.CreateICmpEQ(old, expected);
      Value *pair = builder.CreateInsertValue(UndefValue::get(at->getType()), from_integer(builder, old, type), 0);
      replace(builder.CreateInsertValue(pair, same, 1));
   }

   /* An operation that the interface lacks stays: the reference and its edges are said beside it. */
   void beside()
   {
      Type *bytes_type = PointerType::get(builder.getInt8Ty(), 0);
      Value *place = builder.CreatePointerCast(pointer, bytes_type);
      auto say = [&](const char *name) {
         builder.CreateCall(function(name, builder.getVoidTy(), {bytes_type}), {place});
      };
      std::string write = "__tsan_write" + std::to_string(std::min(bytes, 16u));
      say(write.c_str());
      say("__tsan_release");
      builder.SetInsertPoint(at->getNextNode());
      say("__tsan_acquire");
   }
};

} // namespace

void lower_atomic(Instruction *at)
{
   if (auto *fence = dyn_cast<FenceInst>(at)) {
      IRBuilder<> builder(fence);
      const char *name = fence->getSyncScopeID() == SyncScope::SingleThread ? "__tsan_atomic_signal_fence"
                                                                             : "__tsan_atomic_thread_fence";
      auto function = at->getModule()->getOrInsertFunction(name, builder.getVoidTy(), builder.getInt32Ty());
      builder.CreateCall(function, {order(builder, fence->getOrdering())});
      fence->eraseFromParent();
   } else if (auto *load = dyn_cast<LoadInst>(at)) {
      Atomic(at, load->getPointerOperand(), load->getType()).load(load);
   } else if (auto *store = dyn_cast<StoreInst>(at)) {
      Atomic(at, store->getPointerOperand(), store->getValueOperand()->getType()).store(store);
   } else if (auto *modify = dyn_cast<AtomicRMWInst>(at)) {
      Atomic(at, modify->getPointerOperand(), modify->getValOperand()->getType()).modify(modify);
   } else if (auto *compare = dyn_cast<AtomicCmpXchgInst>(at)) {
      Atomic(at, compare->getPointerOperand(), compare->getCompareOperand()->getType()).compare(compare);
   }
}

void lower_range(Instruction *at)
{
   auto *range = cast<MemIntrinsic>(at);
   IRBuilder<> builder(range);
   Module &module = *at->getModule();
   Type *bytes = PointerType::get(builder.getInt8Ty(), 0), *size = builder.getInt64Ty();
   Value *to = builder.CreatePointerCast(range->getRawDest(), bytes);
   Value *length = builder.CreateZExtOrTrunc(range->getLength(), size);
   if (auto *fill = dyn_cast<MemSetInst>(range)) {
      Type *i32 = builder.getInt32Ty();
      auto function = module.getOrInsertFunction("__tsan_memset", bytes, bytes, i32, size);
      builder.CreateCall(function, {to, builder.CreateZExt(fill->getValue(), i32), length});
   } else {
      Value *from = builder.CreatePointerCast(cast<MemTransferInst>(range)->getRawSource(), bytes);
      const char *name = isa<MemMoveInst>(range) ? "__tsan_memmove" : "__tsan_memcpy";
      builder.CreateCall(module.getOrInsertFunction(name, bytes, bytes, bytes, size), {to, from, length});
   }
   range->eraseFromParent();
}

static Align align_of(MaybeAlign align)
{
   return align ? *align : Align(1);
}

void expand_small(Instruction *at)
{
   auto *range = cast<MemIntrinsic>(at);
   auto *move = dyn_cast<MemTransferInst>(range);
   auto *fill = dyn_cast<MemSetInst>(range);
   uint64_t bytes = cast<ConstantInt>(range->getLength())->getZExtValue();
   IRBuilder<> builder(range);
   auto place = [&](Value *pointer, uint64_t offset, Type *type) {
      Value *byte = builder.CreatePointerCast(pointer, PointerType::get(builder.getInt8Ty(), 0));
      byte = builder.CreateConstGEP1_64(builder.getInt8Ty(), byte, offset);
      return builder.CreatePointerCast(byte, PointerType::get(type, 0));
   };
   struct Piece {
      Value *to, *value;
      uint64_t offset;
   };
   SmallVector<Piece, 16> pieces;
   auto put = [&](const Piece &piece) {
      builder.CreateAlignedStore(piece.value, piece.to, commonAlignment(align_of(range->getDestAlign()), piece.offset),
                                 range->isVolatile());
   };
   uint64_t offset = 0;
   for (uint64_t size = 16; size > 0; size /= 2)
      for (; bytes - offset >= size; offset += size) {
         Type *type = size == 16 ? static_cast<Type *>(FixedVectorType::get(builder.getInt8Ty(), 16))
                                 : builder.getIntNTy(unsigned(8 * size));
         Value *value;
         if (move) {
            Align align = commonAlignment(align_of(move->getSourceAlign()), offset);
            value = builder.CreateAlignedLoad(type, place(move->getRawSource(), offset, type), align, move->isVolatile());
         } else if (size == 16) {
            value = builder.CreateVectorSplat(16, fill->getValue());
         } else {
            /* The byte in each of its places. */
            APInt ones = APInt::getSplat(unsigned(8 * size), APInt(8, 1));
            value = builder.CreateMul(builder.CreateZExt(fill->getValue(), type), ConstantInt::get(type, ones));
         }
         pieces.push_back({place(range->getRawDest(), offset, type), value, offset});
         if (!isa<MemMoveInst>(range)) {
            put(pieces.back());
            pieces.pop_back();
         }
      }
   for (const Piece &piece : pieces)
      put(piece);
   range->eraseFromParent();
}

} // namespace homing
