// SPDX-License-Identifier: Apache-2.0
// Data-parallel memory and communication against published figures and small numbers by hand.
#include "cost/data_parallel_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cost/activation_models.h"
#include "cost/resource_plan.h"

namespace ridge::cost {
namespace {

// The paper on ZeRO has 2 bytes of weights, 2 of gradients and 12 of optimizer state.
constexpr StateTypes kMixed{2, 4, 2, 8};

// Figure 1 of the paper: 7.5B parameters on 64 devices, in GB.
TEST(DataParallelPlan, HasTheMemoryOfThePaperOnZero) {
  const StateParameters p{7.5e9, 7.5e9};
  auto giga_bytes = [&](Zero stage) { return state_bytes(p, kMixed, stage, 64).total() / 1e9; };
  EXPECT_DOUBLE_EQ(giga_bytes(Zero::kNone), 120);
  EXPECT_NEAR(giga_bytes(Zero::kOptimizer), 31.4, 0.05);
  EXPECT_NEAR(giga_bytes(Zero::kGradients), 16.6, 0.05);
  EXPECT_NEAR(giga_bytes(Zero::kWeights), 1.9, 0.05);
}

// Table 1 of the paper: the memory of 1T parameters on 1024 devices is 15.6 GB in stage 3.
TEST(DataParallelPlan, HoldsATrillionParameters) {
  EXPECT_NEAR(state_bytes({1e12, 1e12}, kMixed, Zero::kWeights, 1024).total() / 1e9, 15.6, 0.05);
  EXPECT_NEAR(state_bytes({1e12, 1e12}, kMixed, Zero::kOptimizer, 1024).total() / 1e9, 4011, 1);
}

TEST(DataParallelPlan, ASingleDeviceHoldsEverythingOnce) {
  const StateParameters p{100, 60, 30, 20};
  for (Zero stage : {Zero::kNone, Zero::kOptimizer, Zero::kGradients, Zero::kWeights}) {
    const StateBytes bytes = state_bytes(p, kMixed, stage, 1);
    EXPECT_DOUBLE_EQ(bytes.weights, 200);
    EXPECT_DOUBLE_EQ(bytes.masters, 240);
    EXPECT_DOUBLE_EQ(bytes.gradients, 120);
    EXPECT_DOUBLE_EQ(bytes.moments, 480);
    EXPECT_DOUBLE_EQ(sent_bytes(p, kMixed, stage, 1), 0);
  }
  const StateBytes shared = state_bytes(p, kMixed, Zero::kWeights, 4);
  EXPECT_DOUBLE_EQ(shared.weights, 50 + (30 + 20) * 2);
  EXPECT_DOUBLE_EQ(shared.gradients, 30 + 30 * 2);
  // Only the adapters in the largest part are trained.
  const StateBytes adapted = state_bytes({100, 8, 30, 20}, kMixed, Zero::kGradients, 4);
  EXPECT_DOUBLE_EQ(adapted.gradients, (2 + 8) * 2);
}

// The resource accounting of CS336: 8 H100 hold 40B parameters with plain AdamW in fp32.
TEST(DataParallelPlan, EightH100HoldFortyBillionParameters) {
  EXPECT_EQ(largest_model(80'000'000'000, StateTypes(), Zero::kWeights, 8), 40'000'000'000);
  EXPECT_EQ(largest_model(80'000'000'000, StateTypes(), Zero::kNone, 8), 5'000'000'000);
  EXPECT_EQ(largest_model(80'000'000'000, kMixed, Zero::kWeights, 8), 40'000'000'000);
}

TEST(DataParallelPlan, FindsTheFewestDevices) {
  const StateParameters p{40e9, 40e9};
  EXPECT_EQ(fewest_devices(80'000'000'000, 0, p, StateTypes(), Zero::kWeights), 8);
  EXPECT_EQ(fewest_devices(80'000'000'000, 1, p, StateTypes(), Zero::kWeights), 9);
  EXPECT_EQ(fewest_devices(80'000'000'000, 0, p, StateTypes(), Zero::kOptimizer), 0);
  EXPECT_EQ(fewest_devices(80'000'000'000, 0, {1e9, 1e9}, StateTypes(), Zero::kNone), 1);
}

// In ZeRO's section 7, stages 1 and 2 send as much as plain data parallelism, stage 3 half more.
TEST(DataParallelPlan, SendsWhatThePaperOnZeroSays) {
  constexpr StateTypes kHalf{2, 4, 2, 8};
  const StateParameters p{1e9, 1e9};
  const double plain = sent_bytes(p, kHalf, Zero::kNone, 1 << 20);
  EXPECT_NEAR(plain, 4e9, 4e4);
  EXPECT_DOUBLE_EQ(sent_bytes(p, kHalf, Zero::kOptimizer, 1 << 20), plain);
  EXPECT_DOUBLE_EQ(sent_bytes(p, kHalf, Zero::kGradients, 1 << 20), plain);
  EXPECT_DOUBLE_EQ(sent_bytes(p, kHalf, Zero::kWeights, 1 << 20), 1.5 * plain);
  EXPECT_DOUBLE_EQ(sent_bytes(p, kHalf, Zero::kNone, 2), 2e9);
}

TEST(DataParallelPlan, ARingIsAsSlowAsItsSlowestLink) {
  const Links links{450e9, 8, 50e9, 0.5};
  EXPECT_DOUBLE_EQ(links.ring_bytes_per_s(1), 0);
  EXPECT_DOUBLE_EQ(links.ring_bytes_per_s(8), 225e9);
  EXPECT_DOUBLE_EQ(links.ring_bytes_per_s(9), 25e9);
  EXPECT_DOUBLE_EQ((Links{32e9, 1, 50e9, 1}).ring_bytes_per_s(2), 32e9);
  EXPECT_DOUBLE_EQ((Links{0, 1, 50e9, 1}).ring_bytes_per_s(2), 50e9);
}

// Section 4.1 of Korthikanti et al.: 5 a s / h is 80 for GPT-3 and 64 for MT-NLG.
TEST(ActivationModels, HaveTheFiguresOfKorthikanti) {
  const ActivationExtents gpt3{1, 2048, 12288, 96, 96, 51200}, nlg{1, 2048, 20480, 128, 105, 51200};
  for (const auto& [e, scores] : {std::pair(gpt3, 80.0), std::pair(nlg, 64.0)}) {
    const double layer = e.sequence * e.batch * e.model;
    EXPECT_DOUBLE_EQ(korthikanti_bytes(e, Recompute::kNone), e.layers * layer * (34 + scores));
    EXPECT_DOUBLE_EQ(korthikanti_bytes(e, Recompute::kAttention), e.layers * layer * 34);
    EXPECT_DOUBLE_EQ(korthikanti_bytes(e, Recompute::kBlock), e.layers * layer * 2);
  }
  // The abstract of section 5: selective recomputation saves 70% and 65%.
  EXPECT_NEAR(1 - korthikanti_bytes(gpt3, Recompute::kAttention) /
                      korthikanti_bytes(gpt3, Recompute::kNone),
              0.70, 0.005);
  EXPECT_NEAR(
      1 - korthikanti_bytes(nlg, Recompute::kAttention) / korthikanti_bytes(nlg, Recompute::kNone),
      0.65, 0.005);
}

TEST(ActivationModels, HaveTheParametersOfNanoGpt) {
  const ActivationExtents gpt2{12, 1024, 768, 12, 12, 50257};
  const NanoGptMemory memory = nano_gpt_memory(gpt2);
  EXPECT_EQ(memory.parameters, 124'337'664);
  const double btd = 12.0 * 1024 * 768, bhtt = 12.0 * 12 * 1024 * 1024, btv = 12.0 * 1024 * 50257;
  EXPECT_EQ(memory.activations, 12 * (36 * btd + 6 * bhtt) + 6 * btd + 6 * btv);
  EXPECT_EQ(memory.steady, 16 * 124'337'664.0 + 16 * 12 * 1024);
  EXPECT_EQ(memory.peak, memory.steady + memory.activations + 4 * btv);
}

}  // namespace
}  // namespace ridge::cost
