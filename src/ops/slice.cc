// SPDX-License-Identifier: Apache-2.0
// slice: elements begin..end of one axis; a view. Its gradient is assembled in differentiate:
// slices that tile a value become one concat, so a split costs no zero-filled copies.
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct SliceOp {
  static Op declaration() {
    return {.name = "slice",
            .category = OpCategory::kView,
            .kind = OpKind::kView,
            .attrs = {{"axis", int64_t{0}}, {"begin", int64_t{0}}, {"end", int64_t{0}}}};
  }

  static std::vector<Type> infer(const Call& call) {
    const Shape& shape = call.inputs[0].shape;
    int64_t begin = call.attrs.integer("begin"), end = call.attrs.integer("end");
    int axis = expect_axis("slice", shape, call.attrs.integer("axis"));
    if (begin < 0 || begin >= end || end > shape[axis])
      throw usage_error("[slice] expected 0 <= begin < end <= {}, got {} and {}", shape[axis],
                        begin, end);
    const DTypeInfo& dtype = info(call.inputs[0].dtype);
    bool whole_blocks =
        begin % dtype.elements_per_block == 0 && end % dtype.elements_per_block == 0;
    if (axis == shape.rank() - 1 && !whole_blocks)
      throw usage_error("[slice] expected whole blocks of {} elements, got {} to {}",
                        dtype.elements_per_block, begin, end);
    return {{call.inputs[0].dtype, shape.with(axis, end - begin)}};
  }

  static std::optional<Layout> view(const Call& call, const Layout& input) {
    int axis = static_cast<int>(call.attrs.integer("axis"));
    return Layout{input.offset + call.attrs.integer("begin") * input.strides[axis], input.strides};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Shape& shape = call.inputs[0].shape;
    int axis = static_cast<int>(call.attrs.integer("axis"));
    int64_t begin = call.attrs.integer("begin"), end = call.attrs.integer("end");
    auto [outer, inner] = around(shape, axis);
    outputs[0].data.clear();
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = begin * inner; i < end * inner; ++i)
        outputs[0].data.push_back(
            inputs[0]->data[static_cast<size_t>(o * shape[axis] * inner + i)]);
  }

  static std::vector<Case> cases() {
    Attrs middle{{"axis", int64_t{1}}, {"begin", int64_t{2}}, {"end", int64_t{5}}};
    return {{"middle", {{f32({3, 7, 4})}}, middle}, {"columns", {{f32({3, 7})}}, middle}};
  }
};

}  // namespace

const Op& slice_op() { return op_from<SliceOp>(); }

}  // namespace ridge::ops
