// SPDX-License-Identifier: Apache-2.0
// Binding of ladder_gemm.
#include "courses/cuda/ladder_gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "courses/cuda/kernels/ladder.h"
#include "courses/ladder_gemm.h"

namespace ridge::courses {
namespace {

using backends::BindCall;
using backends::Launch;
using backends::cuda::BindContext;

LadderKernel kernel_of(const std::string& name) {
  const auto found = std::find(kLadderKernels.begin(), kLadderKernels.end(), name);
  return static_cast<LadderKernel>(found - kLadderKernels.begin());
}

Launch bind(const BindCall& call, BindContext& context) {
  const Shape &a = call.inputs[0].type.shape, &b = call.inputs[1].type.shape;
  return backends::by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const LadderGemm<T> gemm{kernel_of(call.attrs().text("kernel")),
                             a[0],
                             a[1],
                             b[1],
                             call.inputs[0].as<const T>(),
                             call.inputs[1].as<const T>(),
                             call.outputs[0].as<T>()};
    return backends::cuda::launch_on(context.device, "ladder_gemm", launch_ladder<T>, gemm);
  });
}

std::string unsupported(const Call& call) {
  const Type &a = call.inputs[0], &b = call.inputs[1];
  if (call.attrs.text("kernel") == kLadderKernels.back() && a.dtype != DType::kBF16)
    return fmt::format("the kernel {} takes bf16, got {}", kLadderKernels.back(), a.str());
  if (a.shape[0] > kLadderMost || b.shape[1] > kLadderMost)
    return fmt::format("expected at most {} rows and columns, got {} and {}", kLadderMost, a.str(),
                       b.str());
  return "";
}

}  // namespace

backends::Kernel ladder_gemm_kernel(BindContext& context) {
  return {.op = "ladder_gemm",
          .bind = backends::cuda::in_context(bind, context),
          .unsupported = unsupported};
}

}  // namespace ridge::courses
