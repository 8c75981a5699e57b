// SPDX-License-Identifier: Apache-2.0
// The demo precision: half the bytes, half the time, and what the missing bits cost.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/units.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

struct Format {
  const char* name;
  int exponent_bits, mantissa_bits;
  bool has_infinity = true;  // e4m3 uses its highest exponent for numbers too

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  double largest() const {
    const int top = (1 << exponent_bits) - 1 - bias() - (has_infinity ? 1 : 0);
    // In e4m3, the highest mantissa of the highest exponent is NaN.
    const double mantissa = 2 - std::ldexp(has_infinity ? 1 : 2, -mantissa_bits);
    return std::ldexp(mantissa, top);
  }
  double smallest() const { return std::ldexp(1, 1 - bias() - mantissa_bits); }
  double smallest_normal() const { return std::ldexp(1, 1 - bias()); }
  double step_at_one() const { return std::ldexp(1, -mantissa_bits); }
  // Rounds to the nearest number of the format, ties to even; beyond the largest it is infinite.
  double rounded(double x) const {
    if (x == 0) return 0;
    const int exponent = std::max(std::ilogb(x), 1 - bias());
    const double unit = std::ldexp(1, exponent - mantissa_bits),
                 y = unit * std::nearbyint(x / unit);
    return std::abs(y) > largest() ? std::copysign(INFINITY, x) : y;
  }
};

constexpr std::array kFormats = {Format{"fp32", 8, 23}, Format{"bf16", 8, 7}, Format{"fp16", 5, 10},
                                 Format{"e5m2", 5, 2}, Format{"e4m3", 4, 3, false}};

TrialGraph scaled(int64_t n, DType dtype) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  trial.graph.outputs = {ops::scale(b, b.input("x", {dtype, {n}}), 0.5)};
  return trial;
}

void run(Fixture& fixture) {
  for (int64_t n : {1 << 16, 1 << 20, 1 << 24})
    for (DType dtype : {DType::kF32, DType::kBF16})
      fixture.add(dtype == DType::kF32 ? "fp32" : "bf16", {{"n", n}}, scaled(n, dtype)).dtype =
          name(dtype);
  for (const Format& each : kFormats)
    fixture.record.notes.push_back(fmt::format(
        "{}: bits 1 sign, {} exponent, {} mantissa; up to {:.3g}, down to {:.3g} ({:.3g} with all bits of the mantissa), "
        "steps of {:.3g} at 1; 1e-8 becomes {:.3g}, 1 + 1e-3 becomes {:.6g}.",
        each.name, each.exponent_bits, each.mantissa_bits, each.largest(), each.smallest(),
        each.smallest_normal(), each.step_at_one(), each.rounded(1e-8), each.rounded(1 + 1e-3)));
  const record::BenchPoint *wide = fixture.find("fp32", 1 << 24),
                           *narrow = fixture.find("bf16", 1 << 24);
  if (wide == nullptr || narrow == nullptr) return;
  fixture.record.prediction =
      fmt::format("16 million elements move {} in fp32 and {} in bf16, {:.2f} times the time.",
                  format_bytes(wide->planned_bytes), format_bytes(narrow->planned_bytes),
                  times_predicted(wide, narrow));
  fixture.record.finding = fmt::format("fp32 takes {} the time of bf16.", times_text(wide, narrow));
}

}  // namespace

Demo precision_demo() {
  return {
      "precision",
      "A memory-bound kernel takes half the time in 16 bits; bf16 keeps the range of fp32, fp16 its precision.",
      {"Time follows bytes where memory is the bound, whatever the arithmetic unit could do.",
       "1e-8 is a number in fp32 and bf16 and zero in fp16, e4m3 and e5m2: hence the scaling of losses in fp16.",
       "bf16 has 8 bits of precision: 1 + 1e-3 is 1, so sums and weights are kept in fp32.",
       "e4m3 carries weights and activations, e5m2 the wider range of gradients; both need scales."},
      "n: elements",
      run};
}

}  // namespace ridge::courses
