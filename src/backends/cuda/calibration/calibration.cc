// SPDX-License-Identifier: Apache-2.0
// Measures generic work, repeated inside a CUDA graph so that the host's time does not count, and
// the host's time for launches outside a graph.
#include "backends/cuda/calibration/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "backends/cuda/calibration/launch_ceilings.h"
#include "backends/cuda/calibration/measuring_fixture.h"
#include "backends/cuda/calibration/mixed_launches.h"
#include "backends/cuda/cublaslt.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/generic_product.h"
#include "backends/cuda/kernels/flash_attention/flash_attention.h"
#include "backends/cuda/kernels/probes/ceilings.h"
#include "base/clock.h"
#include "base/samples.h"

namespace ridge::backends::cuda {
namespace {

using cost::ProductExtents;
using cost::ProductForm;

// Multiples of the common kernels' tiles, as models' extents are, but no product of a preset:
// square, flat and deep products, few rows, and batches.
constexpr auto kExtents = std::to_array<ProductExtents>(
    {{1, 96, 96, 96},        {1, 384, 384, 384},    {1, 768, 768, 768},    {1, 1536, 1536, 1536},
     {1, 3072, 3072, 3072},  {1, 6144, 6144, 6144}, {1, 1152, 640, 640},   {1, 1152, 1536, 640},
     {1, 1152, 640, 1536},   {1, 640, 1536, 1152},  {1, 1152, 640, 3072},  {1, 1152, 3072, 640},
     {1, 3072, 640, 1152},   {1, 768, 640, 4608},   {1, 1152, 2304, 1152}, {1, 6144, 1280, 1280},
     {1, 6144, 3072, 1280},  {1, 6144, 1280, 3072}, {1, 1280, 3072, 6144}, {1, 6144, 12288, 1280},
     {1, 12288, 1280, 6144}, {1, 12, 1536, 1536},   {1, 1152, 896, 640},   {1, 896, 640, 1152},
     {48, 144, 144, 48},     {48, 144, 48, 144},    {96, 480, 480, 48},    {96, 480, 48, 480},
     {1, 512, 9216, 3584},   {1, 512, 3584, 9216},  {1, 128, 9216, 3584},  {1, 128, 3584, 9216},
     {1, 32, 9216, 3584},    {1, 32, 704, 1792}});
constexpr std::array kForms = {ProductForm::kNN, ProductForm::kNT, ProductForm::kTN,
                               ProductForm::kTT};

using LaunchSweep = cudaError_t(const MemorySweep&, cudaStream_t);

// Bytes per nanosecond over a footprint that is swept so often that the launch time is negligible.
double sweep_rate(MeasuringFixture& fixture, LaunchSweep* launch_sweep, int64_t bytes) {
  constexpr int64_t kSweptBytes = int64_t{4} << 30;
  MemorySweep sweep{fixture.input(), fixture.result(), bytes,
                    static_cast<int>(std::clamp<int64_t>(kSweptBytes / bytes, 1, 512))};
  double ns = fixture.ns([&fixture, launch_sweep, sweep] {
    check(launch_sweep(sweep, fixture.device().stream()), "sweeping memory");
  });
  return static_cast<double>(sweep.bytes) * sweep.passes / ns;
}

void measure_memory(MeasuringFixture& fixture, cost::Ceilings& c) {
  for (int64_t mib : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048}) {
    int64_t bytes = mib << 20;
    c.bandwidth.push_back({bytes, sweep_rate(fixture, launch_sweep_read, bytes),
                           sweep_rate(fixture, launch_sweep_copy, bytes)});
  }
  const DeviceFacts& facts = fixture.device().facts();
  auto at_half = [&](int64_t capacity) {
    const cost::BandwidthPoint* best = &c.bandwidth.front();
    for (const cost::BandwidthPoint& point : c.bandwidth)
      if (point.footprint_bytes <= capacity / 2) best = &point;
    return *best;
  };
  cost::BandwidthPoint l2 = at_half(facts.l2_bytes), memory = c.bandwidth.back();
  c.levels.push_back({"L2", facts.l2_bytes, l2.read_bytes_per_ns, l2.copy_bytes_per_ns, 0});
  // Two transfers per clock.
  c.levels.push_back({"memory", facts.memory_bytes, memory.read_bytes_per_ns,
                      memory.copy_bytes_per_ns,
                      2 * facts.memory_clock_ghz * facts.memory_bus_bits / 8});
}

double theoretical_flops_per_ns(const DeviceFacts& facts, DType dtype, Fp32Products fp32) {
  constexpr double kSplitProducts = 6;  // bf16 products per fp32 product
  const bool is_split = dtype == DType::kF32 && fp32.is_native && !fp32.tf32;
  const double per_clock = is_split ? flops_per_clock(facts, DType::kBF16, false) / kSplitProducts
                                    : flops_per_clock(facts, dtype, fp32.tf32);
  return facts.multiprocessors * facts.clock_ghz * per_clock;
}

// The fastest of cuBLASLt's first proposals, as a tuned run takes it.
constexpr int kCandidates = 4;

double product_ns(MeasuringFixture& fixture,
                  DType dtype,
                  Fp32Products fp32,
                  const ProductExtents& e,
                  ProductForm form) {
  const ProductMemory memory{
      fixture.input(), fixture.input() + round_up(storage_bytes(dtype, e.batch * e.m * e.k), 256),
      fixture.result(), fixture.workspace()};
  double ns = std::numeric_limits<double>::infinity();
  for (const Launch& launch : generic_product(fixture.device(), generic_shape(e, form, dtype), fp32,
                                              memory, fp32.is_native ? 1 : kCandidates))
    ns = std::min(ns, fixture.ns(launch));
  return ns;
}

// Bytes per nanosecond of a weight that no cache holds, in a product of one row.
double row_rate(MeasuringFixture& fixture, DType dtype, Fp32Products fp32) {
  constexpr ProductExtents kRow{1, 1, 49152, 6144};
  return static_cast<double>(storage_bytes(dtype, kRow.n * kRow.k)) /
         product_ns(fixture, dtype, fp32, kRow, ProductForm::kNT);
}

void measure_products(MeasuringFixture& fixture,
                      DType dtype,
                      Fp32Products fp32,
                      cost::Ceilings& c) {
  fixture.fill(dtype);
  cost::ProductRates rates;
  rates.dtype = dtype;
  rates.is_native = fp32.is_native;
  for (const ProductExtents& e : kExtents)
    for (ProductForm form : kForms) {
      const double ns = product_ns(fixture, dtype, fp32, e, form);
      rates.samples.push_back({e, form, ns});
      rates.peak_flops_per_ns = std::max(rates.peak_flops_per_ns, e.flops() / ns);
    }
  rates.theoretical_flops_per_ns = theoretical_flops_per_ns(fixture.device().facts(), dtype, fp32);
  if (!fp32.is_native) rates.row_bytes_per_ns = row_rate(fixture, dtype, fp32);
  c.products.push_back(std::move(rates));
}

struct AttentionTime {
  double forward_ns, backward_ns, scores;
};

// Causal self-attention of 8 sequences with 12 heads, in one merged [N, 3 H E] buffer.
AttentionTime attention_time(MeasuringFixture& fixture,
                             DType dtype,
                             bool tf32,
                             int64_t sequence,
                             int64_t head_size) {
  AttentionExtents e{8, sequence, 12, 12, head_size, true, 0, 0.1f, tf32};
  int64_t width = e.heads * head_size, tokens = e.batch * e.sequence;
  int64_t tensor = round_up(storage_bytes(dtype, tokens * width), 256);
  auto input = [&](int i) {
    return AttentionInput{fixture.input() + i * tensor, width, head_size};
  };
  auto output = [&](int i) {
    return AttentionOutput{fixture.result() + i * tensor, width, head_size};
  };
  float* lse = reinterpret_cast<float*>(fixture.result() + 8 * tensor);
  std::byte* workspace = fixture.result() + 8 * tensor + round_up(tokens * e.heads * 4, 256);
  constexpr int64_t kSpillBytes = int64_t{256} << 20;
  int64_t forward_bytes = flash_attention_forward_workspace_bytes(e, dtype);
  int64_t backward_bytes =
      flash_attention_backward_workspace_bytes(e, dtype, AttentionGradient::kSpill, kSpillBytes);
  AttentionTime time{};
  time.forward_ns = fixture.ns([&, lse, workspace] {
    check(launch_flash_attention_forward(e, dtype, input(0), input(1), input(2), output(0), lse,
                                         workspace, forward_bytes, fixture.device().stream()),
          "measuring attention");
  });
  AttentionBackward b;
  b.q = input(0), b.k = input(1), b.v = input(2), b.o = {fixture.result(), width, head_size},
  b.d_o = input(3);
  b.lse = lse;
  b.dq = output(1), b.dk = output(2), b.dv = output(3);
  time.backward_ns = fixture.ns([&, workspace] {
    check(launch_flash_attention_backward(e, dtype, b, AttentionGradient::kSpill, workspace,
                                          backward_bytes, fixture.device().stream()),
          "measuring attention");
  });
  time.scores = static_cast<double>(flash_attention_forward_pairs(e, dtype));
  return time;
}

// Solves time = flops / rate + scores / rate for both rates, from two head sizes.
void split_rates(double ns_small,
                 double ns_large,
                 double flops_small,
                 double flops_large,
                 double scores,
                 double& flops_rate,
                 double& scores_rate) {
  double per_flop =
      std::max((ns_large - ns_small) / (flops_large - flops_small), 0.2 * ns_large / flops_large);
  double rest = std::max(ns_large - per_flop * flops_large, 0.05 * ns_large);
  flops_rate = 1 / per_flop;
  scores_rate = scores / rest;
}

void measure_attention(MeasuringFixture& fixture, DType dtype, bool tf32, cost::Ceilings& c) {
  constexpr int64_t small = 64, large = 128, sequence = 960, short_sequence = 96;
  AttentionTime a = attention_time(fixture, dtype, tf32, sequence, small),
                b = attention_time(fixture, dtype, tf32, sequence, large),
                call = attention_time(fixture, dtype, tf32, short_sequence, small);
  cost::AttentionRates rates;
  rates.dtype = dtype;
  auto flops = [&](double scores, int64_t head_size, int each) {
    return each * static_cast<double>(head_size) * scores;
  };
  split_rates(a.forward_ns, b.forward_ns, flops(a.scores, small, 4), flops(b.scores, large, 4),
              b.scores, rates.forward_flops_per_ns, rates.forward_scores_per_ns);
  split_rates(a.backward_ns, b.backward_ns, flops(a.scores, small, 10), flops(b.scores, large, 10),
              b.scores, rates.backward_flops_per_ns, rates.backward_scores_per_ns);
  auto beyond = [&](double ns, double flops_rate, double scores_rate, int each) {
    return std::max(ns - flops(call.scores, small, each) / flops_rate - call.scores / scores_rate,
                    c.launch_ns);
  };
  rates.forward_call_ns =
      beyond(call.forward_ns, rates.forward_flops_per_ns, rates.forward_scores_per_ns, 4);
  rates.backward_call_ns =
      beyond(call.backward_ns, rates.backward_flops_per_ns, rates.backward_scores_per_ns, 10);
  c.attention.push_back(rates);
}

// The host's time for launches: the median of samples taken at different moments, because other
// programs slow it for seconds at a time. At the same moments, the share that they take of the GPU.
class DisturbedTimes {
 public:
  DisturbedTimes(MeasuringFixture& fixture, bool tf32)
      : fixture_(fixture), launches_(fixture.device(), tf32) {}

