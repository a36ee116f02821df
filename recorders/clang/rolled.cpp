/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Before loops are made wide and unrolled: those with addresses that no step gives stay rolled. One record takes a whole
 * loop, so unrolling it saves nothing, and it makes what follows worse to predict: the rest of the iterations is a part
 * of its own, after which the unrolled loop begins elsewhere each time. Loops whose addresses all have steps are better
 * unrolled: then an execution stands for more references. */
#include "pass.h"

#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace homing {

/* The address has a step in the loop, or stays. */
static bool is_regular(const Value *pointer, const llvm::Loop *loop, ScalarEvolution &evolution)
{
   const SCEV *address = evolution.getSCEV(const_cast<Value *>(pointer));
   auto *moving = dyn_cast<SCEVAddRecExpr>(address);
   return evolution.isLoopInvariant(address, loop) || (moving && moving->getLoop() == loop && moving->isAffine());
}

PreservedAnalyses KeepRolled::run(Function &function, FunctionAnalysisManager &manager)
{
   auto &evolution = manager.getResult<ScalarEvolutionAnalysis>(function);
   for (llvm::Loop *loop : manager.getResult<LoopAnalysis>(function).getLoopsInPreorder()) {
      auto is_irregular = [&](const Instruction &instruction) {
         const Value *pointer = getLoadStorePointerOperand(&instruction);
         return pointer != nullptr && !is_regular(pointer, loop, evolution);
      };
      auto is_irregular_block = [&](const BasicBlock *block) { return any_of(*block, is_irregular); };
      if (loop->isInnermost() && any_of(loop->blocks(), is_irregular_block))
         addStringMetadataToLoop(loop, "llvm.loop.unroll.disable", 1);
   }
   return PreservedAnalyses::all();
}

} // namespace homing
