// SPDX-License-Identifier: Apache-2.0
// Pointwise ops: shape rule, cost from the table, and gradients as graphs.
#include "ops/pointwise.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/fragment_tiles.h"
#include "base/repacked_tiles.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

// Shape rule and work need the row of their function, so a template makes one instance per
// function.
template <Pointwise kFunction>
std::vector<Type> infer(const Call& call) {
  const PointwiseInfo& row = info(kFunction);
  // The cast of a load graph dequantizes the blocks of a file, or packs them into tiles.
  if (kFunction != Pointwise::kCast || !is_block(call.inputs[0].dtype))
    expect_float(row.name, call.inputs[0], "operands");
  if (row.arity == 2) expect_same(row.name, call.inputs[0], call.inputs[1], "operands");
  Type type = call.inputs[0];
  if (kFunction == Pointwise::kCast) {
    auto dtype = parse_dtype(call.attrs.text("dtype"));
    bool packs = dtype && (*dtype == repacked_dtype(type.dtype, type.shape) ||
                           *dtype == fragment_dtype(type.dtype, type.shape));
    if (!dtype || !(is_float(*dtype) || packs))
      throw usage_error("[cast] expected a floating-point type, got '{}'",
                        call.attrs.text("dtype"));
    type.dtype = *dtype;
  }
  return {type};
}

template <Pointwise kFunction>
Work work(const Call& call) {
  const PointwiseInfo& row = info(kFunction);
  int64_t elements = call.inputs[0].shape.elements();
  return arithmetic(elements * row.flops, elements * row.transcendentals);
}

// The model work: sums pass their gradient on; other functions cost about as much backward as
// forward.
template <Pointwise kFunction>
ModelWork model_work(const Call& call) {
  bool passes = kFunction == Pointwise::kAdd || kFunction == Pointwise::kSub ||
                kFunction == Pointwise::kAddScalar || kFunction == Pointwise::kCast;
  Work forward = work<kFunction>(call);
  return {forward, passes ? Work{} : forward};
}

template <Pointwise kFunction>
void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
  double parameter = pointwise_parameter(call.attrs);
  for (size_t i = 0; i < outputs[0].data.size(); ++i) {
    double b = inputs.size() > 1 ? inputs[1]->data[i] : 0;
    outputs[0].data[i] = evaluate(kFunction, inputs[0]->data[i], b, parameter);
  }
}

// The gradient of a function of one operand: dx from x, y and dy.
ValueId unary_gradient(Pointwise function, const GradientCall& call) {
  Builder& b = call.builder;
  double parameter = pointwise_parameter(call.node.attrs);
  ValueId x = call.node.inputs[0], y = call.node.outputs[0], dy = call.output_gradients[0];
  switch (function) {
    case Pointwise::kNeg:
      return unary(b, "neg", dy);
    case Pointwise::kScale:
      return scale(b, dy, parameter);
    case Pointwise::kAddScalar:
      return dy;
    case Pointwise::kSquare:
      return scale(b, mul(b, x, dy), 2);
    case Pointwise::kExp:
      return mul(b, y, dy);
    case Pointwise::kLog:
      return b.call("div", {dy, x});
    case Pointwise::kTanh:
      return sub(b, dy, mul(b, unary(b, "square", y), dy));
    case Pointwise::kSqrt:
      return scale(b, b.call("div", {dy, y}), 0.5);
    // d x^(-1/2) = -1/2 y^3
    case Pointwise::kRsqrt:
      return scale(b, mul(b, mul(b, unary(b, "square", y), y), dy), -0.5);
    case Pointwise::kReciprocal:
      return unary(b, "neg", mul(b, unary(b, "square", y), dy));
    case Pointwise::kSigmoid:
      return mul(b, sub(b, y, unary(b, "square", y)), dy);
    case Pointwise::kSin:
      return mul(b, unary(b, "cos", x), dy);
    case Pointwise::kCos:
      return unary(b, "neg", mul(b, unary(b, "sin", x), dy));
    case Pointwise::kAbs:
      return mul(b, sub(b, unary(b, "step", x), unary(b, "step", unary(b, "neg", x))), dy);
    case Pointwise::kRelu:
      return mul(b, unary(b, "step", x), dy);
    case Pointwise::kSilu:
      return b.call("silu_backward", {x, dy});
    case Pointwise::kGeluTanh:
      return b.call("gelu_tanh_backward", {x, dy});
    case Pointwise::kCast:
      return cast(b, dy, b.type(x).dtype);
    default:
      throw InternalError("no gradient of this pointwise function");
  }
}

// The gradients of the larger (smaller) of two operands: dy goes to the one that is larger
// (smaller), and to the second where both are equal.
std::vector<ValueId> choice_gradients(Pointwise function, const GradientCall& call) {
  Builder& b = call.builder;
  ValueId x = call.node.inputs[0], y = call.node.inputs[1], dy = call.output_gradients[0];
  ValueId lead = function == Pointwise::kMax ? sub(b, x, y) : sub(b, y, x);
  ValueId dx = mul(b, unary(b, "step", lead), dy);
  return {dx, call.needed[1] ? sub(b, dy, dx) : kNoValue};
}

