/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Finds the accesses of a function. Everything is collected before code is added, since scalar evolution knows only the
 * code as it was. */
#include "pass.h"

#include "../include/homing_wire.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

namespace homing {
namespace {

/* Collects the parts of one basic block after another. */
class Collector {
   Work &work;
   ScalarEvolution &evolution;
   const DataLayout &layout;
   /* Collects a loop, which has no end in between: more than fits into a record, or a call, rules it out. */
   bool const whole;
   bool failed = false;
   Part part;
   SmallVector<const SCEV *, MOST_WORDS> bases; /* of the part's words */
   std::vector<Instruction *> small;

   void restart()
   {
      part = Part();
      part.before = nullptr;
      part.words = part.instructions = 0;
      bases.clear();
   }

 public:
   Collector(Work &work, ScalarEvolution &evolution, bool whole = false)
      : work(work), evolution(evolution), layout(work.function->getParent()->getDataLayout()), whole(whole)
   {
      restart();
   }

   /* Ends the part: what follows may record, too. */
   void flush()
   {
      failed = true;
      if (!part.accesses.empty() && !whole)
         work.parts.push_back(std::move(part));
      restart();
   }

   void block(BasicBlock &block)
   {
      for (Instruction &instruction : block)
         take(instruction);
      flush();
      remember_small();
   }

   /* The accesses of a loop's only block, in one part; none if there is more than accesses. */
   bool body(BasicBlock &block, Part &body)
   {
      for (Instruction &instruction : block) {
         if (isa<IntrinsicInst>(instruction) && is_masked(cast<IntrinsicInst>(instruction)))
            return false; /* its lanes need code, which would be there twice if the loop is ruled out */
         take(instruction);
         if (failed)
            return false;
      }
      body = std::move(part);
      if (body.accesses.empty())
         return false;
      remember_small();
      return true;
   }

 private:
   void remember_small()
   {
      work.small.insert(work.small.end(), small.begin(), small.end());
      small.clear();
   }

   static bool is_masked(const IntrinsicInst &call)
   {
      switch (call.getIntrinsicID()) {
      case Intrinsic::masked_load:
      case Intrinsic::masked_store:
      case Intrinsic::masked_gather:
      case Intrinsic::masked_scatter:
         return true;
      default:
         return false;
      }
   }

   /* The word and distance that an address has, if that is constant. */
   bool derive(Access &access, const SCEV *address)
   {
      for (unsigned word = 0; word < bases.size(); word++) {
         if (!bases[word] || bases[word]->getType() != address->getType())
            continue;
         auto *distance = dyn_cast<SCEVConstant>(evolution.getMinusSCEV(address, bases[word]));
         if (!distance || !distance->getAPInt().isSignedIntN(16))
            continue;
         access.derived = true;
         access.word = word;
         access.distance = distance->getAPInt().getSExtValue();
         return true;
      }
      return false;
   }

   void add(Instruction &at, Value *pointer, int64_t offset, uint64_t bytes, bool write, Value *guard = nullptr)
   {
      if (part.accesses.size() == MOST_ACCESSES || (part.words == MOST_WORDS && !whole))
         flush();
      Access access = {pointer, offset, uint32_t(std::min<uint64_t>(bytes, 0xffff)), write, guard,
                       part.instructions, false, 0, 0, nullptr, nullptr, nullptr};
      const SCEV *address = nullptr;
      if (!guard && evolution.isSCEVable(pointer->getType())) {
         address = evolution.getSCEV(pointer);
         if (offset != 0)
            address = evolution.getAddExpr(
               address, evolution.getConstant(evolution.getEffectiveSCEVType(address->getType()), offset, true));
         derive(access, address);
      }
      if (!access.derived) {
         access.word = part.words++;
         bases.push_back(address);
      }
      part.accesses.push_back(access);
      part.before = &at;
   }

   /* A range in pieces as the runtime records them (homing_range). */
   void add_range(Instruction &at, Value *pointer, uint64_t bytes, bool write)
   {
      uint64_t offset = 0;
      for (uint64_t piece = 32; piece > 0; piece /= 2)
         for (; bytes - offset >= piece; offset += piece)
            add(at, pointer, int64_t(offset), piece, write);
   }

   void add_masked(IntrinsicInst &call, Value *pointers, Value *mask, Type *type, bool write)
   {
      auto *vector = dyn_cast<FixedVectorType>(type);
      if (!vector)
         return;
      uint64_t bytes = layout.getTypeStoreSize(vector->getElementType());
      IRBuilder<> builder(&call);
      for (unsigned lane = 0; lane < vector->getNumElements(); lane++) {
         bool each = pointers->getType()->isVectorTy();
         Value *pointer = each ? builder.CreateExtractElement(pointers, uint64_t(lane)) : pointers;
         Value *guard = builder.CreateExtractElement(mask, uint64_t(lane));
         add(call, pointer, each ? 0 : int64_t(lane * bytes), bytes, write, guard);
      }
   }

