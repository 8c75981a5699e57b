// SPDX-License-Identifier: Apache-2.0
// Registers of tile programs: how few a program needs once dead values give theirs back, and that
// its results stay the same. Random clusters: op_cluster_test.cc.
#include "backends/cpu/kernels/pointwise/tile_program.h"

#include <gtest/gtest.h>

#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

constexpr int64_t kElements = 5000;  // more than a tile

std::vector<float> run(const TileProgram& program, std::vector<std::vector<float>> inputs) {
  std::vector<float> result(kElements);
  std::vector<TileOperand> operands;
  for (std::vector<float>& input : inputs) operands.push_back({input.data(), DType::kF32, {1}});
  TileKernel(program, Shape{kElements}, operands, {{result.data(), DType::kF32, {1}}}).run();
  return result;
}

std::vector<float> numbers(float first) {
  std::vector<float> values(kElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + 0.001f * static_cast<float>(i);
  return values;
}

TEST(TileRegisters, OfAChainAreThree) {
  TileProgram chain{{}, {21}, 22};
  for (int i = 1; i < 22; ++i)
    chain.instructions.push_back({Pointwise::kAddScalar, i, i - 1, i - 1, 1.0f});
  const TileProgram made = with_reused_registers(chain, 1);
  EXPECT_EQ(made.registers, 3);  // the input, one for what is between, the output
  EXPECT_EQ(run(made, {numbers(0)}), run(chain, {numbers(0)}));
}

// (a - b) (a + b) / a reads an input after other values died.
TEST(TileRegisters, NeverOverwriteAnInputOrAnOutput) {
  const TileProgram program{{{Pointwise::kSub, 2, 0, 1, 0.0f},
                             {Pointwise::kAdd, 3, 0, 1, 0.0f},
                             {Pointwise::kMul, 4, 2, 3, 0.0f},
                             {Pointwise::kDiv, 5, 4, 0, 0.0f}},
                            {5},
                            6};
  const TileProgram made = with_reused_registers(program, 2);
  EXPECT_EQ(made.registers, 5);
  for (const TileInstruction& each : made.instructions) EXPECT_GE(each.target, 2);
  EXPECT_EQ(made.outputs[0], made.instructions.back().target);
  EXPECT_EQ(run(made, {numbers(1), numbers(7)}), run(program, {numbers(1), numbers(7)}));
}

TEST(TileRegisters, ThatHoldAValueTwiceAreGivenBackOnce) {
  TileProgram program{{{Pointwise::kNeg, 1, 0, 0, 0.0f},
                       {Pointwise::kMul, 2, 1, 1, 0.0f},
                       {Pointwise::kNeg, 3, 0, 0, 0.0f},
                       {Pointwise::kAdd, 4, 2, 3, 0.0f}},
                      {4},
                      5};
  const TileProgram made = with_reused_registers(program, 1);
  EXPECT_NE(made.instructions[3].a, made.instructions[3].b);
  EXPECT_EQ(run(made, {numbers(1)}), run(program, {numbers(1)}));
}

}  // namespace
}  // namespace ridge::backends::cpu
