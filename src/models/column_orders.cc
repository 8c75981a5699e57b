// SPDX-License-Identifier: Apache-2.0
// A gather of columns is one of rows of the transposed activations.
#include "models/column_orders.h"

#include "base/error.h"
#include "ops/build.h"

namespace ridge::models {

void ColumnOrders::apply(const StoredWeight& weight,
                         ValueId* x,
                         Builder& b,
                         Builder& load,
                         LoadGraph& load_graph) {
  if (x == nullptr)
    throw file_error("[weights] expected '{}' with columns in the model's order", weight.name);
  const std::string& order = weight.order;
  ValueId& gathered = gathered_.try_emplace({*x, order}, kNoValue).first->second;
  if (gathered != kNoValue) {
    *x = gathered;
    return;
  }
  ValueId& columns = parameters_.try_emplace(order, kNoValue).first->second;
  if (columns == kNoValue) {
    const Type type{DType::kI32, {b.shape(*x)[1]}};
    columns = b.parameter(order, type);
    load_graph.stored[order] = load.input(order, type);
  }
  const ValueId rows = b.call("embedding", {ops::transpose(b, *x, {1, 0}), columns});
  *x = gathered = ops::transpose(b, rows, {1, 0});
}

}  // namespace ridge::models
