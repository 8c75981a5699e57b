// SPDX-License-Identifier: Apache-2.0
// Gathers the columns of activations in the order in which a quantized matrix has its columns.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "graph/builder.h"
#include "graph/load_graph.h"
#include "models/forward_graph.h"

namespace ridge::models {

class ColumnOrders {
 public:
  // Replaces *x [N,D] by its columns in the order of `weight`, a tensor i32[D] of the file, which
  // becomes a parameter of the same name. Each order of each x is gathered once. Throws a bad-file
  // Error if x is null: the matrix is no operand of a product.
  void apply(const StoredWeight& weight,
             ValueId* x,
             Builder& b,
             Builder& load,
             LoadGraph& load_graph);

 private:
  std::map<std::string, ValueId> parameters_;
  std::map<std::pair<ValueId, std::string>, ValueId> gathered_;
};

}  // namespace ridge::models
