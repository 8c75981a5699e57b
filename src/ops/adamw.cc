// SPDX-License-Identifier: Apache-2.0
// adamw updates one tensor with decoupled weight decay; adamw_multi updates all tensors in one
// launch. Inputs: learning rate f32[], step f32[] (1 at the first update), with `clip` the factor
// f32[] on every gradient (below 0: nothing is updated), then for each tensor the parameter, the
// gradient, the first and second moments and, if its entry of `copies` is not 0, a low-precision
// copy. Outputs: new versions of parameter, moments and copy. The order of operations is PyTorch's:
//   p *= 1 - lr decay;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g g;
//   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
#include <cmath>
#include <vector>

#include "ops/adamw.h"
#include "ops/op_from.h"

namespace ridge::ops {

std::vector<AdamwTensor> adamw_tensors(size_t inputs, const Attrs& attrs) {
  std::vector<AdamwTensor> tensors;
  int input = attrs.flag("clip") ? 3 : 2, output = 0;
  for (size_t i = 0; input < static_cast<int>(inputs); ++i) {
    const std::vector<int64_t>& copies = attrs.integers("copies");
    bool copy = i < copies.size() && copies[i] != 0;
    tensors.push_back({input, output, copy});
    input += copy ? 5 : 4;
    output += copy ? 4 : 3;
  }
  return tensors;
}

namespace {

void check_tensor(const Call& call, const AdamwTensor& tensor) {
  size_t at = static_cast<size_t>(tensor.input);
  if (at + (tensor.copy ? 5 : 4) > call.inputs.size())
    throw usage_error("[adamw] expected 4 inputs a tensor (5 with a copy), got {} in all",
                      call.inputs.size());
  const Type& parameter = call.inputs[at];
  expect_dtype("adamw", parameter, DType::kF32, "the parameter");
  for (size_t i = 1; i < 4; ++i)
    expect_shape("adamw", call.inputs[at + i], parameter.shape, "gradient and moments");
  expect_float("adamw", call.inputs[at + 1], "the gradient");
  for (size_t i = 2; i < 4; ++i) expect_dtype("adamw", call.inputs[at + i], DType::kF32, "moments");
  if (!tensor.copy) return;
  expect_shape("adamw", call.inputs[at + 4], parameter.shape, "the copy");
  if (const DType copy = call.inputs[at + 4].dtype; copy != DType::kBF16 && copy != DType::kF16)
    throw usage_error("[adamw] expected the copy of bf16 or f16, got {}", name(copy));
}

int64_t elements(const Call& call) {
  int64_t total = 0;
  for (const AdamwTensor& t : adamw_tensors(call.inputs.size(), call.attrs))
    total += call.inputs[static_cast<size_t>(t.input)].shape.elements();
  return total;
}

void update(const Call& call, const AdamwTensor& t, Inputs64 in, Outputs64 out) {
  double rate = in[0]->data[0], step = in[1]->data[0];
  double factor = call.attrs.flag("clip") ? in[2]->data[0] : 1;
  double b1 = call.attrs.real("beta1"), b2 = call.attrs.real("beta2");
  size_t at = static_cast<size_t>(t.input), to = static_cast<size_t>(t.output);
  if (factor < 0) {
    out[to].data = in[at]->data;
    out[to + 1].data = in[at + 2]->data;
    out[to + 2].data = in[at + 3]->data;
    if (t.copy) out[to + 3].data = in[at + 4]->data;
    return;
  }
  for (size_t i = 0; i < in[at]->data.size(); ++i) {
    double g = factor * in[at + 1]->data[i];
    double p = in[at]->data[i] * (1 - rate * call.attrs.real("weight_decay"));
    double m = b1 * in[at + 2]->data[i] + (1 - b1) * g;
    double v = b2 * in[at + 3]->data[i] + (1 - b2) * g * g;
    double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(b2, step)) + call.attrs.real("eps");
    p -= rate / (1 - std::pow(b1, step)) * m / denominator;
    out[to].data[i] = p;
    out[to + 1].data[i] = m;
    out[to + 2].data[i] = v;
    if (t.copy) out[to + 3].data[i] = p;
  }
}

struct SampleUpdate {
  bool clip = false, copy = false;
  double factor = 0.5;
  DType copied = DType::kBF16;
};
Case sample(std::string name, std::vector<Shape> shapes, SampleUpdate update) {
  auto [clip, copy, factor, copied] = update;
  Case made{std::move(name), {}, {{"weight_decay", 0.1}, {"clip", clip}}};
  made.inputs.push_back({f32({}), {Fill::kConstant, 0.01}, false});
  made.inputs.push_back({f32({}), {Fill::kConstant, 3}, false});
  if (clip) made.inputs.push_back({f32({}), {Fill::kConstant, factor}, false});
  std::vector<int64_t> copies;
  for (const Shape& shape : shapes) {
    for (auto kind : {Fill::kNormal, Fill::kNormal, Fill::kNormal, Fill::kPositive})
      made.inputs.push_back({f32(shape), {kind}, false});
    copies.push_back(copy ? 1 : 0);
    if (copy) made.inputs.push_back({{copied, shape}, {}, false});
  }
  made.attrs.set("copies", copies);
  return made;
}

// Shared by adamw and adamw_multi.
struct UpdatesTensors {
  static Op declaration(std::string name, OpKind kind) {
    return {.name = std::move(name),
            .category = OpCategory::kOptimizer,
            .kind = kind,
            .operands = {6, kAnyNumber},
            .attrs = {{"beta1", 0.9, false},
                      {"beta2", 0.999, false},
                      {"eps", 1e-8, false},
                      {"weight_decay", 0.0, false},
                      {"clip", false, false},
                      {"copies", std::vector<int64_t>{}, false}},
            .formula = "14 FLOPs a parameter (15 with clipping)"};
  }

