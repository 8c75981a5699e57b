// SPDX-License-Identifier: Apache-2.0
// transpose_multi transposes matrices in one launch, each into its own dense buffer. The pass
// `transpose_operands` makes it for products that read only along the depth. Where a view suffices,
// `transpose` is used.
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct TransposeMultiOp {
  static Op declaration() {
    return {.name = "transpose_multi",
            .category = OpCategory::kDataMovement,
            .operands = {1, kAnyNumber},
            .formula = "no FLOPs; reads and writes each element once"};
  }

  static std::vector<Type> infer(const Call& call) {
    std::vector<Type> transposed;
    for (const Type& matrix : call.inputs) {
      expect_rank("transpose_multi", matrix, 2, "each operand");
      transposed.push_back({matrix.dtype, {matrix.shape[1], matrix.shape[0]}});
    }
    return transposed;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t rows = call.inputs[i].shape[0], columns = call.inputs[i].shape[1];
      for (int64_t at = 0; at < rows * columns; ++at)
        outputs[i].data[static_cast<size_t>(at % columns * rows + at / columns)] =
            inputs[i]->data[static_cast<size_t>(at)];
    }
  }

  static std::vector<Case> cases() {
    return {{"one", {{f32({5, 7})}}, {}},
            {"two", {{f32({33, 130})}, {f32({66, 3})}}, {}},
            {"four", {{f32({64, 64})}, {f32({1, 9})}, {f32({65, 127})}, {f32({9, 1})}}, {}}};
  }
};

}  // namespace

const Op& transpose_multi_op() { return op_from<TransposeMultiOp>(); }

}  // namespace ridge::ops
