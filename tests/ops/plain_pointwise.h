// SPDX-License-Identifier: Apache-2.0
// Plain loops of the pointwise functions, of clusters of them, and of the gated activations.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "ops/counted.h"

namespace ridge::ops {

constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

inline Number sigmoid(Number x) { return Number(1) / (Number(1) + exp(-x)); }
inline Number silu(Number x) { return x / (Number(1) + exp(-x)); }
inline Number silu_backward(Number x, Number dy) {
  Number s = sigmoid(x);
  return dy * (s * (Number(1) + x * (Number(1) - s)));
}
inline Number gelu_tanh(Number x) {
  return (tanh((x + cube(x) * kGeluCubic) * kGeluScale) + 1) * 0.5 * x;
}
inline Number gelu_tanh_backward(Number x, Number dy) {
  Number t = tanh((x + cube(x) * kGeluCubic) * kGeluScale);
  Number bend = Number(1) - t * t;
  Number slope = ((x * x) * (3 * kGeluCubic) + 1) * kGeluScale;
  return dy * ((t + 1) * 0.5 + (x * 0.5) * bend * slope);
}

inline Number pointwise(const std::string& name, Number x, Number y, double parameter) {
  using Function = Number (*)(Number a, Number b, double parameter);
  static const std::map<std::string, Function> functions = {
      {"add", [](Number a, Number b, double) { return a + b; }},
      {"sub", [](Number a, Number b, double) { return a - b; }},
      {"mul", [](Number a, Number b, double) { return a * b; }},
      {"div", [](Number a, Number b, double) { return a / b; }},
      {"neg", [](Number a, Number, double) { return -a; }},
      {"scale", [](Number a, Number, double p) { return a * p; }},
      {"add_scalar", [](Number a, Number, double p) { return a + p; }},
      {"square", [](Number a, Number, double) { return a * a; }},
      {"exp", [](Number a, Number, double) { return exp(a); }},
      {"log", [](Number a, Number, double) { return log(a); }},
      {"tanh", [](Number a, Number, double) { return tanh(a); }},
      {"sqrt", [](Number a, Number, double) { return sqrt(a); }},
      {"rsqrt", [](Number a, Number, double) { return rsqrt(a); }},
      {"reciprocal", [](Number a, Number, double) { return reciprocal(a); }},
      {"sigmoid", [](Number a, Number, double) { return sigmoid(a); }},
      {"sin", [](Number a, Number, double) { return sin(a); }},
      {"cos", [](Number a, Number, double) { return cos(a); }},
      {"abs", [](Number a, Number, double) { return counted(std::abs(a.value())); }},
      {"relu", [](Number a, Number, double) { return max(a, 0); }},
      {"max", [](Number a, Number b, double) { return max(a, b); }},
      {"min", [](Number a, Number b, double) { return min(a, b); }},
      {"step", [](Number a, Number, double) { return Number(exceeds(a, 0) ? 1 : 0); }},
      {"silu", [](Number a, Number, double) { return silu(a); }},
      {"gelu_tanh", [](Number a, Number, double) { return gelu_tanh(a); }},
      {"silu_backward", [](Number a, Number b, double) { return silu_backward(a, b); }},
      {"gelu_tanh_backward", [](Number a, Number b, double) { return gelu_tanh_backward(a, b); }},
      {"cast", [](Number a, Number, double) { return a; }},
  };
  return functions.at(name)(x, y, parameter);
}

inline double parameter_of(const Attrs& attrs) {
  return attrs.has("parameter") ? attrs.real("parameter") : 0;
}

inline void plain_pointwise(const Op& op, const Call& call, Arrays& in, Arrays& out) {
  for (int64_t i = 0; i < out[0].shape().elements(); ++i)
    out[0][i] = pointwise(op.name, in[0][i], in.size() > 1 ? Number(in[1][i]) : Number(),
                          parameter_of(call.attrs));
}

inline void plain_generated_pointwise(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const Graph& program = call.attrs.nested("program");
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) {
    std::map<ValueId, Number> values;
    for (size_t v = 0; v < program.values.size(); ++v)
      if (program.values[v].producer == kNoNode)
        values[static_cast<ValueId>(v)] = in[std::stoul(program.values[v].name)][i];
    for (const Node& node : program.nodes)
      values[node.outputs[0]] = pointwise(
          node.op->name, values[node.inputs[0]],
          node.inputs.size() > 1 ? values[node.inputs[1]] : Number(), parameter_of(node.attrs));
    for (size_t o = 0; o < out.size(); ++o) out[o][i] = values[program.outputs[o]];
  }
}

inline void plain_glu(const Op&, const Call& call, Arrays& in, Arrays& out) {
  bool is_silu = call.attrs.text("activation") == "silu";
  for (int64_t i = 0; i < out[0].shape().elements(); ++i)
    out[0][i] = (is_silu ? silu(in[0][i]) : gelu_tanh(in[0][i])) * in[1][i];
}

inline void plain_glu_backward(const Op&, const Call& call, Arrays& in, Arrays& out) {
  bool is_silu = call.attrs.text("activation") == "silu";
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) {
    Number dy = in[0][i], gate = in[1][i], up = in[2][i];
    out[0][i] = is_silu ? silu_backward(gate, dy * up) : gelu_tanh_backward(gate, dy * up);
    out[1][i] = dy * (is_silu ? silu(gate) : gelu_tanh(gate));
  }
}

}  // namespace ridge::ops
