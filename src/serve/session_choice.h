// SPDX-License-Identifier: Apache-2.0
// The passes, the type of the KV cache and the size of a session, from the options of a user.
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

// How a session computes. The switches are those of --pass.
struct Arithmetic {
  bool on_gpu = false;
  bool exact = false;      // in fp32; on a GPU weights and KV cache too
  bool fast_8bit = false;  // on a CPU, activations of 8 bits before GEMMs with quantized weights
};

// The passes of inference at a level, with the switches of --pass added. A CPU reads weights as the
// file stores them. A GPU holds them in bf16 with bf16 activations, or all in fp32 if it is exact.
// Throws a usage Error for fast_8bit where it has no effect.
passes::Selection inference_selection(const Arithmetic& arithmetic,
                                      const std::string& level,
                                      const std::string& switches);

// The type of the KV cache as --cache-dtype spells it.
std::string_view cache_dtype_name(DType dtype);
// The type that an option names; none for an empty text. Throws a usage Error for an unknown name.
std::optional<DType> parse_cache_dtype(const std::string& text, const char* option = "cache-dtype");
// The same for a run. Throws a usage Error for a type that the run cannot have: on a GPU and with
// bf16 activations any but theirs, and i8 with exact arithmetic.
std::optional<DType> chosen_cache_dtype(const std::string& text,
                                        const Arithmetic& arithmetic,
                                        const passes::Selection& selection,
                                        const char* option = "cache-dtype");

// Call before loading. Throws an out-of-memory Error if the KV cache of such a session does not fit
// into the free memory of the backend's device.
void expect_cache_fits(const models::ModelConfig& config,
                       const SessionOptions& session,
                       const backends::Backend& backend);

// The positions for which a KV cache of so many bytes has room. Throws a usage Error if one
// sequence of the session's capacity needs more.
int64_t positions_in(int64_t bytes, SessionOptions session, const models::ModelConfig& config);

}  // namespace ridge::serve