template <Pointwise kFunction>
std::vector<ValueId> gradient(const GradientCall& call) {
  if (info(kFunction).arity == 1) return {unary_gradient(kFunction, call)};
  Builder& b = call.builder;
  ValueId dy = call.output_gradients[0];
  ValueId x = call.node.inputs[0];
  ValueId y = call.node.inputs[1];
  auto when = [&](size_t input, auto make) { return call.needed[input] ? make() : kNoValue; };
  switch (kFunction) {
    case Pointwise::kAdd:
      return {dy, dy};
    case Pointwise::kSub:
      return {dy, when(1, [&] { return unary(b, "neg", dy); })};
    case Pointwise::kMul:
      return {when(0, [&] { return mul(b, dy, y); }), when(1, [&] { return mul(b, dy, x); })};
    case Pointwise::kMax:
    case Pointwise::kMin:
      return choice_gradients(kFunction, call);
    case Pointwise::kDiv:
      return {when(0,
                   [&] {
                     return b.call("div", {dy, y});
                   }),
              when(1, [&] {
                ValueId ratio = b.call("div", {call.node.outputs[0], y});
                return unary(b, "neg", mul(b, dy, ratio));
              })};
    default:
      throw InternalError("no gradient of this pointwise function");
  }
}

constexpr bool is_differentiable(Pointwise function) {
  return function != Pointwise::kStep && function != Pointwise::kSiluBackward &&
         function != Pointwise::kGeluTanhBackward;
}

// Logarithms, roots and divisors are sampled where they are smooth.
constexpr bool needs_positive(Pointwise f) {
  return f == Pointwise::kLog || f == Pointwise::kSqrt || f == Pointwise::kRsqrt ||
         f == Pointwise::kReciprocal || f == Pointwise::kDiv;
}

template <Pointwise kFunction>
std::vector<Case> cases() {
  const PointwiseInfo& row = info(kFunction);
  Fill fill{needs_positive(kFunction) ? Fill::kPositive : Fill::kNormal};
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1}, Shape{17}, Shape{3, 67}, Shape{2, 5, 129}}) {
    Case sample{shape.str(),
                std::vector<CaseInput>(static_cast<size_t>(row.arity), {f32(shape), fill}),
                {}};
    if (row.has_parameter) sample.attrs.set("parameter", 0.75);
    if (kFunction == Pointwise::kCast) sample.attrs.set("dtype", std::string("f32"));
    cases.push_back(std::move(sample));
  }
  if (kFunction == Pointwise::kCast)
    cases.push_back({"narrow", {{f32({3, 67})}}, {{"dtype", std::string("bf16")}}});
  return cases;
}

template <Pointwise kFunction>
Op make() {
  const PointwiseInfo& row = info(kFunction);
  Op op{.name = std::string(row.name),
        .category =
            kFunction == Pointwise::kCast ? OpCategory::kDataMovement : OpCategory::kElementwise,
        .kind = OpKind::kPointwise,
        .operands = {row.arity},
        .commutative = kFunction == Pointwise::kAdd || kFunction == Pointwise::kMul ||
                       kFunction == Pointwise::kMax || kFunction == Pointwise::kMin,
        .formula = fmt::format("{} FLOP an element", row.flops),
        .infer = infer<kFunction>,
        .work = work<kFunction>,
        .model_work = model_work<kFunction>,
        .gradient = is_differentiable(kFunction) ? gradient<kFunction> : nullptr,
        .reference = reference<kFunction>,
        .cases = cases<kFunction>};
  if (row.has_parameter) op.attrs.push_back({"parameter", 0.0});
  if (kFunction == Pointwise::kCast) op.attrs.push_back({"dtype", std::string()});
  return op;
}

template <size_t... kIndex>
std::vector<Op> make_all(std::index_sequence<kIndex...>) {
  return {make<static_cast<Pointwise>(kIndex)>()...};
}

}  // namespace

std::span<const Op> pointwise_ops() {
  static const std::vector<Op> ops =
      make_all(std::make_index_sequence<static_cast<size_t>(Pointwise::kCast) + 1>());
  return ops;
}

const Op& pointwise_op(Pointwise function) {
  return pointwise_ops()[static_cast<size_t>(function)];
}

Pointwise pointwise_function(const Op& op) {
  auto function = parse_pointwise(op.name);
  RIDGE_CHECK(op.kind == OpKind::kPointwise && function.has_value(), "'{}' is not pointwise",
              op.name);
  return *function;
}

double pointwise_parameter(const Attrs& attrs) {
  return attrs.has("parameter") ? attrs.real("parameter") : 0.0;
}

}  // namespace ridge::ops
