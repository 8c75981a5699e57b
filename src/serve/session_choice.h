// SPDX-License-Identifier: Apache-2.0
// Chooses the passes, the KV cache's type and the size of a session from the options of a user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/backend.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "serve/session.h"

namespace ridge::serve {

// The arithmetic of a session.
struct Arithmetic {
  bool on_gpu = false;
  bool exact = false;      // computes in fp32; on a GPU weights and KV cache are fp32 too
  bool fast_8bit = false;  // on a CPU, int8 activations for GEMMs with quantized weights
};

// Returns the passes of inference at a level, with the switches of --pass added. A CPU reads
// weights as the file stores them. A GPU keeps weights and activations in bf16, or in fp32 if
// exact. Throws a usage Error for fast_8bit where it has no effect.
passes::Selection inference_selection(const Arithmetic& arithmetic,
                                      const std::string& level,
                                      const std::string& switches);

// Returns the name of a KV-cache type as --cache-dtype spells it.
std::string_view cache_dtype_name(DType dtype);
// Returns the type that an option names, none if empty. Throws a usage Error for an unknown name.
std::optional<DType> parse_cache_dtype(const std::string& text, const char* option = "cache-dtype");
// Returns the type that an option names for a run. Throws a usage Error if the run cannot have it:
// a GPU and bf16 activations need that of activations, and exact arithmetic refuses i8.
std::optional<DType> chosen_cache_dtype(const std::string& text,
                                        const Arithmetic& arithmetic,
                                        const passes::Selection& selection,
                                        const char* option = "cache-dtype");

// Throws an out-of-memory Error if the session's KV cache does not fit into the free memory of the
// backend's device. Call before loading.
void expect_cache_fits(const models::ModelConfig& config,
                       const SessionOptions& session,
                       const backends::Backend& backend);

// Returns the number of tokens that a KV cache of `bytes` bytes has room for. Throws a usage Error
// if one sequence of the session's capacity needs more.
int64_t kv_capacity_tokens(int64_t bytes,
                           SessionOptions session,
                           const models::ModelConfig& config);

}  // namespace ridge::serve
