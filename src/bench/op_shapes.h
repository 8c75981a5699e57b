// SPDX-License-Identifier: Apache-2.0
// `ridge bench op --shape` knows these ops: their letters, implementations and a call's graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "bench/extents.h"
#include "bench/graph_trial.h"

namespace ridge::bench {

// --dtype names the type of activations, and of a weight or table that is stored otherwise.
struct TrialType {
  std::string name = "fp32";
  DType activations = DType::kF32;
  DType weights = DType::kF32;
  bool is_tf32 = false;
};
// fp32, tf32, bf16, fp16, or a type of weights and tables alone: f16, or a block type of GGUF.
// Throws usage Errors. Ridge's GPU kernels have no fp16; on the data sheet of a GPU it is planned
// with those of bf16, whose bytes and rates are the same.
TrialType parse_trial_type(const std::string& text, bool is_gpu_sheet = false);
// The note on that, if one of the types is fp16.
inline constexpr const char* kSheetFp16Note =
    "fp16: planned with the kernels of bf16, which have the same bytes and the same rates.";

// One of the ways in which Ridge runs an op.
struct Implementation {
  std::string name;
  std::string summary;
  std::string switches;  // they switch passes over level baseline
  // Activations are rounded to it before a product with a weight in blocks; empty: as the op does.
  std::string activations = {};
};

struct OpRequest {
  record::Extents extents;
  TrialType type;
  bool is_causal = false;
  std::string layout;  // products have "nt", "nn", "tn", "tt"; copies "rows", "transposed"
  Implementation implementation;

  int64_t operator[](std::string_view letter) const;
};

struct OpShape {
  std::string name;  // as typed
  std::string op;    // the op of the graph
  std::vector<Letter> letters;
  std::vector<Implementation> implementations;  // the first is what runs unless another is named
  TrialGraph (*build_call)(const OpShape&, const OpRequest&) = nullptr;
  std::vector<std::string> layouts = {};  // the first is the usual one; empty: one alone
  bool has_quantized_weights = false;     // takes weights or tables in types of files
  bool has_causal = false;

  TrialGraph build(const OpRequest& request) const { return build_call(*this, request); }
};

std::span<const OpShape> op_shapes();
const OpShape* find_op_shape(std::string_view name);
std::string op_shape_names();  // "matmul, gemv, ..."
// A line for each op with the meanings and usual extents of its letters; pointwise ops share one.
std::vector<std::string> letter_lines();

// "all", or names of implementations in the order given. Throws usage Errors that list them.
std::vector<Implementation> choose_implementations(const OpShape& shape,
                                                   const TrialType& type,
                                                   const std::string& names);

}  // namespace ridge::bench
