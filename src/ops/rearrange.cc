// SPDX-License-Identifier: Apache-2.0
// rearrange (composite): splits, permutes and merges axes in the notation of einops,
// "b (h e) t -> b t h e". It becomes views; merging axes that are not adjacent in memory copies.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/op_from.h"
#include "ops/rearrangement.h"

namespace ridge::ops {
namespace {

Rearrangement parsed(const Attrs& attrs, const Shape& shape) {
  return parse_rearrangement(attrs.text("pattern"), attrs.text("sizes"), shape);
}

struct RearrangeOp {
  static Op declaration() {
    return {.name = "rearrange",
            .category = OpCategory::kDataMovement,
            .kind = OpKind::kComposite,
            .attrs = {{"pattern", std::string()}, {"sizes", std::string(), false}},
            .formula = "none"};
  }

  static std::vector<Type> infer(const Call& call) {
    return {{call.inputs[0].dtype, parsed(call.attrs, call.inputs[0].shape).merged}};
  }

  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    const Rearrangement r = parsed(node.attrs, b.shape(node.inputs[0]));
    ValueId x = reshape(b, node.inputs[0], r.split);
    if (!std::is_sorted(r.permutation.begin(), r.permutation.end()))
      x = transpose(b, x, r.permutation);
    return {reshape(b, x, r.merged)};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Rearrangement r = parsed(call.attrs, call.inputs[0].shape);
    const Strides strides = dense_strides(r.split);
    for (size_t o = 0; o < outputs[0].data.size(); ++o) {
      auto flat = static_cast<int64_t>(o);
      int64_t at = 0;
      for (size_t i = r.permutation.size(); i-- > 0;) {
        const int axis = static_cast<int>(r.permutation[i]);
        at += flat % r.split[axis] * strides[axis];
        flat /= r.split[axis];
      }
      outputs[0].data[o] = inputs[0]->data[static_cast<size_t>(at)];
    }
  }

  static std::vector<Case> cases() {
    auto sample = [](std::string name, std::string pattern, std::string sizes, const Shape& shape) {
      return Case{std::move(name),
                  {{f32(shape)}},
                  {{"pattern", std::move(pattern)}, {"sizes", std::move(sizes)}}};
    };
    return {sample("heads", "(b t) (h e) -> b h t e", "b=2,h=3", {8, 15}),
            sample("merge", "b h t e -> (b t) (h e)", "", {2, 3, 4, 5}),
            sample("patches", "b (y p) (x q) c -> (b y x) (p q c)", "p=2,q=3", {2, 4, 6, 2}),
            sample("dots", "... a b -> ... b a 1", "", {2, 3, 4, 5})};
  }
};

}  // namespace

const Op& rearrange_op() { return op_from<RearrangeOp>(); }

}  // namespace ridge::ops
