// SPDX-License-Identifier: Apache-2.0
// ladder_gemm: c [n, m] = a [n, k] b [k, m] by one of the kernels that the demo gemm-ladder steps
// through on a GPU, from one thread for each result to tensor cores. Models use matmul.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "courses/ladder_gemm.h"
#include "ops/op_from.h"

namespace ridge::courses {
namespace {

using ops::f32;

Case sample(std::string_view kernel, int64_t n, int64_t k, int64_t m) {
  return {std::string(kernel), {{f32({n, k})}, {f32({k, m})}}, {{"kernel", std::string(kernel)}}};
}

struct LadderGemmOp {
  static Op declaration() {
    return {.name = "ladder_gemm",
            .category = OpCategory::kMatmul,
            .operands = {2, 2},
            .attrs = {{"kernel", std::string()}},
            .formula = "MACs = n k m"};
  }

  static std::vector<Type> infer(const Call& call) {
    const Type &a = call.inputs[0], &b = call.inputs[1];
    const std::string& kernel = call.attrs.text("kernel");
    if (std::find(kLadderKernels.begin(), kLadderKernels.end(), kernel) == kLadderKernels.end())
      throw usage_error("[ladder_gemm] expected kernel {}, got {}", fmt::join(kLadderKernels, ", "),
                        kernel);
    ops::expect_float("ladder_gemm", a, "a");
    for (const Type* each : {&a, &b}) ops::expect_rank("ladder_gemm", *each, 2, "each operand");
    if (a.dtype != b.dtype || a.shape[1] != b.shape[0])
      throw usage_error("[ladder_gemm] expected a [n, k] and b [k, m] of one type, got {} and {}",
                        a.str(), b.str());
    return {{a.dtype, {a.shape[0], b.shape[1]}}};
  }

  static Work work(const Call& call) {
    const Shape &a = call.inputs[0].shape, &b = call.inputs[1].shape;
    return products(
        checked_product(checked_product(a[0], a[1], "ladder_gemm"), b[1], "ladder_gemm"));
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const int64_t n = call.inputs[0].shape[0], depth = call.inputs[0].shape[1],
                  m = call.inputs[1].shape[1];
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += inputs[0]->data[static_cast<size_t>(i * depth + k)] *
                 inputs[1]->data[static_cast<size_t>(k * m + j)];
        outputs[0].data[static_cast<size_t>(i * m + j)] = sum;
      }
  }

  // Extents that leave tiles partly empty. tensor_cores takes bf16 alone; its own test has it.
  static std::vector<Case> cases() {
    return {sample("naive", 19, 33, 21), sample("coalesced", 37, 33, 70),
            sample("shared_tiles", 37, 70, 45), sample("register_tiles", 131, 37, 150)};
  }
};

}  // namespace

const Op& ladder_gemm_op() { return ops::op_from<LadderGemmOp>(); }

}  // namespace ridge::courses
