// SPDX-License-Identifier: Apache-2.0
// Multiplies registers out as polynomials of x and of a tanh, and compares their coefficients.
#include "backends/bind/pointwise_formulas.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ridge::backends {
namespace {

// The coefficients by the powers of x and of t. Constants of formulas are written in fp32.
using Polynomial = std::map<std::pair<int, int>, double>;
constexpr int kMostDegree = 3;
constexpr double kTolerance = 1e-6;

bool equals(const Polynomial& p, const Polynomial& wanted) {
  return p.size() == wanted.size() && std::ranges::all_of(wanted, [&](const auto& term) {
           const auto found = p.find(term.first);
           return found != p.end() &&
                  std::abs(found->second - term.second) <= kTolerance * std::abs(term.second);
         });
}

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial p;
  for (const auto& [i, u] : a)
    for (const auto& [j, v] : b) {
      const std::pair powers(i.first + j.first, i.second + j.second);
      if (powers.first > kMostDegree || powers.second > 1) return std::nullopt;
      p[powers] += u * v;
    }
  return p;
}

Polynomial sum(Polynomial a, const Polynomial& b, double factor) {
  for (const auto& [powers, v] : b) a[powers] += factor * v;
  return a;
}

Polynomial constant(double value) { return {{{0, 0}, value}}; }

// The result of an instruction; empty if it is no polynomial of the operands.
std::optional<Polynomial> result(const PointwiseInstruction& in,
                                 const std::optional<Polynomial>& a,
                                 const std::optional<Polynomial>& b) {
  if (!a || !b || in.stored_as != DType::kF32) return std::nullopt;
  const double parameter = static_cast<double>(in.parameter);
  switch (in.function) {
    case Pointwise::kAdd:
      return sum(*a, *b, 1);
    case Pointwise::kSub:
      return sum(*a, *b, -1);
    case Pointwise::kMul:
      return product(*a, *b);
    case Pointwise::kSquare:
      return product(*a, *a);
    case Pointwise::kNeg:
      return product(*a, constant(-1));
    case Pointwise::kScale:
      return product(*a, constant(parameter));
    case Pointwise::kAddScalar:
      return sum(*a, constant(parameter), 1);
    default:
      return std::nullopt;
  }
}

// Puts gelu_tanh(x) where the instructions after the tanh compute it. x is a register before it.
bool replace(PointwiseProgram& program, size_t tanh, int x) {
  const Polynomial argument{{{1, 0}, kGeluTanhScale}, {{3, 0}, kGeluTanhScale * kGeluTanhCubic}},
      gelu{{{1, 0}, 0.5}, {{1, 1}, 0.5}};
  std::vector<std::optional<Polynomial>> registers(static_cast<size_t>(program.registers));
  registers[static_cast<size_t>(x)] = Polynomial{{{1, 0}, 1.0}};
  bool is_found = false;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    PointwiseInstruction& in = program.instructions[i];
    const auto &a = registers[static_cast<size_t>(in.a)], &b = registers[static_cast<size_t>(in.b)];
    if (in.target == x) continue;
    if (i == tanh) {
      if (!a || !equals(*a, argument) || in.stored_as != DType::kF32) return false;
      registers[static_cast<size_t>(in.target)] = Polynomial{{{0, 1}, 1.0}};
      continue;
    }
    PointwiseInstruction unrounded = in;
    unrounded.stored_as = DType::kF32;
    if (const auto whole = result(unrounded, a, b); i > tanh && whole && equals(*whole, gelu)) {
      in = {Pointwise::kGeluTanh, in.target, x, x, 0.0f, in.stored_as};
      is_found = true;
      continue;
    }
    registers[static_cast<size_t>(in.target)] = result(in, a, b);
  }
  return is_found;
}

void remove_unread(PointwiseProgram& program) {
  std::vector<bool> is_read(static_cast<size_t>(program.registers), false);
  for (const int output : program.outputs) is_read[static_cast<size_t>(output)] = true;
  std::vector<PointwiseInstruction> kept;
  for (auto in = program.instructions.rbegin(); in != program.instructions.rend(); ++in) {
    if (!is_read[static_cast<size_t>(in->target)]) continue;
    is_read[static_cast<size_t>(in->a)] = is_read[static_cast<size_t>(in->b)] = true;
    kept.push_back(*in);
  }
  program.instructions.assign(kept.rbegin(), kept.rend());
}

}  // namespace

PointwiseProgram with_gelu_tanh(const PointwiseProgram& program, int inputs) {
  PointwiseProgram made = program;
  for (size_t tanh = 0; tanh < program.instructions.size(); ++tanh) {
    if (program.instructions[tanh].function != Pointwise::kTanh) continue;
    bool is_done = false;
    for (int x = 0; x < inputs && !is_done; ++x) is_done = replace(made, tanh, x);
    for (size_t i = 0; i < tanh && !is_done; ++i)
      is_done = replace(made, tanh, program.instructions[i].target);
  }
  remove_unread(made);
  return made;
}

}  // namespace ridge::backends
