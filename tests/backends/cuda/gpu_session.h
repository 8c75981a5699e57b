// SPDX-License-Identifier: Apache-2.0
// A session on the GPU with its own backend, for tests of whole models.
#pragma once

#include <memory>

#include "backends/cuda/cuda_backend.h"
#include "serve/real_model.h"

namespace ridge::serve {

// Passes for fp32 throughout, and for weights, activations and cached keys in bf16.
inline constexpr const char* kExact = "-tune_gemm,-branches,+store_f32";
inline constexpr const char* kNarrow = "-tune_gemm,-branches,+store_bf16,+autocast_bf16";

struct GpuSession {
  GpuSession(const models::ModelFile& file, SessionOptions options)
      : selection(options.selection),
        backend(backends::cuda::make_cuda_backend(
            {false, selection.has("capture"), selection.has("branches"), false, ""})),
        session(file, options, *backend) {}
  passes::Selection selection;
  std::unique_ptr<backends::Backend> backend;
  Session session;
};

}  // namespace ridge::serve
