// SPDX-License-Identifier: Apache-2.0
// rope_qkv, made by the pass fuse_rope: a merged projection [N,(H+2K)E] with its q and k heads
// rotated and its v heads copied, in one pass; attention reads q, k and v as views of the result.
// The gradient is the inverse rotation.
#include <vector>

#include "ops/op_from.h"
#include "ops/rotate.h"

namespace ridge::ops {
namespace {

std::vector<Type> check(std::string_view name, const Call& call) {
  const Type& x = call.inputs[0];
  expect_float(name, x, "the merged projection");
  expect_rank(name, x, 2, "the merged projection");
  int64_t heads = call.attrs.integer("heads"), kv_heads = call.attrs.integer("kv_heads");
  int64_t columns = x.shape[1];
  bool fits = heads > 0 && kv_heads > 0 && heads <= columns && kv_heads <= columns;
  if (!fits || columns % (heads + 2 * kv_heads) != 0)
    throw usage_error("[{}] {} columns do not hold {} + 2 x {} heads", name, columns, heads,
                      kv_heads);
  int64_t e = columns / (heads + 2 * kv_heads);
  expect_even_head(e);
  for (size_t i = 1; i < 3; ++i)
    expect_type(name, call.inputs[i], f32({x.shape[0], e / 2}), "cos and sin");
  return {x};
}

// Shared by the forward and the backward op.
struct RotatesMerged {
  static Op declaration(std::string name) {
    return {.name = std::move(name),
            .category = OpCategory::kElementwise,
            .kind = OpKind::kFused,
            .operands = {3},
            .attrs = {{"interleaved", false}, {"heads", int64_t{0}}, {"kv_heads", int64_t{0}}},
            .formula = "3 FLOPs an element of q and k"};
  }

  // 3 FLOPs an element of q and k.
  static Work work(const Call& call) {
    int64_t heads = call.attrs.integer("heads"), kv_heads = call.attrs.integer("kv_heads");
    int64_t e = call.inputs[0].shape[1] / (heads + 2 * kv_heads);
    return arithmetic(3 * call.inputs[0].shape[0] * (heads + kv_heads) * e);
  }

  static void rotate_all(const Call& call, Inputs64 inputs, Outputs64 outputs, bool inverse) {
    int64_t heads = call.attrs.integer("heads"), kv_heads = call.attrs.integer("kv_heads");
    int64_t width = heads + 2 * kv_heads, e = call.inputs[0].shape[1] / width;
    outputs[0].data = inputs[0]->data;
    for (int64_t n = 0; n < call.inputs[0].shape[0]; ++n) {
      size_t table = static_cast<size_t>(n * (e / 2));
      Rotation rotation{&inputs[1]->data[table], &inputs[2]->data[table], e,
                        call.attrs.flag("interleaved"), inverse};
      for (int64_t h = 0; h < heads + kv_heads; ++h) {
        size_t at = static_cast<size_t>((n * width + h) * e);
        rotation.rotate(&inputs[0]->data[at], &outputs[0].data[at]);
      }
    }
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (bool interleaved : {true, false})
      for (int64_t e : {2, 16, 34}) {
        CaseInput table = fixed(f32({7, e / 2}));
        Attrs attrs{{"interleaved", interleaved}, {"heads", int64_t{4}}, {"kv_heads", int64_t{2}}};
        cases.push_back({fmt::format("{}{}", e, interleaved ? "interleaved" : "halves"),
                         {{f32({7, 8 * e})}, table, table},
                         attrs});
      }
    return cases;
  }
};

struct RopeQkvOp : RotatesMerged {
  static Op declaration() { return RotatesMerged::declaration("rope_qkv"); }

  static std::vector<Type> infer(const Call& call) { return check("rope_qkv", call); }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {call.builder.call("rope_qkv_backward",
                              {call.output_gradients[0], call.node.inputs[1], call.node.inputs[2]},
                              call.node.attrs),
            kNoValue, kNoValue};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    rotate_all(call, inputs, outputs, false);
  }
};

struct RopeQkvBackwardOp : RotatesMerged {
  static Op declaration() { return RotatesMerged::declaration("rope_qkv_backward"); }

  static std::vector<Type> infer(const Call& call) { return check("rope_qkv_backward", call); }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    rotate_all(call, inputs, outputs, true);
  }
};

}  // namespace

const Op& rope_qkv_op() { return op_from<RopeQkvOp>(); }

const Op& rope_qkv_backward_op() { return op_from<RopeQkvBackwardOp>(); }

}  // namespace ridge::ops
