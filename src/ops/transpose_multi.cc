// SPDX-License-Identifier: Apache-2.0
// transpose_multi: matrices transposed, each into a dense buffer of its
// own, in one launch. Made by the pass `transpose_operands` for products
// that read along the depth only; where a view does, it is `transpose`.
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  std::vector<Type> transposed;
  for (const Type& matrix : call.inputs) {
    expect_rank("transpose_multi", matrix, 2, "each operand");
    transposed.push_back({matrix.dtype, {matrix.shape[1], matrix.shape[0]}});
  }
  return transposed;
}

void reference(const Call& call,
               std::span<const Tensor64* const> inputs,
               std::span<Tensor64> outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t rows = call.inputs[i].shape[0], columns = call.inputs[i].shape[1];
    for (int64_t at = 0; at < rows * columns; ++at)
      outputs[i].data[static_cast<size_t>(at % columns * rows + at / columns)] =
          inputs[i]->data[static_cast<size_t>(at)];
  }
}

std::vector<Case> cases() {
  return {{"one", {{f32({5, 7})}}, {}},
          {"two", {{f32({33, 130})}, {f32({66, 3})}}, {}},
          {"four", {{f32({64, 64})}, {f32({1, 9})}, {f32({65, 127})}, {f32({9, 1})}}, {}}};
}

}  // namespace

const Op& transpose_multi_op() {
  static const Op op{.name = "transpose_multi",
                     .min_inputs = 1,
                     .max_inputs = -1,
                     .formula = "no FLOPs; reads and writes each element once",
                     .infer = infer,
                     .reference = reference,
                     .cases = cases};
  return op;
}

}  // namespace ridge::ops
