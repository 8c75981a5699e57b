// SPDX-License-Identifier: Apache-2.0
// What merge_qkv and merge_gate_up share: GEMMs of one input by several weights become one GEMM
// by the weights stacked, and views of its result. The load graph learns where the stacked
// weight comes from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/pattern.h"
#include "passes/pass.h"

namespace ridge::passes {

// The GEMM "nd,fd->nf" of the input "x" by a parameter, captured under the name, perhaps behind
// reshapes, rotations and norms of heads.
Pattern projection_behind(const std::string& name);

// The GEMMs that each match of the pattern captured under the names. `stem` names the stacked
// weight: of a group whose first weight is "a.b.q_proj.weight" it is "a.b.<stem>.weight".
struct MergeableProducts {
  Pattern pattern;
  std::vector<std::string_view> names;
  std::string stem;
};

// Merges them where nothing else reads their parameters. Groups that do not fit are left alone.
Graph merge_products(const Graph& graph, PassContext& context, const MergeableProducts& products);

}  // namespace ridge::passes
