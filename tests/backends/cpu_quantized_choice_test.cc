// SPDX-License-Identifier: Apache-2.0
// The table of quantized GEMMs: the choice of every format, number of tokens, type of activations
// and instruction set, against a list that was written from the predicates that the table
// replaced.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "backends/quantized_samples.h"
#include "test_paths.h"

namespace ridge::backends::cpu {
namespace {

using enum QuantizedIsa;

constexpr DType kPlainTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr DType kRepackedTypes[] = {DType::kQ4_0x16,   DType::kQ4_1x16,   DType::kQ5_0x16,
                                    DType::kQ8_0x16,   DType::kQ4_Kx16,   DType::kQ6_Kx16,
                                    DType::kQ4_G32x16, DType::kQ4_G128x16};

std::vector<int64_t> token_counts() {
  std::vector<int64_t> tokens(65);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int64_t each : {65, 96, 127, 128, 129, 160, 161, 192, 255, 256, 257, 512, 1000, 1024, 4096})
    tokens.push_back(each);
  return tokens;
}

std::string text(const QuantizedKernel* kernel) {
  constexpr const char* kForms[] = {"f32", "int8", "two int8", "int16", "bf16 tiles"};
  if (kernel == nullptr) return "none";
  return fmt::format("{} {} {}", kForms[static_cast<size_t>(kernel->form)],
                     kernel->is_gemv() ? "gemv" : "gemm", kernel->file);
}

// "0..4 CHOICE; 5..4096 CHOICE" for choice(tokens).
template <typename Choice>
std::string by_tokens(const Choice& choice) {
  std::string line, last;
  int64_t begin = 0, end = 0;
  const auto close = [&] {
    if (!last.empty())
      line += fmt::format("{}{}..{} {}", line.empty() ? "" : "; ", begin, end, last);
  };
  for (int64_t tokens : token_counts()) {
    const std::string now = choice(tokens);
    if (now != last) {
      close();
      begin = tokens;
      last = now;
    }
    end = tokens;
  }
  close();
  return line;
}

// Lines of the types that agree, in the order of the first of each.
struct Lines {
  void add(DType weight, const std::string& choices) {
    auto found = std::find_if(all.begin(), all.end(), [&](auto& e) { return e.second == choices; });
    if (found == all.end()) found = all.insert(all.end(), {"", choices});
    found->first += fmt::format(" {}", name(weight));
  }
  std::string text(const std::string& title) const {
    std::string lines;
    for (const auto& [weights, choices] : all)
      lines += fmt::format("{}{}: {}\n", title, weights, choices);
    return lines;
  }
  std::vector<std::pair<std::string, std::string>> all;
};

std::string choices(const QuantizedProblem& asked) {
  const char* others[] = {"alone", "with plain weights", "with other blocks"};
  Lines lines;
  const auto add = [&](std::span<const DType> weights) {
    for (DType weight : weights)
      lines.add(weight, by_tokens([&](int64_t tokens) {
                  QuantizedProblem problem = asked;
                  problem.weight = weight;
                  problem.tokens = tokens;
                  return text(choose(problem));
                }));
  };
  if (asked.activations == DType::kF32) add(kPlainTypes);
  add(kBlockTypes);
  add(kRepackedTypes);
  return lines.text(fmt::format("{} {}{} {}", name(asked.isa), name(asked.activations),
                                asked.batch_invariant ? " batch_invariant" : "",
                                others[static_cast<size_t>(asked.others)]));
}

std::string roundings(QuantizedIsa isa, int64_t bits) {
  Lines lines;
  const auto add = [&](std::span<const DType> weights) {
    for (DType weight : weights)
      lines.add(weight, by_tokens([&](int64_t tokens) {
                  return std::string(name(rounded_activations(isa, tokens, bits, {&weight, 1})));
                }));
  };
  add(kBlockTypes);
  if (takes_repacked(isa)) add(kRepackedTypes);
  return lines.text(fmt::format("{} rounds to {} bits", name(isa), bits));
}

TEST(QuantizedChoice, IsWhatThePredicatesSaidBeforeTheTable) {
  std::string all;
  for (QuantizedIsa isa : {kScalar, kAvx2, kAvx512, kAmx})
    for (DType activations : {DType::kF32, DType::kI16, DType::kI8, DType::kBF16})
      for (bool batch_invariant : {false, true})
        for (OtherWeights others :
             {OtherWeights::kNone, OtherWeights::kPlain, OtherWeights::kBlocks})
          if (isa != kScalar || others != OtherWeights::kBlocks)  // scalar code repacks no weight
            all += choices({{}, 0, activations, isa, others, batch_invariant});
  for (QuantizedIsa isa : {kScalar, kAvx2, kAvx512, kAmx})
    for (int64_t bits : {16, 8})
      if (bits == 16 || isa != kScalar) all += roundings(isa, bits);
  std::stringstream want;
  want << std::ifstream(test_data("quantized_choices.txt")).rdbuf();
  EXPECT_EQ(want.str(), all);
}

// All rounded weights of a launch read the same activations.
TEST(QuantizedChoice, HasOneFormOfActivationsForALaunch) {
  for (QuantizedIsa isa : {kAvx2, kAvx512, kAmx})
    for (DType activations : {DType::kI16, DType::kI8, DType::kBF16})
      for (int64_t tokens : token_counts())
        for (bool batch_invariant : {false, true}) {
          const auto form = [&](DType weight) -> std::string {
            const QuantizedKernel* kernel =
                choose({weight, tokens, activations, isa, OtherWeights::kBlocks, batch_invariant});
            return text(kernel).substr(0, text(kernel).find(" gem"));
          };
          EXPECT_EQ(form(DType::kQ4_K), form(DType::kQ4_Kx16));
        }
}

TEST(QuantizedChoice, KeepsTheActivationsOfPlainWeights) {
  for (QuantizedIsa isa : {kScalar, kAvx2, kAvx512, kAmx})
    for (DType activations : {DType::kF32, DType::kI16, DType::kI8, DType::kBF16})
      for (DType weight : kPlainTypes) {
        EXPECT_EQ(text(choose({weight, 4, activations, isa})), "f32 gemv exact");
        EXPECT_EQ(text(choose({weight, 5, activations, isa})), "f32 gemm exact");
      }
  for (DType other : {DType::kF64, DType::kI32}) EXPECT_EQ(choose({other, 1}), nullptr);
}

TEST(QuantizedChoice, SaysWhichWeightsAreInALaunch) {
  using enum DType;
  const auto others = [](DType weight, std::vector<DType> launch) {
    return other_weights(weight, launch);
  };
  EXPECT_EQ(others(kQ4_Kx16, {kQ4_Kx16, kQ6_Kx16}), OtherWeights::kNone);
  EXPECT_EQ(others(kQ4_Kx16, {kBF16, kQ4_Kx16}), OtherWeights::kPlain);
  EXPECT_EQ(others(kQ4_Kx16, {kQ5_K, kBF16, kQ4_Kx16}), OtherWeights::kBlocks);
  EXPECT_EQ(others(kQ5_K, {kQ5_K, kQ2_K}), OtherWeights::kNone);
}

}  // namespace
}  // namespace ridge::backends::cpu
