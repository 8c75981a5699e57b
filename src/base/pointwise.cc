// SPDX-License-Identifier: Apache-2.0
// The table of pointwise functions and their values in double precision.
#include "base/pointwise.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace ridge {
inline namespace base {
namespace {

// How the FLOPs are counted. silu: negate, exp, add, divide. gelu_tanh: cube, scale, add, scale,
// tanh, add, halve, multiply. silu_backward: sigmoid (4) and dy * s * (1 + x * (1 - s)) (5).
// gelu_tanh_backward: tanh with its argument (5), 1 - t^2 (2), the slope (4), the two halves and
// their sum (6), dy (1).
constexpr std::array kTable = {
    PointwiseInfo{Pointwise::kAdd, "add", 2, false, 1, 0},
    PointwiseInfo{Pointwise::kSub, "sub", 2, false, 1, 0},
    PointwiseInfo{Pointwise::kMul, "mul", 2, false, 1, 0},
    PointwiseInfo{Pointwise::kDiv, "div", 2, false, 1, 1},
    PointwiseInfo{Pointwise::kNeg, "neg", 1, false, 1, 0},
    PointwiseInfo{Pointwise::kScale, "scale", 1, true, 1, 0},
    PointwiseInfo{Pointwise::kAddScalar, "add_scalar", 1, true, 1, 0},
    PointwiseInfo{Pointwise::kSquare, "square", 1, false, 1, 0},
    PointwiseInfo{Pointwise::kExp, "exp", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kLog, "log", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kTanh, "tanh", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kSqrt, "sqrt", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kRsqrt, "rsqrt", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kReciprocal, "reciprocal", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kSigmoid, "sigmoid", 1, false, 4, 2},
    PointwiseInfo{Pointwise::kSin, "sin", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kCos, "cos", 1, false, 1, 1},
    PointwiseInfo{Pointwise::kAbs, "abs", 1, false, 1, 0},
    PointwiseInfo{Pointwise::kRelu, "relu", 1, false, 1, 0},
    PointwiseInfo{Pointwise::kMax, "max", 2, false, 1, 0},
    PointwiseInfo{Pointwise::kMin, "min", 2, false, 1, 0},
    PointwiseInfo{Pointwise::kStep, "step", 1, false, 1, 0},
    PointwiseInfo{Pointwise::kSilu, "silu", 1, false, 4, 2},
    PointwiseInfo{Pointwise::kGeluTanh, "gelu_tanh", 1, false, 8, 1},
    PointwiseInfo{Pointwise::kSiluBackward, "silu_backward", 2, false, 9, 2},
    PointwiseInfo{Pointwise::kGeluTanhBackward, "gelu_tanh_backward", 2, false, 18, 1},
    PointwiseInfo{Pointwise::kCast, "cast", 1, false, 0, 0},
};

// NaN, which compares with nothing, stays NaN.
double larger(double a, double b) { return a > b || a != a ? a : b; }
double smaller(double a, double b) { return a < b || a != a ? a : b; }

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double silu_backward(double x, double dy) {
  double s = sigmoid(x);
  return dy * s * (1.0 + x * (1.0 - s));
}

double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(kGeluTanhScale * (x + kGeluTanhCubic * x * x * x)));
}

double gelu_tanh_backward(double x, double dy) {
  double t = std::tanh(kGeluTanhScale * (x + kGeluTanhCubic * x * x * x));
  double slope = kGeluTanhScale * (1.0 + 3.0 * kGeluTanhCubic * x * x);
  return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope);
}

}  // namespace

std::span<const PointwiseInfo> pointwise_table() { return kTable; }

const PointwiseInfo& info(Pointwise function) {
  const PointwiseInfo& row = kTable[static_cast<size_t>(function)];
  RIDGE_CHECK(row.function == function, "the pointwise table is out of order at {}", row.name);
  return row;
}

std::optional<Pointwise> parse_pointwise(std::string_view name) {
  for (const PointwiseInfo& row : kTable)
    if (row.name == name) return row.function;
  return std::nullopt;
}

double evaluate(Pointwise function, double a, double b, double parameter) {
  switch (function) {
    case Pointwise::kAdd:
      return a + b;
    case Pointwise::kSub:
      return a - b;
    case Pointwise::kMul:
      return a * b;
    case Pointwise::kDiv:
      return a / b;
    case Pointwise::kNeg:
      return -a;
    case Pointwise::kScale:
      return a * parameter;
    case Pointwise::kAddScalar:
      return a + parameter;
    case Pointwise::kSquare:
      return a * a;
    case Pointwise::kExp:
      return std::exp(a);
    case Pointwise::kLog:
      return std::log(a);
    case Pointwise::kTanh:
      return std::tanh(a);
    case Pointwise::kSqrt:
      return std::sqrt(a);
    case Pointwise::kRsqrt:
      return 1.0 / std::sqrt(a);
    case Pointwise::kReciprocal:
      return 1.0 / a;
    case Pointwise::kSigmoid:
      return sigmoid(a);
    case Pointwise::kSin:
      return std::sin(a);
    case Pointwise::kCos:
      return std::cos(a);
    case Pointwise::kAbs:
      return std::fabs(a);
    case Pointwise::kRelu:
      return larger(a, 0);
    case Pointwise::kMax:
      return larger(a, b);
    case Pointwise::kMin:
      return smaller(a, b);
    case Pointwise::kStep:
      return a > 0 ? 1 : 0;
    case Pointwise::kSilu:
      return a * sigmoid(a);
    case Pointwise::kGeluTanh:
      return gelu_tanh(a);
    case Pointwise::kSiluBackward:
      return silu_backward(a, b);
    case Pointwise::kGeluTanhBackward:
      return gelu_tanh_backward(a, b);
    case Pointwise::kCast:
      return a;
  }
  return a;
}

}  // namespace base
}  // namespace ridge
