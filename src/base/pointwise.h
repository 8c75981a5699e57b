// SPDX-License-Identifier: Apache-2.0
// The scalar functions shared by pointwise ops, generated kernels and their references: one table
// with arity, parameter and FLOP counts. Gradients are in ops/pointwise.cc, vectorized versions in
// the backends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ridge {
inline namespace base {

enum class Pointwise : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNeg,
  kScale,      // x * parameter
  kAddScalar,  // x + parameter
  kSquare,
  kExp,
  kLog,
  kTanh,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kSigmoid,
  kSin,
  kCos,
  kAbs,
  kRelu,  // max(x, 0)
  kMax,
  kMin,
  kStep,              // 1 where x > 0, else 0: the slope of relu
  kSilu,              // x * sigmoid(x)
  kGeluTanh,          // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kSiluBackward,      // (x, dy) -> dx
  kGeluTanhBackward,  // (x, dy) -> dx
  kCast,              // the element type changes, the value does not
};

struct PointwiseInfo {
  Pointwise function;
  std::string_view name;  // also the op's name
  int arity;
  bool has_parameter;
  int flops;            // per element; the table of docs/accounting.md
  int transcendentals;  // so many of the flops are exp, log, tanh, sqrt or a division
};

std::span<const PointwiseInfo> pointwise_table();
const PointwiseInfo& info(Pointwise function);
std::optional<Pointwise> parse_pointwise(std::string_view name);

// The function in double precision; b is ignored by functions of one operand.
double evaluate(Pointwise function, double a, double b, double parameter);

inline constexpr double kGeluTanhScale = 0.7978845608028654;  // sqrt(2 / pi)
inline constexpr double kGeluTanhCubic = 0.044715;

}  // namespace base
}  // namespace ridge
