// SPDX-License-Identifier: Apache-2.0
// Checks of kernel results: against the op's double reference for values, against central
// differences of it for gradients, with the allowed error. Each check returns a description of the
// difference, or an empty text, so that the checks themselves can be tested.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "backends/graph_run.h"
#include "backends/op_sample.h"
#include "graph/load_graph.h"
#include "graph/rewriter.h"
#include "graph/verifier.h"
#include "passes/differentiate.h"
#include "passes/passes.h"

namespace ridge::backends {

// The allowed rounding error of a result. A kernel with relative errors of `unit` returns the exact
// result for operands that moved by some units, plus an error of some units of its largest result.
// Then the result is rounded to its type.
struct Precision {
  double unit;
  double units;
};
// Sums of a hundred terms in vector order, polynomials for exp and tanh, and quotients stay well
// below 16 units; a wrong term does not.
inline constexpr Precision kFloatArithmetic{0x1p-24, 16};
// Queries and the weights of values are rounded to 16 bits, relative to the largest of a head.
inline constexpr Precision kWordSteps{0x1p-16, 4};
// Some intermediate values are stored in bf16, or in fp16.
inline constexpr Precision kBf16Steps{0x1p-8, 4};
inline constexpr Precision kF16Steps{0x1p-11, 4};
inline Precision narrow_steps(DType dtype) { return dtype == DType::kF16 ? kF16Steps : kBf16Steps; }

inline double storage_error(DType dtype) {
  return dtype == DType::kF32    ? 0x1p-24
         : dtype == DType::kBF16 ? 0x1p-8
         : dtype == DType::kF16  ? 0x1p-11
                                 : 0;
}
// Below 2^-14, numbers in fp16 are 2^-24 apart.
inline double least_error(DType dtype) { return dtype == DType::kF16 ? 0x1p-25 : 0; }

// The movement of each output per relative movement of the operands and of every node's results:
// the largest of a few random movements. A graph of small steps exposes cancellation in
// intermediate results; a kernel may round at any point.
using Movements = std::vector<std::vector<double>>;
inline Movements movements(const Graph& graph, const ops::NamedTensors& named) {
  constexpr double kMovement = 1e-6;
  constexpr int kDirections = 6;
  std::vector<Tensor64> base = ops::ReferenceRun(graph, named).outputs();
  Movements moved(base.size());
  for (size_t o = 0; o < base.size(); ++o) moved[o].assign(base[o].data.size(), 0);
  Random random(7);
  auto move = [&](Tensor64& tensor) {
    for (double& x : tensor.data)
      if (is_float(tensor.type.dtype))
        x *= 1 + kMovement * (4 * static_cast<double>(random.uniform()) - 2);
  };
  for (int direction = 0; direction < kDirections; ++direction) {
    std::vector<Tensor64> there = ops::ReferenceRun(graph, named, move).outputs();
    for (size_t o = 0; o < base.size(); ++o)
      for (size_t i = 0; i < base[o].data.size(); ++i) {
        double distance = std::abs(there[o].data[i] - base[o].data[i]) / kMovement;
        if (std::isfinite(distance)) moved[o][i] = std::max(moved[o][i], distance);
      }
  }
  return moved;
}

inline double largest(const std::vector<double>& data) {
  double top = 0;
  for (double x : data)
    if (std::isfinite(x)) top = std::max(top, std::abs(x));
  return top;
}

// Compares outputs with the reference results of a graph.
inline std::string compare(const Graph& meaning,
                           const ops::NamedTensors& named,
                           const std::vector<Tensor64>& got,
                           const Precision& precision,
                           const Movements& moved) {
  std::vector<Tensor64> want = ops::ReferenceRun(meaning, named).outputs();
  for (size_t o = 0; o < want.size(); ++o) {
    double top = largest(want[o].data);
    if (want[o].type != got[o].type)
      return fmt::format("output {} is {}, not {}", o, got[o].type.str(), want[o].type.str());
    for (size_t i = 0; i < want[o].data.size(); ++i) {
      double x = got[o].data[i], y = want[o].data[i];
      if (x == y) continue;
      double arithmetic = precision.unit * precision.units * (moved[o][i] + top);
      double allowed = arithmetic + storage_error(want[o].type.dtype) * std::abs(y) * 1.01 +
                       least_error(want[o].type.dtype);
      if (!(std::abs(x - y) <= allowed))
        return fmt::format("output {} element {}: got {}, want {} within {:.3g}", o, i, x, y,
                           allowed);
    }
  }
  return "";
}

// Expands composites that are not kept whole and makes the rest legal for the backend.
inline Graph lower(const Graph& graph, const OpTable& ops, Backend& backend) {
  LoadGraph load;
  passes::PassContext context{ops, backend, load};
  Graph legal = passes::legalize_pass.run(passes::expand_pass.run(graph, context), context);
  verify(legal);
  return legal;
}

inline bool same_bits(const std::vector<Tensor64>& a, const std::vector<Tensor64>& b) {
  for (size_t o = 0; o < a.size(); ++o)
    for (size_t i = 0; i < a[o].data.size(); ++i)
      if (std::bit_cast<uint64_t>(a[o].data[i]) != std::bit_cast<uint64_t>(b[o].data[i]))
        return false;
  return true;
}

// Runs a lowered graph twice and describes violations of the rules for all graphs.
inline std::string run_checked(GraphRun& run,
                               const ops::NamedTensors& named,
                               std::vector<Tensor64>& got) {
  run.write(named);
  run.run();
  got = run.outputs();
  run.write(named);
  run.run();
  if (!same_bits(got, run.outputs())) return "two runs differ";
  if (!run.guards_are_intact()) return "a kernel wrote outside of its memory";
  const Graph& graph = run.graph();
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.producer != kNoNode || value.storage == Storage::kState) continue;
    if (!same_bits({run.read(static_cast<ValueId>(i))}, {named.at(value.name)}))
      return fmt::format("a kernel changed its operand '{}'", value.name);
  }
  return "";
}