  static std::vector<Type> infer(const Call& call) {
    for (size_t i = 0; i < (call.attrs.flag("clip") ? 3u : 2u); ++i)
      expect_type("adamw", call.inputs[i], f32({}), "learning rate, step and clipping factor");
    std::vector<Type> outputs;
    for (const AdamwTensor& tensor : adamw_tensors(call.inputs.size(), call.attrs)) {
      check_tensor(call, tensor);
      size_t at = static_cast<size_t>(tensor.input);
      for (size_t i : {size_t{0}, size_t{2}, size_t{3}}) outputs.push_back(call.inputs[at + i]);
      if (tensor.copy) outputs.push_back(call.inputs[at + 4]);
    }
    return outputs;
  }

  static std::vector<Alias> aliases(const Call& call) {
    std::vector<Alias> aliases;
    for (const AdamwTensor& t : adamw_tensors(call.inputs.size(), call.attrs)) {
      aliases.push_back({t.output, t.input});
      aliases.push_back({t.output + 1, t.input + 2});
      aliases.push_back({t.output + 2, t.input + 3});
      if (t.copy) aliases.push_back({t.output + 3, t.input + 4});
    }
    return aliases;
  }

  // Per element: decay 1, m 3, v 4, and 6 for sqrt, correction, eps, divide, step size and
  // subtract; one more to scale the gradient.
  static Work work(const Call& call) {
    int64_t n = elements(call);
    return arithmetic((call.attrs.flag("clip") ? 15 : 14) * n, 2 * n);
  }

  // A copy is written but not read.
  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    for (const AdamwTensor& t : adamw_tensors(call.inputs.size(), call.attrs))
      if (t.copy) traffic.read_bytes[static_cast<size_t>(t.input) + 4] = 0;
    return traffic;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    for (const AdamwTensor& t : adamw_tensors(inputs.size(), call.attrs))
      update(call, t, inputs, outputs);
  }
};

struct AdamwOp : UpdatesTensors {
  static Op declaration() { return UpdatesTensors::declaration("adamw", OpKind::kPrimitive); }

  static std::vector<Case> cases() {
    return {sample("one", {{1}}, {}),
            sample("matrix", {{7, 19}}, {}),
            sample("clipped", {{131}}, {.clip = true}),
            sample("copied", {{7, 19}}, {.copy = true}),
            sample("copied_f16", {{7, 19}}, {.copy = true, .copied = DType::kF16}),
            sample("skipped", {{7, 19}}, {.clip = true, .factor = -1})};
  }
};

struct AdamwMultiOp : UpdatesTensors {
  static Op declaration() { return UpdatesTensors::declaration("adamw_multi", OpKind::kFused); }

  static std::vector<Case> cases() {
    return {sample("three", {{7, 19}, {1}, {131}}, {}),
            sample("all", {{7, 19}, {64}}, {.clip = true, .copy = true}),
            sample("skipped", {{7, 19}, {64}}, {.clip = true, .factor = -1})};
  }
};

}  // namespace

const Op& adamw_op() { return op_from<AdamwOp>(); }

const Op& adamw_multi_op() { return op_from<AdamwMultiOp>(); }

}  // namespace ridge::ops
