// SPDX-License-Identifier: Apache-2.0
// append_attention, made by the pass fuse_append_attention: rope_append and the cached_attention
// that reads the appended cache, in one pass. In a step of few tokens, these are the ops between a
// layer's merged projection and its output projection. Inputs are those of rope_append, attributes
// those of both ops. Outputs: new versions of the caches, o [N,H,E]. Inference only: it has no
// gradient.
#include <algorithm>
#include <vector>

#include "ops/cached_attention.h"
#include "ops/op_from.h"
#include "ops/rope_append.h"

namespace ridge::ops {
namespace {

// The two calls that this op replaces. Attributes are looked up by name, so each call finds its
// own.
struct Steps {
  std::vector<Type> append_types, append_outputs, attention_types;
  Call append, attention;

  explicit Steps(const Call& call)
      : append_types(call.inputs.begin(), call.inputs.end()),
        append_outputs(rope_append_op().infer({append_types, {}, call.attrs})),
        attention_types{append_outputs[2], append_outputs[0], append_outputs[1],
                        append_types[5],   append_types[6],   append_types[7]},
        append{append_types, append_outputs, call.attrs},
        attention{attention_types, {&append_outputs[2], 1}, call.attrs} {}
};

struct AppendAttentionOp {
  static Op declaration() {
    std::vector<AttrSpec> attrs = rope_append_attrs();
    attrs.push_back({"window", int64_t{0}, false});
    attrs.push_back({"scale", 0.0});
    attrs.push_back({"context", int64_t{0}});
    return {.name = "append_attention",
            .category = OpCategory::kAttention,
            .kind = OpKind::kFused,
            .operands = {8, 10},
            .attrs = std::move(attrs),
            .formula = "rope_append's FLOPs and cached_attention's"};
  }

  static std::vector<Type> infer(const Call& call) {
    Steps steps(call);
    cached_attention_shape(steps.attention);
    return steps.append_outputs;
  }

  static std::vector<Alias> aliases(const Call&) { return {{0, 0}, {1, 1}}; }

  static Work work(const Call& call) {
    Steps steps(call);
    return rope_append_op().work(steps.append) + cached_attention_op().work(steps.attention);
  }
  static ModelWork model_work(const Call& call) { return {work(call), {}}; }

  // rope_append's, but the caches are read too. q is passed on without being stored, and o, which
  // is written, is as large.
  static std::optional<Traffic> traffic(const Call& call) {
    Steps steps(call);
    Traffic traffic = *rope_append_op().traffic(steps.append),
            attention = *cached_attention_op().traffic(steps.attention);
    for (size_t part : {size_t{0}, size_t{1}})
      traffic.read_bytes[part] = attention.read_bytes[1 + part];
    return traffic;
  }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    Steps steps(call);
    std::vector<Tensor64> appended;
    for (const Type& type : steps.append_outputs)
      appended.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.elements()))});
    rope_append_op().reference(steps.append, in, appended);
    for (size_t part : {size_t{0}, size_t{1}}) out[part].data = appended[part].data;
    const std::vector<const Tensor64*> operands{&appended[2], &appended[0], &appended[1],
                                                in[5],        in[6],        in[7]};
    cached_attention_op().reference(steps.attention, operands, out.subspan(2, 1));
  }

  static std::vector<Case> cases() {
    struct AppendAttentionSample {
      const char* name;
      RopeAppendSample append;
      int64_t window, position;
    };
    std::vector<Case> cases;
    for (const AppendAttentionSample& r :
         {AppendAttentionSample{"first", {1, 1, 1, 40, 2, 1, 64, false, false}, 0, 0},
          AppendAttentionSample{"padding", {1, 1, 1, 40, 2, 1, 64, false, false}, 0, -1},
          AppendAttentionSample{"blocks", {1, 2, 8, 16, 9, 3, 64, false, true}, 0, 100},
          AppendAttentionSample{"ring", {1, 1, 1, 300, 4, 1, 256, true, false}, 250, 700},
          AppendAttentionSample{"eight_heads", {1, 1, 1, 520, 16, 2, 128, true, false}, 0, 511},
          AppendAttentionSample{"many_kv_heads", {1, 1, 1, 2700, 12, 6, 64, false, false}, 0, 2650},
          AppendAttentionSample{"most_keys", {1, 1, 1, 2900, 4, 1, 256, true, false}, 0, 2815}}) {
      Case each = rope_append_case(
          r.name, r.append, [](const Shape& shape) { return fixed(bf16(shape)); },
          constant(i32({1}), static_cast<double>(r.position)));
      each.attrs.set("window", r.window);
      each.attrs.set("context", std::max<int64_t>(r.position + 1, 1));
      each.attrs.set("scale", 0.05);
      cases.push_back(std::move(each));
    }
    return cases;
  }
};

}  // namespace

const Op& append_attention_op() { return op_from<AppendAttentionOp>(); }

}  // namespace ridge::ops