inline std::string check_values(const Op& op,
                                const Case& sample,
                                const OpTable& ops,
                                const Variant& variant,
                                Backend& backend,
                                const Precision& precision) {
  SampleGraph built(op, sample, ops, variant);
  verify(built.graph());
  GraphRun run(backend, lower(built.graph(), ops, backend));
  std::vector<Tensor64> got;
  std::string fault = run_checked(run, built.named(), got);
  if (!fault.empty()) return fault;
  return compare(built.graph(), built.named(), got, precision,
                 movements(built.graph(), built.named()));
}

// A scalar that depends on every output with a gradient: the sum of outputs times random weights.
inline ValueId weighted_sum(const Op& op, SampleGraph& built) {
  Builder& b = built.builder();
  Random random(11);
  ValueId loss = kNoValue;
  for (size_t o = 0; o < built.made().size(); ++o) {
    ValueId output = built.made()[o];
    if (is_statistic(op, o)) continue;
    const Shape shape = b.shape(output);
    std::string label = fmt::format("weight{}", o);
    // Weights that bf16 represents exactly, so that the gradient that enters the op is exact in
    // both types.
    built.named()[label] = ops::draw(Type{DType::kBF16, shape}, {}, random);
    built.named()[label].type.dtype = DType::kF32;
    ValueId product =
        ops::mul(b, ops::cast(b, output, DType::kF32), b.input(label, {DType::kF32, shape}));
    std::vector<int64_t> axes(static_cast<size_t>(shape.rank()));
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
    ValueId sum =
        axes.empty() ? product : ops::reshape(b, ops::reduce_sum(b, product, axes), Shape{});
    loss = loss == kNoValue ? sum : ops::add(b, loss, sum);
  }
  return loss;
}

// d loss / d x[i] by central differences of the graph's reference.
inline double central_difference(const Graph& graph,
                                 ops::NamedTensors& named,
                                 const std::string& name,
                                 size_t i) {
  double& x = named.at(name).data[i];
  double at = x, step = 1e-5 * std::max(1.0, std::abs(at));
  auto loss = [&](double there) {
    x = there;
    return ops::ReferenceRun(graph, named)[graph.outputs[0]][0];
  };
  double difference = (loss(at + step) - loss(at - step)) / (2 * step);
  x = at;
  return difference;
}

// Compares the differentiated graph in double with differences of the forward graph. This tests the
// rule without any kernel. For large operands, it checks randomly chosen elements, fewer of those
// whose references take long.
inline std::string compare_with_differences(const Graph& forward,
                                            ops::NamedTensors named,
                                            const Graph& backward,
                                            const std::vector<std::string>& wanted) {
  constexpr uint32_t kMost = 60, kMostOfLarge = 12, kLarge = 10'000;
  // Relative to the largest element: steps of 1e-5 leave 1e-9 and the rounding of the loss.
  constexpr double kTolerance = 1e-6;
  std::vector<Tensor64> gradients = ops::ReferenceRun(backward, named).outputs();
  Random random(5);
  for (size_t w = 0; w < wanted.size(); ++w) {
    const std::vector<double>& gradient = gradients[w].data;
    double allowed = kTolerance * (largest(gradient) + 1e-3);
    uint32_t size = static_cast<uint32_t>(gradient.size());
    const uint32_t most = size > kLarge ? kMostOfLarge : kMost;
    for (uint32_t k = 0; k < std::min(size, most); ++k) {
      size_t i = size <= kMost ? k : random.below(size);
      double want = central_difference(forward, named, wanted[w], i);
      if (!(std::abs(gradient[i] - want) <= allowed))
        return fmt::format("gradient of {} element {}: the graph gives {}, differences give {}",
                           wanted[w], i, gradient[i], want);
    }
  }
  return "";
}

