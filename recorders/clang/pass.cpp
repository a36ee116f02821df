/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The pass over a module: collects the records of all functions, adds the code that writes them, and a constructor
 * that makes their definitions known to the runtime. */
#include "pass.h"

#include "../include/homing_wire.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace homing {
namespace {

GlobalVariable *table(Module &module, Type *type, Constant *value, const char *name)
{
   auto *table = new GlobalVariable(module, type, name == StringRef("homing_definitions"), GlobalValue::PrivateLinkage,
                                    value, name);
   table->setAlignment(Align(8));
   return table;
}

/* A constructor, before those of the program: __homing_blocks(heads, their number, definitions). */
void add_constructor(Module &module, GlobalVariable *heads, uint64_t count, GlobalVariable *definitions)
{
   LLVMContext &context = module.getContext();
   auto *function = Function::Create(FunctionType::get(Type::getVoidTy(context), false), GlobalValue::InternalLinkage,
                                     "homing_blocks", &module);
   IRBuilder<> builder(BasicBlock::Create(context, "", function));
   auto *words = PointerType::get(builder.getInt64Ty(), 0);
   auto known = module.getOrInsertFunction("__homing_blocks", builder.getVoidTy(), words, builder.getInt64Ty(), words);
   builder.CreateCall(known, {builder.CreatePointerCast(heads, words), builder.getInt64(count),
                              builder.CreatePointerCast(definitions, words)});
   builder.CreateRetVoid();
   appendToGlobalCtors(module, function, 0);
}

/* Code that chooses a function at the program's start runs before it has thread-local storage. */
bool chooses_function(const Function &function)
{
   return any_of(function.getParent()->ifuncs(),
                 [&](const GlobalIFunc &chosen) { return chosen.getResolver()->stripPointerCasts() == &function; });
}

bool is_to_be_recorded(const Function &function)
{
   return !function.isDeclaration() && !function.hasAvailableExternallyLinkage() &&
          !function.hasFnAttribute(Attribute::Naked) &&
          !function.hasFnAttribute(Attribute::DisableSanitizerInstrumentation) && !chooses_function(function);
}

/* Gives each loop a block of its own before it, where its record begins: the optimiser has merged such blocks. */
void set_apart(LoopInfo &loops, DominatorTree &tree, ScalarEvolution &evolution)
{
   for (llvm::Loop *outermost : loops)
      simplifyLoop(outermost, &tree, &loops, &evolution, nullptr, nullptr, false);
}

struct Pass : PassInfoMixin<Pass> {
   PreservedAnalyses run(Module &module, ModuleAnalysisManager &manager)
   {
      auto &functions = manager.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
      std::vector<Work> all;
      std::vector<uint64_t> definitions;
      for (Function &function : module) {
         if (!is_to_be_recorded(function))
            continue;
         auto &evolution = functions.getResult<ScalarEvolutionAnalysis>(function);
         auto &loops = functions.getResult<LoopAnalysis>(function);
         set_apart(loops, functions.getResult<DominatorTreeAnalysis>(function), evolution);
         all.push_back(collect(function, evolution, loops));
         for (const Part &part : all.back().parts)
            define(part, definitions);
         for (const Loop &loop : all.back().loops)
            define(loop.body, definitions);
      }
      std::vector<uint64_t> operations;
      for (const Work &work : all) {
         operations.insert(operations.end(), work.parts.size(), HOMING_BLOCK);
         operations.insert(operations.end(), work.loops.size(), HOMING_LOOP);
      }
      Constant *unnumbered = ConstantDataArray::get(module.getContext(), operations);
      GlobalVariable *heads = table(module, unnumbered->getType(), unnumbered, "homing_heads");
      Constant *words = ConstantDataArray::get(module.getContext(), definitions);
      unsigned first = 0;
      for (Work &work : all) {
         Function &function = *work.function;
         emit(work, heads, first, functions.getResult<ScalarEvolutionAnalysis>(function),
              functions.getResult<DominatorTreeAnalysis>(function), functions.getResult<LoopAnalysis>(function));
         first += work.parts.size() + work.loops.size();
      }
      /* Also where there are no records: the runtime shall start. */
      add_constructor(module, heads, operations.size(), table(module, words->getType(), words, "homing_definitions"));
      return PreservedAnalyses::none();
   }

   /* Also for functions that are not to be optimised. */
   static bool isRequired() { return true; }
};

} // namespace
} // namespace homing

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo()
{
   return {LLVM_PLUGIN_API_VERSION, "homing", "1", [](PassBuilder &builder) {
              builder.registerVectorizerStartEPCallback(
                 [](FunctionPassManager &passes, auto &&...) { passes.addPass(homing::KeepRolled()); });
              builder.registerOptimizerLastEPCallback(
                 [](ModulePassManager &passes, auto &&...) { passes.addPass(homing::Pass()); });
           }};
}