   void remember(std::vector<Instruction *> &list, Instruction &instruction)
   {
      if (!whole)
         list.push_back(&instruction);
   }

   void take(Instruction &instruction)
   {
      if (isa<DbgInfoIntrinsic>(instruction) || isa<PHINode>(instruction))
         return;
      if (auto *call = dyn_cast<CallBase>(&instruction))
         take_call(*call);
      else if (auto *load = dyn_cast<LoadInst>(&instruction))
         take_access(*load, load->getPointerOperand(), load->getType(), false, load->getOrdering(),
                     load->getSyncScopeID());
      else if (auto *store = dyn_cast<StoreInst>(&instruction))
         take_access(*store, store->getPointerOperand(), store->getValueOperand()->getType(), true,
                     store->getOrdering(), store->getSyncScopeID());
      else if (isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction) || isa<FenceInst>(instruction)) {
         flush();
         remember(work.atomics, instruction);
      }
      part.instructions++;
   }

   void take_access(Instruction &at, Value *pointer, Type *type, bool write, AtomicOrdering ordering,
                    SyncScope::ID scope)
   {
      if (pointer->getType()->getPointerAddressSpace() != 0 || pointer->isSwiftError())
         return; /* of fs and gs the address is not known */
      TypeSize size = layout.getTypeStoreSize(type);
      if (size.isScalable() || uint64_t(size) == 0)
         return;
      if (isStrongerThan(ordering, AtomicOrdering::Unordered) && scope != SyncScope::SingleThread &&
          isPowerOf2_64(uint64_t(size)) && uint64_t(size) <= 16) {
         flush();
         remember(work.atomics, at);
      } else {
         add(at, pointer, 0, uint64_t(size), write);
      }
   }

   void take_call(CallBase &call)
   {
      auto *intrinsic = dyn_cast<IntrinsicInst>(&call);
      if (!intrinsic) {
         flush();
         work.calls |= !call.isInlineAsm();
         return;
      }
      if (auto *copy = dyn_cast<MemIntrinsic>(intrinsic)) {
         take_range(*copy);
         return;
      }
      switch (intrinsic->getIntrinsicID()) {
      case Intrinsic::masked_load:
         return add_masked(*intrinsic, call.getArgOperand(0), call.getArgOperand(2), call.getType(), false);
      case Intrinsic::masked_gather:
         return add_masked(*intrinsic, call.getArgOperand(0), call.getArgOperand(2), call.getType(), false);
      case Intrinsic::masked_store:
      case Intrinsic::masked_scatter:
         return add_masked(*intrinsic, call.getArgOperand(1), call.getArgOperand(3), call.getArgOperand(0)->getType(),
                           true);
      default:
         return;
      }
   }

   void take_range(MemIntrinsic &copy)
   {
      auto *from = dyn_cast<MemTransferInst>(&copy);
      if (copy.getDestAddressSpace() != 0 || (from && from->getSourceAddressSpace() != 0))
         return;
      if (!is_small(copy)) {
         flush();
         remember(work.ranges, copy);
         return;
      }
      uint64_t bytes = cast<ConstantInt>(copy.getLength())->getZExtValue();
      if (from)
         add_range(copy, from->getRawSource(), bytes, false);
      add_range(copy, copy.getRawDest(), bytes, true);
      small.push_back(&copy);
   }
};

} // namespace

static bool is_expandable(const SCEV *expression, Instruction *at, ScalarEvolution &evolution)
{
#if LLVM_VERSION_MAJOR >= 15
   SCEVExpander expander(evolution, at->getModule()->getDataLayout(), "homing");
   return expander.isSafeToExpandAt(expression, at);
#else
   return isSafeToExpandAt(expression, at, evolution);
#endif
}

bool is_small(const Instruction &copy)
{
   auto *length = dyn_cast<ConstantInt>(cast<MemIntrinsic>(copy).getLength());
   return length && length->getZExtValue() <= SMALL_COPY;
}

/* Whether the value of the first iteration can be computed before the loop: from what is there, by plain arithmetic. */
static bool is_computable(Value *value, BasicBlock *block, unsigned depth = 0)
{
   auto *instruction = dyn_cast<Instruction>(value);
   if (!instruction || instruction->getParent() != block || isa<PHINode>(instruction))
      return true;
   bool plain = isa<GetElementPtrInst>(instruction) || isa<CastInst>(instruction) || isa<CmpInst>(instruction) ||
                isa<SelectInst>(instruction) || isa<FreezeInst>(instruction) ||
                (isa<BinaryOperator>(instruction) && !instruction->isIntDivRem());
   return plain && depth < 16 && all_of(instruction->operands(), [&](Value *operand) {
             return is_computable(operand, block, depth + 1);
          });
}

