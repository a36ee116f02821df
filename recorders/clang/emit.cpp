/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The code that writes records. A record lies in the thread's segment of shared memory: its head, then its words. The
 * cursor is moved when all are written, so that whoever looks at the segment sees whole records. */
#include "pass.h"

#include "llvm/Analysis/DomTreeUpdater.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

namespace homing {
namespace {

/* What the runtime shares with the code (recorders/tsan/runtime.h, struct stream). */
enum { AT_CURSOR = 0, AT_INLINE_LIMIT = 1, STREAM_WORDS = 2 };
/* Words of a loop record before its starts. */
enum { LOOP_HEAD = 2 };

class Emitter {
   Module &module;
   LLVMContext &context;
   Type *const word;
   PointerType *const words;   /* to words */
   GlobalVariable *const heads;
   GlobalVariable *const self;
   FunctionCallee room, reopen;
   MDNode *const rarely;

 public:
   Emitter(Module &module, GlobalVariable *heads)
      : module(module), context(module.getContext()), word(Type::getInt64Ty(context)), words(PointerType::get(word, 0)),
        heads(heads), self(stream()),
        room(slow("__homing_room", {})), reopen(slow("__homing_loop", {words, word, word})),
        rarely(MDBuilder(context).createBranchWeights(1, 1 << 20))
   {
   }

   void part(const Part &part, unsigned index)
   {
      IRBuilder<> builder(part.before);
      SmallVector<Value *, MOST_WORDS> addresses;
      for (const Access &access : part.accesses)
         if (!access.derived)
            addresses.push_back(address(builder, access));
      Place place = make_room(part.before);
      builder.SetInsertPoint(part.before);
      builder.CreateStore(head(builder, index), place.at);
      unsigned n = 1;
      for (Value *address : addresses)
         builder.CreateStore(address, builder.CreateConstInBoundsGEP1_64(word, place.at, n++));
      move_cursor(builder, place, builder.CreateConstInBoundsGEP1_64(word, place.at, n));
   }

   /* What the head of a loop record needs, computed before the loop. Adds no blocks. */
   void prepare(Loop &loop, SCEVExpander &expander)
   {
      Instruction *before = loop.preheader->getTerminator();
      DenseMap<Value *, Value *> first;
      for (Access &access : loop.body.accesses)
         if (access.step) {
            IRBuilder<> builder(before);
            Value *pointer = in_first_iteration(access.pointer, loop, before, first);
            access.start_value = builder.CreatePtrToInt(pointer, word);
            if (access.offset != 0)
               access.start_value = builder.CreateAdd(access.start_value, builder.getInt64(uint64_t(access.offset)));
            access.step_value = expander.expandCodeFor(access.step, word, before);
         }
      if (loop.count) {
         Value *back = expander.expandCodeFor(loop.count, loop.count->getType(), before);
         IRBuilder<> builder(before);
         loop.count_value = builder.CreateAdd(builder.CreateZExt(back, word), builder.getInt64(1));
      }
   }

   void loop(Loop &loop, unsigned index, DomTreeUpdater &tree, LoopInfo &loops)
   {
      Instruction *before = loop.preheader->getTerminator();
      Place place = make_room(before, &tree, &loops);
      IRBuilder<> builder(before);
      unsigned n = LOOP_HEAD;
      for (const Access &access : loop.body.accesses)
         if (access.step) {
            builder.CreateStore(access.start_value, slot(builder, place.at, n++));
            builder.CreateStore(access.step_value, slot(builder, place.at, n++));
         }
      builder.CreateStore(loop.count ? loop.count_value : builder.getInt64(0), slot(builder, place.at, 1));
      builder.CreateStore(head(builder, index), place.at);
      Value *first = slot(builder, place.at, n);
      if (loop.count)
         move_cursor(builder, place, first);
      else if (loop.irregular == 0)
         count(loop, place, first, tree, loops);
      else
         irregular(loop, before->getParent(), first, n, tree, loops);
   }

   /* Announces the function's entry while the runtime waits for one. */
   void entry(Instruction *before)
   {
      auto *type = Type::getInt32Ty(context);
      Constant *awaited = module.getOrInsertGlobal("homing_region_awaited", type);
      IRBuilder<> builder(before);
      Value *is = builder.CreateICmpNE(builder.CreateLoad(type, awaited), ConstantInt::get(type, 0));
      IRBuilder<> then(SplitBlockAndInsertIfThen(is, before, false, rarely, static_cast<DomTreeUpdater *>(nullptr)));
      auto *pointer = PointerType::get(Type::getInt8Ty(context), 0);
      FunctionCallee announce = module.getOrInsertFunction("__tsan_func_entry", then.getVoidTy(), pointer);
      then.CreateCall(announce, {ConstantPointerNull::get(pointer)});
   }

