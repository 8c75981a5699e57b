// SPDX-License-Identifier: Apache-2.0
// Measures a few hundred launches with the host's clock: the device may take longer.
#include "backends/cuda/calibration/mixed_launches.h"

#include <array>
#include <iterator>

#include "backends/cuda/device_error.h"
#include "backends/cuda/generic_product.h"
#include "backends/cuda/kernels/pointwise/pointwise.h"
#include "base/clock.h"
#include "base/samples.h"

namespace ridge::backends::cuda {
namespace {

using cost::ProductExtents;
using cost::ProductForm;

constexpr size_t kLaunches = 200;  // fewer than the driver queues, 1024
constexpr size_t kEach = 5, kProducts = kLaunches / kEach;
constexpr int kRounds = 16;

// A subset of the extents that rates of products are measured on.
constexpr auto kExtents = std::to_array<ProductExtents>(
    {{1, 384, 384, 384}, {1, 1152, 640, 640}, {1, 1152, 640, 1536}, {1, 640, 1536, 1152}});
// For some fp32 products of other forms the library launches two kernels, which split the sums.
constexpr ProductForm kForm = ProductForm::kTN;

constexpr int64_t kSmallElements = 4096, kSmallBytes = 4 * kSmallElements;
constexpr int64_t kMatrixBytes = int64_t{1152} * 1536 * 4;  // no matrix of kExtents is larger

std::vector<Launch> small_kernels(const Device& device, std::byte* memory) {
  constexpr Pointwise kFunctions[] = {Pointwise::kMul,       Pointwise::kAdd, Pointwise::kScale,
                                      Pointwise::kAddScalar, Pointwise::kSub, Pointwise::kSquare};
  constexpr size_t kCount = std::size(kFunctions);
  std::vector<Launch> launches;
  for (size_t i = 0; i < kLaunches; ++i) {
    PointwiseCall call;
    call.function = kFunctions[i % kCount];
    call.rank = 1, call.extents[0] = kSmallElements;
    std::byte* at = memory;
    for (PointwiseOperand* each : {&call.a, &call.b, &call.y}) {
      each->dtype = i / kCount % 2 == 0 ? DType::kF32 : DType::kBF16;
      each->strides[0] = 1;
      each->data = at;
      at += kSmallBytes;
    }
    launches.push_back(
        [&device, call] { check(launch_pointwise(call, device.stream()), "measuring a launch"); });
  }
  return launches;
}

double call_ns(const cost::Ceilings& ceilings, DType dtype) {
  const double ns = ceilings.product(dtype).stream_call_ns;
  return ns > 0 ? ns : ceilings.stream_launch_ns;
}

}  // namespace

MixedLaunches::MixedLaunches(const Device& device, bool tf32)
    : device_(device),
      tf32_(tf32),
      memory_(3 * kMatrixBytes + kGemmWorkspaceBytes, "operands of launches"),
      small_(small_kernels(device, memory_.data())) {
  const std::vector<Launch> f32 = products(DType::kF32, false),
                            bf16 = products(DType::kBF16, false);
  std::vector<Launch> both;
  for (size_t i = 0; i < f32.size(); ++i) {
    both.push_back(f32[i]);
    both.push_back(bf16[i]);
  }
  with_both_ = among_small(both);
  with_[{DType::kF32, false}] = among_small(f32), with_[{DType::kBF16, false}] = among_small(bf16);
  for (const DType dtype : {DType::kF32, DType::kBF16})
    with_[{dtype, true}] = among_small(products(dtype, true));
  enqueue_ns(with_both_);  // loads now what CUDA loads lazily
}

std::vector<Launch> MixedLaunches::products(DType dtype, bool is_row) const {
  std::byte* at = memory_.data();
  const ProductMemory memory{at, at + kMatrixBytes, at + 2 * kMatrixBytes, at + 3 * kMatrixBytes};
  std::vector<Launch> launches;
  for (ProductExtents extents : kExtents) {
    if (is_row) extents.m = 1;
    launches.push_back(
        generic_product(device_, generic_shape(extents, kForm, dtype), {tf32_, false}, memory, 1)
            .front());
  }
  return launches;
}

std::vector<Launch> MixedLaunches::among_small(const std::vector<Launch>& products) const {
  std::vector<Launch> mixed = small_;
  for (size_t i = 0; i < kProducts; ++i) mixed[kEach * i] = products[i % products.size()];
  return mixed;
}

double MixedLaunches::enqueue_ns(const std::vector<Launch>& launches) const {
  const double begin_ns = now_ns();
  for (const Launch& launch : launches) launch();
  const double ns = now_ns() - begin_ns;
  device_.synchronize();
  return ns;
}

double MixedLaunches::launch_ns() const {
  std::vector<double> samples;
  for (int round = 0; round < kRounds; ++round) samples.push_back(enqueue_ns(small_) / kLaunches);
  return median(samples);
}

double MixedLaunches::call_ratio(DType dtype, bool is_row) const {
  const std::vector<Launch>& mixed = with_.at({dtype, is_row});
  std::vector<double> samples;
  for (int round = 0; round < kRounds; ++round) {
    const double small_ns = enqueue_ns(small_);
    samples.push_back(1 + (enqueue_ns(mixed) - small_ns) / kProducts / (small_ns / kLaunches));
  }
  return median(samples);
}

EnqueueProbe MixedLaunches::probe() const {
  return {[this] {
            for (const Launch& launch : with_both_) launch();
          },
          [](const cost::Ceilings& ceilings) {
            const double gemms_ns =
                kProducts * (call_ns(ceilings, DType::kF32) + call_ns(ceilings, DType::kBF16)) / 2;
            return (kLaunches - kProducts) * ceilings.stream_launch_ns + gemms_ns;
          }};
}

}  // namespace ridge::backends::cuda