  void take() {
    others_share_ = std::max(others_share_, fixture_.others_share());
    launch_ns_.push_back(launches_.launch_ns());
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const bool is_row : {false, true})
        ratios_[{dtype, is_row}].push_back(launches_.call_ratio(dtype, is_row));
  }
  double others_share() const { return others_share_; }  // the largest
  double launch_ns() const { return median(launch_ns_); }
  // A call for a product, of one row or of many.
  double call_ns(DType dtype, bool is_row) const {
    return median(ratios_.at({dtype == DType::kF32 ? dtype : DType::kBF16, is_row})) * launch_ns();
  }

 private:
  MeasuringFixture& fixture_;
  MixedLaunches launches_;
  double others_share_ = 0;
  std::vector<double> launch_ns_;
  std::map<std::pair<DType, bool>, std::vector<double>> ratios_;  // as call_ns has them
};

cost::Machine machine_of(const DeviceFacts& facts, bool tf32) {
  auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  cost::Machine machine;
  machine.device = facts.name;
  machine.isa = facts.architecture() + (tf32 ? ", fp32 products in TF32" : "");
  machine.cores = facts.multiprocessors;
  machine.threads = 1;
  machine.libraries = {"CUDA " + version(facts.runtime_version),
                       "driver for CUDA " + version(facts.driver_version),
                       fmt::format("cuBLASLt {}", cublaslt().version())};
  machine.memory_bytes = facts.memory_bytes;
  machine.clock_ghz = facts.clock_ghz;
  machine.clock_source = "the highest that the driver states";
  return machine;
}

}  // namespace