 private:
   /* Where a record goes, and the cursor that says so. */
   struct Place {
      Value *cursor, *at;
   };

   /* A function of the runtime that keeps all registers. */
   FunctionCallee slow(const char *name, ArrayRef<Type *> parameters)
   {
      auto callee = module.getOrInsertFunction(name, FunctionType::get(Type::getVoidTy(context), parameters, false));
      auto *function = cast<Function>(callee.getCallee());
      function->setCallingConv(CallingConv::PreserveAll);
      /* Binding it at its first call would change registers. */
      function->addFnAttr(Attribute::NonLazyBind);
      function->addFnAttr(Attribute::NoUnwind);
      function->addFnAttr(Attribute::Cold);
      return callee;
   }

   Value *head(IRBuilder<> &builder, unsigned index)
   {
      return builder.CreateLoad(word, builder.CreateConstInBoundsGEP2_64(heads->getValueType(), heads, 0, index));
   }

   Value *slot(IRBuilder<> &builder, Value *record, unsigned n)
   {
      return builder.CreateConstInBoundsGEP1_64(word, record, n);
   }

   /* A value of the loop in its first iteration. */
   Value *in_first_iteration(Value *value, const Loop &loop, Instruction *before, DenseMap<Value *, Value *> &known)
   {
      auto *instruction = dyn_cast<Instruction>(value);
      if (!instruction || instruction->getParent() != loop.block)
         return value;
      if (auto *phi = dyn_cast<PHINode>(instruction))
         return phi->getIncomingValueForBlock(loop.preheader);
      if (Value *found = known.lookup(value))
         return found;
      Instruction *copy = instruction->clone();
      for (Use &operand : copy->operands())
         operand = in_first_iteration(operand, loop, before, known);
      copy->insertBefore(before);
      return known[value] = copy;
   }

   /* A loop whose iterations have no words, but whose count nobody knows before its end: it is written each time. */
   void count(Loop &loop, const Place &place, Value *end, DomTreeUpdater &tree, LoopInfo &loops)
   {
      BasicBlock *preheader = loop.loop->getLoopPreheader();
      IRBuilder<> builder(loop.block, loop.block->begin());
      PHINode *done = builder.CreatePHI(word, 2);
      builder.SetInsertPoint(loop.body.before);
      Value *now = builder.CreateAdd(done, builder.getInt64(1));
      builder.CreateStore(now, slot(builder, place.at, 1));
      done->addIncoming(builder.getInt64(0), preheader);
      done->addIncoming(now, loop.block);
      IRBuilder<> after(SplitEdge(loop.block, loop.exit, &tree.getDomTree(), &loops)->getTerminator());
      move_cursor(after, {field(after, AT_CURSOR, PointerType::get(words, 0)), nullptr}, end);
   }

   /* A loop whose iterations have words. The cursor stays at the record's head until its end. */
   void irregular(Loop &loop, BasicBlock *preheader, Value *first, unsigned head_words,
                  DomTreeUpdater &tree, LoopInfo &loops)
   {
      Instruction *before = loop.body.before;
      IRBuilder<> builder(loop.block, loop.block->begin());
      PHINode *at = builder.CreatePHI(words, 2);
      builder.SetInsertPoint(before);
      SmallVector<Value *, MOST_WORDS> addresses;
      for (const Access &access : loop.body.accesses)
         if (!access.derived && !access.step)
            addresses.push_back(address(builder, access));
      Value *full = builder.CreateICmpUGE(at, field(builder, AT_INLINE_LIMIT, words));
      Instruction *end = SplitBlockAndInsertIfThen(full, before, false, rarely, &tree, &loops);
      IRBuilder<> rare(end);
      CallInst *call = rare.CreateCall(
         reopen, {at, rare.getInt64(loop.regular), rare.getInt64(loop.irregular)});
      call->setCallingConv(CallingConv::PreserveAll);
      Value *again = slot(rare, load_place(rare).at, head_words);
      IRBuilder<> store(before->getParent(), before->getParent()->begin());
      Value *here = join(store, at, loop.block, again, end->getParent());
      store.SetInsertPoint(before);
      unsigned n = 0;
      for (Value *address : addresses)
         store.CreateStore(address, slot(store, here, n++));
      Value *next = slot(store, here, n);
      BasicBlock *latch = before->getParent();
      at->addIncoming(first, preheader);
      at->addIncoming(next, latch);
      IRBuilder<> after(SplitEdge(latch, loop.exit, &tree.getDomTree(), &loops)->getTerminator());
      Place place = load_place(after);
      Value *bytes = after.CreateSub(after.CreatePtrToInt(next, word), after.CreatePtrToInt(place.at, word));
      after.CreateStore(bytes, slot(after, place.at, 1));
      move_cursor(after, place, next);
   }

