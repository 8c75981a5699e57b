// SPDX-License-Identifier: Apache-2.0
// append_attention (put there by fuse_append_attention): rope_append and the cached_attention that
// reads what it appended, in one pass: what a step of few tokens has between its merged projection
// and its output projection. Inputs are rope_append's, attributes both ops'. Outputs: new versions
// of the caches, o [N,H,E]. Inference only: it has no gradient.
#include <algorithm>
#include <vector>

#include "ops/cached_attention.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

// The two calls that this one stands for; attributes are looked up by name, so each finds its own.
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

std::vector<Type> infer(const Call& call) {
  Steps steps(call);
  cached_attention_shape(steps.attention);
  return steps.append_outputs;
}

std::vector<Alias> aliases(const Call&) { return {{0, 0}, {1, 1}}; }

Work work(const Call& call) {
  Steps steps(call);
  return rope_append_op().work(steps.append) + cached_attention_op().work(steps.attention);
}
ModelWork model_work(const Call& call) { return {work(call), {}}; }

// q goes from one to the other without being stored; positions, slots and the table are read once.
std::optional<Traffic> traffic(const Call& call) {
  Steps steps(call);
  Traffic append = *rope_append_op().traffic(steps.append),
          attention = *cached_attention_op().traffic(steps.attention);
  auto bytes = [](const Type& type) { return storage_bytes(type.dtype, type.shape.elements()); };
  int64_t q_bytes = bytes(steps.append_outputs[2]);
  int64_t indices = bytes(call.inputs[5]) + bytes(call.inputs[6]) + bytes(call.inputs[7]);
  return Traffic{append.read_bytes + attention.read_bytes - q_bytes - indices,
                 append.written_bytes + attention.written_bytes - q_bytes};
}

void reference(const Call& call, std::span<const Tensor64* const> in, std::span<Tensor64> out) {
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

std::vector<Case> cases() {
  struct Row {
    const char* name;
    int64_t slots, per_slot, block, heads, kv_heads, head_size, window, position;
    bool norms, interleaved;
  };
  auto bf16 = [](Shape shape) {
    return CaseInput{{DType::kBF16, std::move(shape)}, {Fill::kNormal, 1, false}, false};
  };
  std::vector<Case> cases;
  for (const Row& r : {Row{"first", 1, 1, 40, 2, 1, 64, 0, 0, false, false},
                       Row{"padding", 1, 1, 40, 2, 1, 64, 0, -1, false, false},
                       Row{"blocks", 2, 8, 16, 9, 3, 64, 0, 100, false, true},
                       Row{"ring", 1, 1, 300, 4, 1, 256, 250, 700, true, false},
                       Row{"eight_heads", 1, 1, 520, 16, 2, 128, 0, 511, true, false},
                       Row{"many_kv_heads", 1, 1, 700, 12, 6, 64, 0, 699, false, false},
                       Row{"second_turn", 1, 1, 4200, 4, 1, 256, 0, 4095, true, false}}) {
    CaseInput cache = bf16({r.slots * r.per_slot, r.block, r.kv_heads, r.head_size});
    CaseInput table{f32({1, r.head_size / 2}), {Fill::kNormal, 1, false}, false};
    CaseInput weight{f32({r.head_size}), {Fill::kNormal, 1, false}, false};
    Case each{r.name,
              {cache,
               cache,
               bf16({1, (r.heads + 2 * r.kv_heads) * r.head_size}),
               table,
               table,
               {i32({1}), {Fill::kConstant, static_cast<double>(r.position), false}, false},
               sample_slots(1, r.slots),
               sample_block_table(r.slots, r.per_slot)},
              {{"heads", r.heads},
               {"interleaved", r.interleaved},
               {"norms", r.norms},
               {"eps", 1e-3},
               {"offset", r.norms ? 1.0 : 0.0},
               {"window", r.window},
               {"context", std::max<int64_t>(r.position + 1, 1)},
               {"scale", 0.05}}};
    if (r.norms) each.inputs.insert(each.inputs.end(), {weight, weight});
    cases.push_back(std::move(each));
  }
  return cases;
}

}  // namespace

const Op& append_attention_op() {
  static const Op op{.name = "append_attention",
                     .kind = OpKind::kFused,
                     .min_inputs = 8,
                     .max_inputs = 10,
                     .attrs = {{"heads", int64_t{0}},
                               {"interleaved", false, false},
                               {"norms", false, false},
                               {"eps", 0.0, false},
                               {"offset", 0.0, false},
                               {"window", int64_t{0}, false},
                               {"scale", 0.0},
                               {"context", int64_t{0}}},
                     .formula = "rope_append's FLOPs and cached_attention's",
                     .infer = infer,
                     .work = work,
                     .traffic = traffic,
                     .model_work = model_work,
                     .aliases = aliases,
                     .reference = reference,
                     .cases = cases};
  return op;
}

}  // namespace ridge::ops
