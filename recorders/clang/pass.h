/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The compiler pass of `--recorder clang` (docs/recording-clang.md). It adds code to each part of a basic block that
 * writes one record: the number of the part, whose accesses are known, and those addresses that have no constant
 * distance to an earlier one.
 *
 *   collect.cpp  the accesses of a function, in parts      emit.cpp  the code that writes records
 *   lower.cpp    atomics and ranges as calls                pass.cpp  the module: definitions, registration
 *   rolled.cpp   loops that are not to be unrolled
 */
#ifndef HOMING_PASS_H
#define HOMING_PASS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include <cstdint>
#include <vector>

namespace homing {

/* The most accesses of a record: as many as a code block of the trace has. And the most words of an execution, which
 * live in registers until they are written. */
enum : unsigned { MOST_ACCESSES = 64, MOST_WORDS = 24 };
/* Loops that never go round so often are no records of their own. */
enum : unsigned { FEW_ITERATIONS = 4 };
/* Copies of up to this many bytes are accesses, others calls. */
enum : uint64_t { SMALL_COPY = 128 };

/* One access of a record. */
struct Access {
   llvm::Value *pointer;
   int64_t offset; /* to be added to the pointer */
   uint32_t bytes;
   bool write;
   llvm::Value *guard; /* it happens if this is true, or NULL */
   unsigned instruction; /* within the record */
   /* Derived: the word that its address comes from, and the distance; else its own word. */
   bool derived;
   unsigned word;
   int64_t distance;
   /* In a loop record: where it is in the first iteration, and how far from one iteration to the next. */
   const llvm::SCEV *step;
   llvm::Value *start_value, *step_value;
};

/* A part of a basic block without calls. */
struct Part {
   llvm::SmallVector<Access, 8> accesses;
   llvm::Instruction *before; /* the record is written here: all addresses are known */
   unsigned words, instructions;
};

/* An innermost loop of one block without calls: one record for all iterations. */
struct Loop {
   Part body;
   llvm::Loop *loop;
   llvm::BasicBlock *preheader, *block, *exit;
   const llvm::SCEV *count; /* of its back edge, or NULL if that is not known before */
   llvm::Value *count_value;
   unsigned regular, irregular; /* words with and without a step */
};

/* What is to be done in a function. */
struct Work {
   llvm::Function *function;
   std::vector<Part> parts;
   std::vector<Loop> loops;
   /* What becomes calls of the runtime. */
   std::vector<llvm::Instruction *> atomics, ranges;
   /* Copies and fills that were recorded as accesses. */
   std::vector<llvm::Instruction *> small;
   bool calls; /* it calls others */
};

/* Keeps loops with addresses without a step from being unrolled. */
struct KeepRolled : llvm::PassInfoMixin<KeepRolled> {
   llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &manager);
};

Work collect(llvm::Function &function, llvm::ScalarEvolution &evolution, llvm::LoopInfo &loops);

/* The words of a part's definition, as HOMING_DEFINE has them behind its head. */
void define(const Part &part, std::vector<uint64_t> &words);

/* Writes the records. `first` is the index in `heads` of the first of them: those of parts, then those of loops. */
void emit(Work &work, llvm::GlobalVariable *heads, unsigned first, llvm::ScalarEvolution &evolution,
          llvm::DominatorTree &tree, llvm::LoopInfo &loops);

void lower_atomic(llvm::Instruction *atomic);
void lower_range(llvm::Instruction *copy);
/* Makes accesses of a small copy or fill: as a call of the library's function it would be recorded again. */
void expand_small(llvm::Instruction *copy);
/* Whether a copy or fill is recorded as accesses. */
bool is_small(const llvm::Instruction &copy);

} // namespace homing

#endif
