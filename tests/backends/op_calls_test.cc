// SPDX-License-Identifier: Apache-2.0
// Malformed calls: each operand of each case with another element type, with extents that are one
// too large, one too small or zero, or with one axis more or less. Each call must either throw an
// Error that names the op, or compute the same as its reference.
#include <gtest/gtest.h>

#include "backends/op_check.h"
#include "backends/op_samples.h"

namespace ridge::backends {
namespace {

std::vector<Type> other_types(const Type& type) {
  std::vector<Type> others;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI32})
    if (dtype != type.dtype) others.push_back({dtype, type.shape});
  std::vector<int64_t> dims = type.shape.to_vector();
  for (int axis = 0; axis < type.shape.rank(); ++axis)
    for (int64_t extent : {type.shape[axis] - 1, type.shape[axis] + 1, int64_t{0}})
      others.push_back({type.dtype, type.shape.with(axis, extent)});
  dims.push_back(1);
  if (dims.size() <= static_cast<size_t>(kMaxRank)) others.push_back({type.dtype, Shape(dims)});
  dims.erase(dims.end() - std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(dims.size())),
             dims.end());
  if (type.shape.rank() > 0) others.push_back({type.dtype, Shape(dims)});
  return others;
}

struct Outcome {
  bool refused = false;
  std::string fault;
};

Outcome call(const Op& op, const Case& sample, const Variant& variant, const Precision& precision) {
  try {
    return {false, check_values(op, sample, ops::table(), variant, tested_backend(), precision)};
  } catch (const Error& error) {
    std::string what = error.what();
    // Some ids exceed a smaller vocabulary, which shows only when the op runs.
    bool is_id = what.find("ids from -1 to") != std::string::npos ||
                 what.find("labels from -1 to") != std::string::npos ||
                 what.find("slots from 0 to") != std::string::npos ||
                 what.find("blocks from 0 to") != std::string::npos;
    bool is_meant =
        what.starts_with("[") && error.code() == (is_id ? ExitCode::kRuntime : ExitCode::kUsage);
    return {true, is_meant ? "" : what};
  }
}

class OpCalls : public testing::TestWithParam<Sample> {};

TEST_P(OpCalls, AreRefusedOrRight) {
  const auto& [op, sample] = GetParam();
  for (size_t i = 0; i < sample.inputs.size(); ++i)
    for (const Type& other : other_types(sample.inputs[i].type))
      for (bool fused : {false, true}) {
        if (fused && !has_fused_form(*op)) continue;
        Case changed = sample;
        changed.inputs[i].type = other;
        for (CaseInput& input : changed.inputs) input.castable = false;
        SCOPED_TRACE(fmt::format("operand {} as {}{}", i, other.str(), fused ? ", fused" : ""));
        Variant variant;
        variant.fused = fused;
        Outcome outcome;
        // With mixed types, intermediate results may be rounded to the narrow one.
        const bool is_narrow = other.dtype == DType::kBF16 || other.dtype == DType::kF16;
        Precision precision =
            is_narrow ? narrow_steps(other.dtype) : precision_of(*op, sample, variant);
        EXPECT_NO_THROW(outcome = call(*op, changed, variant, precision));
        EXPECT_EQ("", outcome.fault);
      }
}

TEST(OpPositions, BeyondTheirGraphAreRefused) {
  for (const auto& [name, positions] :
       {std::pair{"cached_attention", size_t{3}}, std::pair{"append_attention", size_t{5}}}) {
    const Op& op = ops::table().at(name);
    if (is_only_on_gpu(op) && !kTestsCuda) continue;
    Case sample = op.cases()[0];
    Variant variant;
    variant.fused = has_fused_form(op);
    for (int64_t position : {sample.attrs.integer("context"), int64_t{-2}}) {
      sample.inputs[positions].fill = {Fill::kConstant, static_cast<double>(position), false};
      std::string what = "nothing was thrown";
      try {
        check_values(op, sample, ops::table(), variant, tested_backend(), kBf16Steps);
      } catch (const Error& error) {
        what = error.what();
        EXPECT_EQ(error.code(), ExitCode::kRuntime);
      }
      EXPECT_NE(what.find("expected positions from -1 to"), std::string::npos) << name << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpCalls, testing::ValuesIn(all_samples()), sample_name);

}  // namespace
}  // namespace ridge::backends
