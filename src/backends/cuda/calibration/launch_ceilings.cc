// SPDX-License-Identifier: Apache-2.0
// Measures each figure with the smallest work that shows it, on sizes that no preset has.
#include "backends/cuda/calibration/launch_ceilings.h"

#include <algorithm>

#include "backends/cuda/device_error.h"
#include "backends/cuda/kernels/pointwise/pointwise.h"
#include "backends/cuda/kernels/probes/ceilings.h"

namespace ridge::backends::cuda {
namespace {

void measure_arithmetic(MeasuringFixture& fixture, cost::Ceilings& c) {
  constexpr int kIterations = 4096;
  const int multiprocessors = fixture.device().facts().multiprocessors;
  float* sink = reinterpret_cast<float*>(fixture.result());
  const double operations = static_cast<double>(chain_operations(multiprocessors, kIterations));
  c.fused_flops_per_ns = 2 * operations / fixture.ns([&fixture, sink, multiprocessors] {
    check(launch_multiply_adds(sink, multiprocessors, kIterations, fixture.device().stream()),
          "measuring arithmetic");
  });
  c.arithmetic_flops_per_ns = c.fused_flops_per_ns / 2;  // one operation per instruction
  c.transcendentals_per_ns = operations / fixture.ns([&fixture, sink, multiprocessors] {
    check(launch_exponentials(sink, multiprocessors, kIterations, fixture.device().stream()),
          "measuring arithmetic");
  });
}

// The time to multiply heads by a row that all heads share, in L2. Elements of the heads are
// `x_step` apart, results `y_step` apart.
double strided_ns(MeasuringFixture& fixture, int64_t x_step, int64_t y_step) {
  constexpr int64_t kTokens = 1152, kHeads = 12, kColumns = 48;
  PointwiseCall call;
  call.function = Pointwise::kMul;
  call.rank = 3;
  const int64_t extents[] = {kTokens, kHeads, kColumns}, shared[] = {kColumns, 0, 1};
  std::copy_n(extents, call.rank, call.extents);
  std::copy_n(shared, call.rank, call.b.strides);
  for (auto [operand, step] : {std::pair{&call.a, x_step}, std::pair{&call.y, y_step}}) {
    const int64_t strides[] = {kHeads * kColumns * step, kColumns * step, step};
    std::copy_n(strides, call.rank, operand->strides);
  }
  call.a.data = fixture.input();
  call.b.data = fixture.input() + kTokens * kHeads * kColumns * x_step * 4;
  call.y.data = fixture.result();
  return fixture.ns([&fixture, call] {
    check(launch_pointwise(call, fixture.device().stream()), "measuring strided operands");
  });
}

// Elements per nanosecond of the extra time that a stride of 2 takes.
void measure_strides(MeasuringFixture& fixture, cost::Ceilings& c) {
  constexpr double kElements = 1152 * 12 * 48;
  const double neighbours_ns = strided_ns(fixture, 1, 1);
  auto rate = [&](double ns) { return kElements / std::max(ns - neighbours_ns, 1.0); };
  c.strided_reads_per_ns = rate(strided_ns(fixture, 2, 1));
  c.strided_writes_per_ns = rate(strided_ns(fixture, 1, 2));
}

// A chain of dependent loads from memory: each address depends on the previous value.
Launch follow(MeasuringFixture& fixture, int trips) {
  return [&fixture, trips] {
    check(launch_follow(fixture.input(), MeasuringFixture::kBytes, trips,
                        reinterpret_cast<uint32_t*>(fixture.result()), fixture.device().stream()),
          "measuring a trip");
  };
}

}  // namespace

void measure_launches(MeasuringFixture& fixture, cost::Ceilings& c) {
  measure_arithmetic(fixture, c);
  measure_strides(fixture, c);
  const Launch nothing = [&fixture] {
    check(launch_nothing(fixture.device().stream()), "measuring a launch");
  };
  constexpr int kStepKernels = 200, kTrips = 1000;
  c.launch_ns = fixture.ns(nothing);
  c.empty_step_ns = fixture.empty_step_ns(nothing, kStepKernels);
  c.round_ns = fixture.ns(follow(fixture, kTrips)) / kTrips;
}

}  // namespace ridge::backends::cuda
