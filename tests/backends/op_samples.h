// SPDX-License-Identifier: Apache-2.0
// All cases of all ops as parameters of tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/op_sample.h"
#include "ops/registry.h"

namespace ridge::backends {

struct Sample {
  const Op* op;
  Case sample;
};
inline void PrintTo(const Sample& s, std::ostream* out) {
  *out << s.op->name << " " << s.sample.name;
}

// The same tests are built into one program per backend.
#ifdef RIDGE_TEST_CUDA
inline constexpr bool kTestsCuda = true;
#else
inline constexpr bool kTestsCuda = false;
#endif

// Ops that only a GPU's passes insert.
inline bool is_only_on_gpu(const Op& op) {
  return op.name == "skinny_gemm" || op.name == "rope_append" || op.name == "append_attention" ||
         op.name == "all_reduce_add_rms_norm" || op.name == "transpose_multi";
}

// Loss scaling, and copies in fp16.
inline bool is_only_on_cpu(const Op& op, const Case& sample) {
  return op.name == "loss_scale" ||
         std::any_of(sample.inputs.begin(), sample.inputs.end(),
                     [](const CaseInput& i) { return i.type.dtype == DType::kF16; });
}

// Whether the tested backend has a kernel for the case's KV cache. An operand that a test may cast
// is fp32 in its case, so a cache in another type is narrower than its tokens. CPUs have such
// caches under tokens in fp32, GPUs quants under tokens in bf16, whose heads are read in vectors.
inline bool has_cache_kernel(const Op& op, const Case& sample) {
  const bool reads =
      op.name == "cached_attention" || op.name == "cached_scores" || op.name == "cached_mix";
  if (op.name != "kv_append" && !reads) return true;
  const Type &tokens = sample.inputs[reads ? 0 : 2].type,
             &cache = sample.inputs[reads ? 1 : 0].type;
  if (tokens.dtype == cache.dtype) return true;
  if (!kTestsCuda) return tokens.dtype == DType::kF32;
  constexpr int64_t kVector = 16;
  return tokens.dtype == DType::kBF16 &&
         (op.name == "kv_append" ||
          (op.name == "cached_attention" && cache.shape.back() % kVector == 0));
}

inline std::vector<Sample> all_samples() {
  std::vector<Sample> samples;
  for (const Op* op : ops::table().all()) {
    if (op->cases == nullptr || (!kTestsCuda && is_only_on_gpu(*op))) continue;
    for (Case& each : op->cases())
      if ((!kTestsCuda || !is_only_on_cpu(*op, each)) && has_cache_kernel(*op, each))
        samples.push_back({op, std::move(each)});
  }
  return samples;
}

inline std::string sample_name(const testing::TestParamInfo<Sample>& info) {
  std::string text =
      fmt::format("{}_{}_{}", info.param.op->name, info.index, info.param.sample.name);
  std::erase_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_'; });
  return text;
}

inline Backend& tested_backend() {
  static std::unique_ptr<Backend> instance =
      kTestsCuda ? cuda::make_cuda_backend({}) : cpu::make_cpu_backend({});
  return *instance;
}

// Whether the backend has the op in fp16: the CPU's ops of training.
inline bool has_f16(const Sample& s) {
  if (kTestsCuda) return false;
  Variant variant;
  variant.dtype = DType::kF16;
  variant.fused = has_fused_form(*s.op);
  SampleGraph built(*s.op, s.sample, ops::table(), variant);
  return tested_backend().unsupported(built.graph(), built.graph().nodes.back()).empty();
}

inline bool reads_quants_on_gpu(const Sample& s) {
  return kTestsCuda && s.op->name == "cached_attention" && !is_float(s.sample.inputs[1].type.dtype);
}

// The forms in which the op of a sample may appear in a graph: element types, and composites whole
// or expanded.
inline std::vector<Variant> forms(const Sample& s) {
  std::vector<Variant> forms;
  bool castable = false;
  for (const CaseInput& input : s.sample.inputs) castable = castable || is_castable(input);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (bool fused : {false, true}) {
      if ((dtype != DType::kF32 && !castable) || (fused && !has_fused_form(*s.op))) continue;
      if (dtype == DType::kF16 && !has_f16(s)) continue;
      if (!fused && reads_quants_on_gpu(s)) continue;  // the primitives have no such kernels
      forms.push_back({OperandForm::kPlain, dtype, fused, false});
    }
  return forms;
}

}  // namespace ridge::backends
