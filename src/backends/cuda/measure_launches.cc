// SPDX-License-Identifier: Apache-2.0
// Each figure from the smallest work that shows it, on sizes that no preset has.
#include "backends/cuda/measure_launches.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/kernels/ceilings.h"
#include "backends/cuda/kernels/pointwise.h"
#include "base/clock.h"
#include "perf/samples.h"

namespace ridge::backends::cuda {
namespace {

void measure_arithmetic(MeasuringStand& stand, perf::Ceilings& c) {
  constexpr int kIterations = 4096;
  const int multiprocessors = stand.device().facts().multiprocessors;
  float* sink = reinterpret_cast<float*>(stand.result());
  const double operations = static_cast<double>(chain_operations(multiprocessors, kIterations));
  c.fused_flops_per_ns = 2 * operations / stand.ns([&stand, sink, multiprocessors] {
    check(launch_multiply_adds(sink, multiprocessors, kIterations, stand.device().stream()),
          "measuring arithmetic");
  });
  c.arithmetic_flops_per_ns = c.fused_flops_per_ns / 2;  // one operation an instruction
  c.transcendentals_per_ns = operations / stand.ns([&stand, sink, multiprocessors] {
    check(launch_exponentials(sink, multiprocessors, kIterations, stand.device().stream()),
          "measuring arithmetic");
  });
}

// The product of heads, each element `x_step` after the last, with a row that all heads share, each
// result `y_step` after the last, in L2.
double strided_ns(MeasuringStand& stand, int64_t x_step, int64_t y_step) {
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
  call.a.data = stand.input();
  call.b.data = stand.input() + kTokens * kHeads * kColumns * x_step * 4;
  call.y.data = stand.result();
  return stand.ns([&stand, call] {
    check(launch_pointwise(call, stand.device().stream()), "measuring strided operands");
  });
}

// Elements for each nanosecond that a step of two adds.
void measure_strides(MeasuringStand& stand, perf::Ceilings& c) {
  constexpr double kElements = 1152 * 12 * 48;
  const double neighbours_ns = strided_ns(stand, 1, 1);
  auto rate = [&](double ns) { return kElements / std::max(ns - neighbours_ns, 1.0); };
  c.strided_reads_per_ns = rate(strided_ns(stand, 2, 1));
  c.strided_writes_per_ns = rate(strided_ns(stand, 1, 2));
}

// What the host takes for launches that it makes one by one, told as a step's are: different small
// kernels, each with its operands and ready early. One kernel over and over would stay in the
// host's nearest caches, and an empty one, told without operands, takes up to a quarter longer.
class ToldLaunches {
 public:
  explicit ToldLaunches(const Device& device)
      : device_(device), operands_(3 * kBytes, "operands of launches") {
    constexpr Pointwise kFunctions[] = {Pointwise::kMul,       Pointwise::kAdd, Pointwise::kScale,
                                        Pointwise::kAddScalar, Pointwise::kSub, Pointwise::kSquare};
    for (int i = 0; i < kLaunches; ++i) {
      PointwiseCall call;
      call.function = kFunctions[static_cast<size_t>(i) % std::size(kFunctions)];
      call.rank = 1, call.extents[0] = kElements;
      std::byte* at = operands_.data();
      for (PointwiseOperand* each : {&call.a, &call.b, &call.y}) {
        each->dtype = i / 6 % 2 == 0 ? DType::kF32 : DType::kBF16;
        each->strides[0] = 1;
        each->data = at;
        at += kBytes;
      }
      small_.push_back([&device, call] {
        check(launch_pointwise(call, device.stream()), "measuring a launch");
      });
    }
  }

  // The host's time for each of them, by its own clock: the device may take longer.
  double ns() const { return told_ns(small_) / kLaunches; }

  // How many times as long one of `products` takes, in the place of every fifth of them; the
  // `turn`th time other products than in the turns before, while there are any.
  double product_ratio(std::span<const Launch> products, int turn) const {
    std::vector<Launch> mixed = small_;
    for (size_t i = 0; i < kProducts; ++i)
      mixed[kEach * i] = products[(static_cast<size_t>(turn) * kProducts + i) % products.size()];
    const double small_ns = told_ns(small_);
    return 1 + (told_ns(mixed) - small_ns) / kProducts / (small_ns / kLaunches);
  }

 private:
  static constexpr int kLaunches = 200;  // fewer than the driver queues, 1024
  static constexpr size_t kEach = 5, kProducts = kLaunches / kEach;
  static constexpr int64_t kElements = 4096, kBytes = 4 * kElements;

  double told_ns(const std::vector<Launch>& launches) const {
    const double begin_ns = now_ns();
    for (const Launch& launch : launches) launch();
    const double ns = now_ns() - begin_ns;
    device_.synchronize();
    return ns;
  }

  const Device& device_;
  DeviceMemory operands_;
  std::vector<Launch> small_;
};

constexpr int kToldRounds = 16;  // 10 ms or so

// A chain of loads each of whose addresses is the last one's value, from memory.
Launch follow(MeasuringStand& stand, int trips) {
  return [&stand, trips] {
    check(launch_follow(stand.input(), MeasuringStand::kBytes, trips,
                        reinterpret_cast<uint32_t*>(stand.result()), stand.device().stream()),
          "measuring a trip");
  };
}

}  // namespace

void measure_launches(MeasuringStand& stand, perf::Ceilings& c) {
  measure_arithmetic(stand, c);
  measure_strides(stand, c);
  const Launch nothing = [&stand] {
    check(launch_nothing(stand.device().stream()), "measuring a launch");
  };
  constexpr int kStepKernels = 200, kTrips = 1000;
  c.launch_ns = stand.ns(nothing);
  c.turn_ns = stand.turn_ns(nothing, kStepKernels);
  c.stream_launch_ns = told_launch_ns(stand.device());
  c.round_ns = stand.ns(follow(stand, kTrips)) / kTrips;
  // Kernels that take longer than the host takes to tell the next one.
  const Launch longer = follow(stand, static_cast<int>(3 * c.stream_launch_ns / c.round_ns) + 1);
  c.stream_gap_ns = std::max(0.0, stand.stream_ns(longer) - stand.ns(longer));
}

double told_launch_ns(const Device& device) {
  const ToldLaunches told(device);
  std::vector<double> samples;
  for (int round = 0; round < kToldRounds; ++round) samples.push_back(told.ns());
  return perf::median(samples);
}

double told_product_ratio(const Device& device, std::span<const Launch> products) {
  const ToldLaunches told(device);
  std::vector<double> samples;
  for (int round = 0; round < kToldRounds; ++round)
    samples.push_back(told.product_ratio(products, round));
  return perf::median(samples);
}

}  // namespace ridge::backends::cuda
