// SPDX-License-Identifier: Apache-2.0
// A target for planning, and a backend whose kernels do nothing: both support every op and layout.
// They answer as a device would whose kernels have the given tiles, and use a GPU's passes.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace ridge::backends::null {

struct NullOptions {
  int64_t query_tile = 128;  // tile of flash attention: query rows that are computed together
  int64_t key_tile = 128;
  bool replays = false;          // a run is recorded once and replayed, as with `capture` on a GPU
  int64_t skinny_gemm_rows = 8;  // maximum rows of a skinny_gemm; more rows fill a product's tile
  int64_t normed_sum_rows = 32;  // maximum rows of an all_reduce_add_rms_norm
};

std::unique_ptr<passes::PassTarget> make_null_target(const NullOptions& options = {});

// With memory of the host, which no kernel writes: what was zero stays so, a sampled token too.
// The host's work around the kernels runs, without their time and threads.
std::unique_ptr<Backend> make_null_backend(const NullOptions& options = {});

}  // namespace ridge::backends::null
