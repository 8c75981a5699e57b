// SPDX-License-Identifier: Apache-2.0
// Measures bandwidth by footprint, from the first cache level to memory: every thread sweeps its
// own share repeatedly.
#include <omp.h>

#include <algorithm>
#include <memory>

#include "backends/cpu/calibration/calibration.h"
#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "backends/random_block.h"
#include "base/shape.h"

namespace ridge::backends::cpu {
namespace {

// The share of a thread: as large as an L1, so that a kernel call does not dominate.
constexpr int64_t kLeastShareBytes = 32 << 10;
// Bytes read inside one parallel region, so that the cost of opening it does not count.
constexpr int64_t kSweepBytes = 4 << 20;
constexpr int64_t kFewSweeps = 16;
constexpr int64_t kRow = 8192;  // elements that a reduction reads at a time: the least share

// Runs body(thread) on all threads. Kernels in it count one thread, so that they open no regions of
// their own.
template <typename Body>
void on_all_threads(const Body& body) {
#pragma omp parallel
  {
    omp_set_num_threads(1);
    body(omp_get_thread_num());
  }
}

// Each thread reads its share of `data`.
std::function<void()> reading(const std::byte* data, int64_t share_bytes, int64_t sweeps) {
  auto sums = std::make_shared<Arena>(share_bytes * omp_get_max_threads() / kRow + kAlignmentBytes,
                                      "row sums");
  int64_t rows = share_bytes / (kRow * 4);
  return [=] {
    on_all_threads([&](int thread) {
      auto* x = reinterpret_cast<const float*>(data + thread * share_bytes);
      auto* y = reinterpret_cast<float*>(sums->data()) + thread * rows;
      ReduceRows<float, float> reduce{rows, kRow, Reduction::kMax, {x, kRow}, y};
      for (int64_t sweep = 0; sweep < sweeps; ++sweep) reduce_rows(reduce);
    });
  };
}

// Runs each thread's kernel on its part of the results `sweeps` times.
std::function<void()> sweeping(std::shared_ptr<std::vector<TileKernel>> kernels, int64_t sweeps) {
  return [=] {
    on_all_threads([&](int thread) {
      for (int64_t sweep = 0; sweep < sweeps; ++sweep)
        (*kernels)[static_cast<size_t>(thread)].run();
    });
  };
}

std::function<void()> copying(const OperandPool& pool,
                              int64_t share_bytes,
                              int threads,
                              int64_t sweeps) {
  int64_t half = share_bytes / 2;
  auto copies = std::make_shared<std::vector<TileKernel>>();
  for (int thread = 0; thread < threads; ++thread)
    copies->emplace_back(TileProgram{{}, {0}, 1}, Shape{half / 4},
                         std::vector<TileOperand>{{pool.input(thread * half), DType::kF32, {1}}},
                         std::vector<TileOperand>{{pool.result(thread * half), DType::kF32, {1}}});
  return sweeping(copies, sweeps);
}

struct FootprintTiming {
  int64_t bytes;
  double sweeps;  // sweeps of the footprint in one run
  const Probe* read;
  const Probe* copy;

  cost::BandwidthPoint point(double (Probe::*ns)() const, double call_ns) const {
    double once = static_cast<double>(bytes);
    return {bytes, rate((read->*ns)(), once, 0), rate((copy->*ns)(), once, call_ns)};
  }

 private:
  // A sweep is one kernel call, whose fixed cost is subtracted because it is not bandwidth.
  double rate(double ns, double bytes_of_sweep, double call_ns) const {
    return bytes_of_sweep / std::max(ns / sweeps - call_ns, 0.2 * ns / sweeps);
  }
};

// Takes the level's rates at the largest footprint below three quarters of its capacity, to stay
// clear of its edge.
void rate_level(cost::MemoryLevel& level, const std::vector<cost::BandwidthPoint>& points) {
  const cost::BandwidthPoint* best = &points.front();
  for (const cost::BandwidthPoint& point : points)
    if (point.footprint_bytes <= level.capacity_bytes * 3 / 4) best = &point;
  level.read_bytes_per_ns = best->read_bytes_per_ns;
  level.copy_bytes_per_ns = best->copy_bytes_per_ns;
}

}  // namespace

Finish memory_probes(ProbeList& probes,
                     const OperandPool& pool,
                     const std::vector<cost::MemoryLevel>& caches) {
  int threads = omp_get_max_threads();
  std::vector<FootprintTiming> timings;
  for (int64_t share = kLeastShareBytes; share * threads <= pool.bytes(); share *= 2) {
    int64_t sweeps = std::max<int64_t>(1, kSweepBytes / share);
    // Other probes run between two samples. Where few sweeps follow, one that is not timed brings
    // the footprint back into the caches; without it, what a large cache holds would be measured at
    // the rate of memory.
    auto add = [&](const char* name, const std::function<void()>& run) -> const Probe* {
      return sweeps <= kFewSweeps ? &probes.add(name, run, run) : &probes.add(name, run);
    };
    const Probe* read = add("read", reading(pool.input(0), share, sweeps));
    const Probe* copy = add("copy", copying(pool, share, threads, sweeps));
    timings.push_back({share * threads, static_cast<double>(sweeps), read, copy});
  }
  auto nothing =
      std::make_shared<TileKernel>(TileProgram{{}, {0}, 1}, Shape{1},
                                   std::vector<TileOperand>{{pool.input(0), DType::kF32, {1}}},
                                   std::vector<TileOperand>{{pool.result(0), DType::kF32, {1}}});
  const Probe& call = probes.add("call", [nothing] { nothing->run(); });
  return [timings, caches, &call](cost::Ceilings& ceilings) {
    std::vector<cost::BandwidthPoint> undisturbed;
    for (const FootprintTiming& t : timings) {
      ceilings.bandwidth.push_back(t.point(&Probe::usual_ns, call.usual_ns()));
      undisturbed.push_back(t.point(&Probe::undisturbed_ns, call.usual_ns()));
    }
    ceilings.levels = caches;
    for (cost::MemoryLevel& level : ceilings.levels) rate_level(level, undisturbed);
    const cost::BandwidthPoint& last = undisturbed.back();
    ceilings.levels.push_back({"memory", ceilings.machine.memory_bytes, last.read_bytes_per_ns,
                               last.copy_bytes_per_ns, 0});
  };
}

std::function<void()> memory_reader(int64_t bytes) {
  const int64_t share = bytes / omp_get_max_threads() / (kRow * 4) * (kRow * 4);
  if (share == 0) return {};
  auto data = std::make_shared<Arena>(share * omp_get_max_threads(), "memory to read");
  const std::vector<std::byte> drawn = random_block(DType::kF32, kRow * 4, 1);
  on_all_threads([&](int thread) {
    for (int64_t at = 0; at < share; at += kRow * 4)
      std::copy(drawn.begin(), drawn.end(), data->data() + thread * share + at);
  });
  return [data, read = reading(data->data(), share, 1)] { read(); };
}

}  // namespace ridge::backends::cpu
