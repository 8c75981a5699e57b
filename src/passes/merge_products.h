// SPDX-License-Identifier: Apache-2.0
// What merge_qkv and merge_gate_up share: GEMMs of one input by several weights become one GEMM
// by the weights stacked, and views of its result. The load graph learns where the stacked
// weight comes from.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "graph/pattern.h"
#include "passes/pass.h"

namespace ridge::passes {

// The GEMM "nd,fd->nf" of the input "x" by a parameter, captured under the name, perhaps behind
// reshapes, rotations and norms of heads.
Pattern projection_behind(const std::string& name);

// Merges the GEMMs that each match captured under the names, where nothing else reads their
// parameters. `stem` names the stacked weight: of a group whose first weight is "a.b.q_proj.weight"
// it is "a.b.<stem>.weight". Groups that do not fit are left alone.
Graph merge_products(const Graph& graph,
                     PassContext& context,
                     const Pattern& pattern,
                     std::initializer_list<std::string_view> names,
                     const std::string& stem);

}  // namespace ridge::passes