cost::Machine this_machine(bool tf32) { return machine_of(Device().facts(), tf32); }

namespace {

// Each probe measures one part by the device's clock. The order matters: later probes use the
// results of earlier ones.
class CudaCalibration final : public Calibration {
 public:
  explicit CudaCalibration(bool tf32) : tf32_(tf32), times_(fixture_, tf32) {
    c_.machine = machine_of(fixture_.device().facts(), tf32);
    add("arithmetic and launches", [this] {
      times_.take();
      measure_launches(fixture_, c_);
    });
    add("memory", [this] {
      measure_memory(fixture_, c_);
      times_.take();
    });
    add(tf32 ? "GEMMs in TF32" : "GEMMs in fp32", [this] {
      measure_products(fixture_, DType::kF32, {tf32_, false}, c_);
      measure_attention(fixture_, DType::kF32, tf32_, c_);
      times_.take();
    });
    if (constexpr ProductExtents any{1, 768, 768, 768};
        suits_split_bf16(generic_shape(any, ProductForm::kNN, DType::kF32), tf32, 256))
      add("native GEMMs", [this] { measure_products(fixture_, DType::kF32, {tf32_, true}, c_); });
    add("GEMMs in bf16", [this] {
      measure_products(fixture_, DType::kBF16, {}, c_);
      measure_attention(fixture_, DType::kBF16, false, c_);
      times_.take();
    });
  }