/* The step of an access from one iteration to the next, or NULL. */
static const SCEV *step_of(const Access &access, llvm::Loop *loop, ScalarEvolution &evolution)
{
   if (access.guard || !evolution.isSCEVable(access.pointer->getType()) ||
       !is_computable(access.pointer, loop->getHeader()))
      return nullptr;
   const SCEV *address = evolution.getSCEV(access.pointer);
   if (evolution.isLoopInvariant(address, loop))
      return evolution.getZero(evolution.getEffectiveSCEVType(address->getType()));
   auto *moving = dyn_cast<SCEVAddRecExpr>(address);
   if (!moving || moving->getLoop() != loop || !moving->isAffine())
      return nullptr;
   const SCEV *step = moving->getStepRecurrence(evolution);
   return evolution.isLoopInvariant(step, loop) && is_expandable(step, loop->getLoopPreheader()->getTerminator(), evolution)
             ? step
             : nullptr;
}

/* Whether a loop never goes round often; 0: nobody knows. */
static bool is_short(unsigned most_iterations)
{
   return most_iterations != 0 && most_iterations < FEW_ITERATIONS;
}

/* A loop that becomes one record, if it is such a one. */
static bool collect_loop(Loop &found, llvm::Loop *loop, Work &work, ScalarEvolution &evolution)
{
   BasicBlock *block = loop->getHeader();
   found.loop = loop;
   found.block = block;
   found.preheader = loop->getLoopPreheader();
   found.exit = loop->getExitBlock();
   if (!loop->isInnermost() || loop->getNumBlocks() != 1 || !found.preheader || !found.exit ||
       found.exit->isEHPad() || !isa<BranchInst>(block->getTerminator()) ||
       /* What is left over of an unrolled loop: blocks say it in fewer words. */
       is_short(evolution.getSmallConstantMaxTripCount(loop)) ||
       !Collector(work, evolution, true).body(*block, found.body))
      return false;
   found.regular = found.irregular = 0;
   for (Access &access : found.body.accesses) {
      if (access.derived)
         continue;
      access.step = step_of(access, loop, evolution);
      (access.step ? found.regular : found.irregular)++;
   }
   if (found.irregular > MOST_WORDS)
      return false;
   const SCEV *count = evolution.getBackedgeTakenCount(loop);
   bool known = !isa<SCEVCouldNotCompute>(count) && count->getType()->getIntegerBitWidth() <= 64 &&
                is_expandable(count, found.preheader->getTerminator(), evolution);
   found.count = known && found.irregular == 0 ? count : nullptr;
   return true;
}

Work collect(Function &function, ScalarEvolution &evolution, LoopInfo &loops)
{
   Work work = {&function, {}, {}, {}, {}, {}, false};
   Collector collector(work, evolution);
   /* Code for the lanes of masked accesses is added meanwhile. */
   SmallVector<BasicBlock *, 32> blocks;
   for (BasicBlock &block : function)
      blocks.push_back(&block);
   for (BasicBlock *block : blocks) {
      Loop found;
      llvm::Loop *loop = loops.getLoopFor(block);
      if (loop && loop->getHeader() == block && collect_loop(found, loop, work, evolution))
         work.loops.push_back(std::move(found));
      else
         collector.block(*block);
   }
   return work;
}

void define(const Part &part, std::vector<uint64_t> &words)
{
   words.push_back(uint64_t(part.accesses.size()) << 32 | part.instructions);
   words.push_back(0);
   for (const Access &access : part.accesses) {
      uint64_t word = std::min(access.instruction, 0xffffu) | uint64_t(access.bytes) << HOMING_ACCESS_SIZE_AT |
                      uint64_t(access.write) << HOMING_ACCESS_WRITE_BIT;
      if (access.step)
         word |= 1ULL << HOMING_ACCESS_STEPS_BIT;
      if (access.derived)
         word |= 1ULL << HOMING_ACCESS_DERIVED_BIT | uint64_t(access.word) << HOMING_ACCESS_WORD_AT |
                 uint64_t(uint16_t(access.distance)) << HOMING_ACCESS_OFFSET_AT;
      else if (access.guard)
         word |= 1ULL << HOMING_ACCESS_GUARDED_BIT;
      words.push_back(word);
   }
}

} // namespace homing
