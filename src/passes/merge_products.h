// SPDX-License-Identifier: Apache-2.0
// Shared by merge_qkv and merge_gate_up: several GEMMs of one input become one GEMM with the
// stacked weights, and views of its result. The load graph gets a concat that makes the stacked
// weight.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/pattern.h"
#include "passes/pass.h"

namespace ridge::passes {

// The GEMM "nd,fd->nf" of the value "x" and a parameter, captured as `name`. Reshapes, rotations
// and norms of heads may follow it.
Pattern projection_behind(const std::string& name);

// Each match of `pattern` captures the GEMMs to merge under `names`. `stem` names the stacked
// weight: if the first weight is "a.b.q_proj.weight", the stacked one is "a.b.<stem>.weight".
struct MergeableProducts {
  Pattern pattern;
  std::vector<std::string_view> names;
  std::string stem;
};

// Merges each group whose parameters have no other reader. Groups that do not fit are left alone.
Graph merge_products(const Graph& graph, PassContext& context, const MergeableProducts& products);

}  // namespace ridge::passes