   GlobalVariable *stream()
   {
      auto *type = ArrayType::get(words, STREAM_WORDS);
      if (auto *known = module.getNamedGlobal("homing_self"))
         return known;
      return new GlobalVariable(module, type, false, GlobalValue::ExternalLinkage, nullptr, "homing_self", nullptr,
                                GlobalValue::InitialExecTLSModel);
   }

   Value *field(IRBuilder<> &builder, unsigned index, Type *type)
   {
      Value *at = builder.CreateConstInBoundsGEP2_64(self->getValueType(), self, 0, index);
      return builder.CreateLoad(type, builder.CreateBitCast(at, PointerType::get(type, 0)));
   }

   Value *address(IRBuilder<> &builder, const Access &access)
   {
      Value *address = builder.CreatePtrToInt(access.pointer, word);
      if (access.offset != 0)
         address = builder.CreateAdd(address, ConstantInt::get(word, uint64_t(access.offset)));
      return access.guard ? builder.CreateSelect(access.guard, address, ConstantInt::get(word, 0)) : address;
   }

   Place load_place(IRBuilder<> &builder)
   {
      Value *cursor = field(builder, AT_CURSOR, PointerType::get(words, 0));
      return {cursor, builder.CreateLoad(words, cursor)};
   }

   /* Code before an instruction that finds room for a record. */
   Place make_room(Instruction *before, DomTreeUpdater *tree = nullptr, LoopInfo *loops = nullptr)
   {
      IRBuilder<> builder(before);
      Place place = load_place(builder);
      Value *full = builder.CreateICmpUGE(place.at, field(builder, AT_INLINE_LIMIT, words));
      BasicBlock *head = builder.GetInsertBlock();
      Instruction *end = SplitBlockAndInsertIfThen(full, before, false, rarely, tree, loops);
      IRBuilder<> slow(end);
      CallInst *call = slow.CreateCall(room);
      call->setCallingConv(CallingConv::PreserveAll);
      Place made = load_place(slow);
      IRBuilder<> after(before->getParent(), before->getParent()->begin());
      return {join(after, place.cursor, head, made.cursor, end->getParent()),
              join(after, place.at, head, made.at, end->getParent())};
   }

   static Value *join(IRBuilder<> &builder, Value *fast, BasicBlock *head, Value *slow, BasicBlock *made)
   {
      PHINode *value = builder.CreatePHI(fast->getType(), 2);
      value->addIncoming(fast, head);
      value->addIncoming(slow, made);
      return value;
   }

   static void move_cursor(IRBuilder<> &builder, const Place &place, Value *to)
   {
      StoreInst *store = builder.CreateStore(to, place.cursor);
      store->setAtomic(AtomicOrdering::Release, SyncScope::SingleThread);
      store->setAlignment(Align(8));
   }
};

/* Allocations of constant size shall stay in the entry block when that is split. */
Instruction *gather_allocas(Function &function)
{
   BasicBlock &entry = function.getEntryBlock();
   SmallVector<AllocaInst *, 8> allocas;
   for (Instruction &instruction : entry)
      if (auto *alloca = dyn_cast<AllocaInst>(&instruction))
         if (alloca->isStaticAlloca())
            allocas.push_back(alloca);
   Instruction *first = &*entry.getFirstInsertionPt();
   for (AllocaInst *alloca : allocas)
      if (alloca == first)
         first = first->getNextNode();
      else
         alloca->moveBefore(first);
   return first;
}

} // namespace

void emit(Work &work, GlobalVariable *heads, unsigned first, ScalarEvolution &evolution, DominatorTree &tree,
          LoopInfo &loops)
{
   Module &module = *work.function->getParent();
   Emitter emitter(module, heads);
   gather_allocas(*work.function);
   {
      SCEVExpander expander(evolution, module.getDataLayout(), "homing");
      for (Loop &loop : work.loops)
         emitter.prepare(loop, expander);
   }
   DomTreeUpdater updater(tree, DomTreeUpdater::UpdateStrategy::Eager);
   unsigned index = first + work.parts.size();
   for (Loop &loop : work.loops)
      emitter.loop(loop, index++, updater, loops);
   for (Part &part : work.parts)
      emitter.part(part, first++);
   for (Instruction *atomic : work.atomics)
      lower_atomic(atomic);
   for (Instruction *range : work.ranges)
      lower_range(range);
   for (Instruction *copy : work.small)
      expand_small(copy);
   if (work.calls || !work.parts.empty() || !work.loops.empty())
      emitter.entry(gather_allocas(*work.function));
}

} // namespace homing