// The weighted sum of a sample and the gradients of its parameters.
struct Differentiated {
  Graph meaning;   // returns the sum
  Graph backward;  // returns the gradients
  std::vector<std::string> wanted;
  ops::NamedTensors named;
};

inline Differentiated differentiate_sample(const Op& op,
                                           const Case& sample,
                                           const OpTable& ops,
                                           const Variant& variant,
                                           Backend& backend) {
  SampleGraph built(op, sample, ops, variant, true);
  built.graph().outputs = {weighted_sum(op, built)};
  Differentiated made{without_dead_nodes(built.graph()), {}, {}, built.named()};
  LoadGraph load;
  passes::PassContext context{ops, backend, load};
  made.backward = passes::expand_pass.run(made.meaning, context);
  std::vector<ValueId> wanted;
  for (ValueId value : built.wanted()) {
    made.wanted.push_back(built.graph().value(value).name);
    wanted.push_back(made.backward.find(made.wanted.back()));
  }
  made.backward.outputs =
      passes::differentiate(made.backward, ops, made.backward.outputs[0], wanted);
  return made;
}

// Checks the gradient of an op through `differentiate`: its rule against central differences, and
// its kernels against the rule.
inline std::string check_gradient(const Op& op,
                                  const Case& sample,
                                  const OpTable& ops,
                                  const Variant& variant,
                                  Backend& backend,
                                  const Precision& precision) {
  Differentiated made = differentiate_sample(op, sample, ops, variant, backend);
  for (size_t w = 0; w < made.wanted.size(); ++w)
    if (made.backward.outputs[w] == kNoValue)
      return fmt::format("{} gets no gradient", made.wanted[w]);
  verify(made.backward);
  Graph backward = without_dead_nodes(made.backward);
  std::string fault = compare_with_differences(made.meaning, made.named, backward, made.wanted);
  if (!fault.empty()) return fault;
  GraphRun run(backend, lower(backward, ops, backend));
  std::vector<Tensor64> got;
  fault = run_checked(run, made.named, got);
  if (!fault.empty()) return fault;
  // Computes movements in the small steps of the expansion, even if the op is kept whole.
  Variant steps = variant;
  steps.fused = false;
  const Op& unfused = op.name == "flash_attention" ? ops.at("attention") : op;
  Differentiated expanded = differentiate_sample(unfused, sample, ops, steps, backend);
  return compare(backward, made.named, got, precision, movements(expanded.backward, made.named));
}

// The precision of the CPU's kernels on this sample: that of fp32 for either type, with these
// exceptions in bf16.
inline Precision precision_of(const Op& op, const Case& sample, const Variant& variant) {
  // Its operands are bf16 in any variant. The normed values are rounded before the product; so are
  // the heads of q and the weights of the keys.
  if (op.name == "skinny_gemm" || op.name == "append_attention") return kBf16Steps;
  if (op.name == "cached_attention" && variant.fused && sample.inputs[1].type.dtype == DType::kI8 &&
      sample.inputs[0].type.dtype == DType::kF32)
    return kWordSteps;
  // Weights of keys count with 16 bits for few tokens, and with 8 in tiles; results are stored in
  // bf16.
  if (op.name == "cached_attention" && sample.inputs[0].type.dtype == DType::kBF16)
    return kBf16Steps;
  if (variant.dtype == DType::kF32) return kFloatArithmetic;
  // Probabilities and their gradients are stored in bf16 before the second product.
  if (op.name.starts_with("flash_attention")) return narrow_steps(variant.dtype);
  constexpr int64_t kMany = 32;
  if (op.name == "cached_attention" && sample.inputs[0].type.shape[0] > kMany) return kBf16Steps;
  // The sum is normalized after it was rounded for storing.
  if (op.name == "add_rms_norm" || op.name == "all_reduce_add_rms_norm")
    return narrow_steps(variant.dtype);
  // Summed axes that cannot be merged are summed one after the other, in the output's type.
  if (op.name == "matmul" && sample.name == "group_gradient") return narrow_steps(variant.dtype);
  // An expansion stores the result of every step.
  bool expanded = op.kind == OpKind::kComposite && !variant.fused;
  return expanded ? narrow_steps(variant.dtype) : kFloatArithmetic;
}

}  // namespace ridge::backends