  ProbeList& probes() override { return probes_; }

  cost::Ceilings ceilings() override {
    c_.others_share = times_.others_share();
    c_.stream_launch_ns = times_.launch_ns();
    std::string gemms;
    for (cost::ProductRates& rates : c_.products) {
      if (rates.is_native) continue;
      rates.stream_call_ns = times_.call_ns(rates.dtype, false);
      rates.stream_row_call_ns = times_.call_ns(rates.dtype, true);
      gemms += fmt::format(", for a GEMM in {} {:.0f} ns, of one row {:.0f}", rates.name(),
                           rates.stream_call_ns, rates.stream_row_call_ns);
    }
    c_.notes.push_back(fmt::format(
        "a launch takes {:.0f} ns inside a graph; on a stream it takes the host {:.0f} ns{}; "
        "an empty step takes {:.0f} ns",
        c_.launch_ns, c_.stream_launch_ns, gemms, c_.empty_step_ns));
    c_.notes.push_back(
        "times are medians of launches inside a graph; theoretical rates at the highest clock");
    return c_;
  }

 private:
  void add(std::string name, std::function<void()> run) {
    probes_.add(std::move(name), std::move(run)).times_itself = true;
  }

  bool tf32_;
  MeasuringFixture fixture_;
  DisturbedTimes times_;
  cost::Ceilings c_;
  ProbeList probes_;
};

}  // namespace

std::unique_ptr<Calibration> make_calibration(bool tf32) {
  return std::make_unique<CudaCalibration>(tf32);
}

double others_share_now() { return MeasuringFixture().others_share(); }

}  // namespace ridge::backends::cuda
