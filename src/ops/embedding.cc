// SPDX-License-Identifier: Apache-2.0
// embedding reads rows of a table [V,D] by ids i32[N]; the row of an id of -1 is zero. Its gradient
// adds rows in a fixed order; with a third operand it accumulates into that (the gradient of a tied
// head).
#include <algorithm>
#include <vector>

#include "base/fragment_tiles.h"
#include "base/repacked_tiles.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct EmbeddingOp {
  static Op declaration() {
    return {.name = "embedding",
            .category = OpCategory::kEmbedding,
            .operands = {2},
            .attrs = {{"dtype", std::string(), false}},
            .formula = "no FLOPs; reads the rows named"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_rank("embedding", call.inputs[0], 2, "the table");
    if (!is_block(call.inputs[0].dtype)) expect_float("embedding", call.inputs[0], "the table");
    expect_rank("embedding", call.inputs[1], 1, "ids");
    expect_dtype("embedding", call.inputs[1], DType::kI32, "ids");
    return {{result_dtype("embedding", call.attrs, call.inputs[0].dtype),
             {call.inputs[1].shape[0], call.inputs[0].shape[1]}}};
  }

  // Counts the rows read, not the table. In repacked tiles, a row shares its cache lines with its
  // neighbours.
  static std::optional<Traffic> traffic(const Call& call) {
    DType table = call.inputs[0].dtype;
    int64_t rows = is_repacked(table) ? kRepackedRows : is_fragments(table) ? kFragmentRows : 1;
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[0] = storage_bytes(table, call.outputs[0].shape.elements() * rows);
    return traffic;
  }

  static ModelWork model_work(const Call& call) {
    return {{}, arithmetic(call.outputs[0].shape.elements())};
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    Builder& b = call.builder;
    int64_t vocabulary = b.shape(call.node.inputs[0])[0];
    return {b.call("embedding_backward", {call.node.inputs[1], call.output_gradients[0]},
                   {{"vocabulary", vocabulary}}),
            kNoValue};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    int64_t d = call.inputs[0].shape[1];
    std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
    for (size_t n = 0; n < inputs[1]->data.size(); ++n)
      if (inputs[1]->data[n] >= 0)
        std::copy_n(inputs[0]->data.begin() + static_cast<int64_t>(inputs[1]->data[n]) * d, d,
                    outputs[0].data.begin() + static_cast<int64_t>(n) * d);
  }

  static std::vector<Case> cases() {
    return {{"rows", {{f32({13, 17})}, ids({29}, 13)}, {}},
            {"narrow", {{f32({13, 17})}, ids({29}, 13)}, {{"dtype", std::string("bf16")}}},
            {"one", {{f32({1, 1})}, ids({1}, 1)}, {}}};
  }
};

struct EmbeddingBackwardOp {
  static Op declaration() {
    return {.name = "embedding_backward",
            .category = OpCategory::kEmbedding,
            .operands = {2, 3},
            .attrs = {{"vocabulary", int64_t{0}}},
            .formula = "1 FLOP an element of the gradient"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_dtype("embedding_backward", call.inputs[0], DType::kI32, "ids");
    expect_rank("embedding_backward", call.inputs[1], 2, "the gradient");
    expect_float("embedding_backward", call.inputs[1], "the gradient");
    expect_shape("embedding_backward", call.inputs[0], Shape{call.inputs[1].shape[0]}, "ids");
    Type table = f32({call.attrs.integer("vocabulary"), call.inputs[1].shape[1]});
    if (call.inputs.size() == 3)
      expect_same("embedding_backward", call.inputs[2], table, "the accumulated table");
    return {table};
  }

  static Work work(const Call& call) { return arithmetic(call.inputs[1].shape.elements()); }

  // Accumulation touches only the rows named; otherwise the whole table is written.
  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    int64_t touched = storage_bytes(DType::kF32, call.inputs[1].shape.elements());
    if (call.inputs.size() == 3) traffic.read_bytes[2] = traffic.written_bytes[0] = touched;
    return traffic;
  }

  static std::vector<Alias> aliases(const Call& call) {
    return call.inputs.size() == 3 ? std::vector<Alias>{{0, 2}} : std::vector<Alias>{};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    int64_t d = call.inputs[1].shape[1];
    if (inputs.size() == 3)
      outputs[0].data = inputs[2]->data;
    else
      std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
    for (size_t n = 0; n < inputs[0]->data.size(); ++n)
      for (int64_t i = 0; inputs[0]->data[n] >= 0 && i < d; ++i)
        outputs[0].data[static_cast<size_t>(static_cast<int64_t>(inputs[0]->data[n]) * d + i)] +=
            inputs[1]->data[n * static_cast<size_t>(d) + static_cast<size_t>(i)];
  }

  static std::vector<Case> cases() {
    Attrs attrs{{"vocabulary", int64_t{13}}};
    return {{"rows", {ids({29}, 13), {f32({29, 17})}}, attrs},
            {"accumulate", {ids({29}, 13), {f32({29, 17})}, {f32({13, 17}), {}, false}}, attrs}};
  }
};

}  // namespace

const Op& embedding_op() { return op_from<EmbeddingOp>(); }

const Op& embedding_backward_op() { return op_from<EmbeddingBackwardOp>(); }

}  // namespace ridge::ops
