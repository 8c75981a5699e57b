// SPDX-License-Identifier: Apache-2.0
// Measures the rates of multiplying instructions and of unpacking repacked tiles, each alone, and
// the clock that theoretical rates need. core_widths.h has the theory.
#include <omp.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/calibration/core_widths.h"
#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/peak/multiply.h"
#include "backends/cpu/kernels/peak/unpack_repacked.h"
#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/random_block.h"
#include "base/error.h"
#include "base/repacked_tiles.h"
#include "base/units.h"

namespace ridge::backends::cpu {
namespace {

// A run takes about 0.2 ms, so that starting the threads is negligible.
constexpr int64_t kInstructions = 1'000'000, kTileInstructions = 30'000;
constexpr int64_t kAdditions = 700'000;

// The fastest instructions of each type in the instruction set in use.
std::vector<Multiplier> multipliers(const std::string& isa) {
  using enum Multiplier;
  if (isa == "avx2") return {kFma256, kMaddInt16_256, kMaddInt8_256};
  if (!isa.starts_with("avx512") && isa != "amx") return {};
  std::vector<Multiplier> all = {kFma512, has_vnni() ? kDotInt16_512 : kMaddInt16_512,
                                 has_vnni() ? kDotInt8_512 : kMaddInt8_512};
  if (has_bf16_products()) all.push_back(kDotBf16_512);
  if (has_bf16_tiles()) all.push_back(kTileBf16);
  if (has_bf16_tiles() && __builtin_cpu_supports("amx-int8")) all.push_back(kTileInt8);
  return all;
}

bool is_tile(Multiplier multiplier) {
  return multiplier == Multiplier::kTileBf16 || multiplier == Multiplier::kTileInt8;
}

// Factors of each type: random, because some processors take less power, and more speed, for zeros.
class Factors {
 public:
  Factors() : bytes_(3 * kFactorBytes, "factors") {
    fill(0, random_block(DType::kF32, kFactorBytes, 1));
    fill(1, random_block(DType::kBF16, kFactorBytes, 1));
    fill(2, random_block(DType::kF32, kFactorBytes, 2));
  }
  const std::byte* of(DType dtype) const {
    return bytes_.data() + kFactorBytes * (dtype == DType::kF32    ? 0
                                           : dtype == DType::kBF16 ? 1
                                                                   : 2);
  }

 private:
  void fill(int64_t index, const std::vector<std::byte>& from) {
    std::copy_n(from.data(), kFactorBytes, bytes_.data() + index * kFactorBytes);
  }
  Arena bytes_;
};

struct LoopTiming {
  const Probe* probe = nullptr;
  double instructions = 0;  // all threads together run so many
  double per_ns() const { return instructions / probe->undisturbed_ns(); }
};

struct MultiplyTiming {
  Multiplier multiplier;
  LoopTiming multiply, accumulate;
};

// Additions that wait for each other: one per cycle.
void add_in_a_chain() {
#if defined(__x86_64__)
  uint64_t sum = 1;
  for (int64_t i = 0; i < kAdditions; i += 8)
    asm volatile(
        "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n"
        "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n"
        : "+r"(sum));
#endif
}

class MultiplyProbes {
 public:
  explicit MultiplyProbes(ProbeList& probes) {
    clock_ = &probes.add("clock", [] {
#pragma omp parallel
      add_in_a_chain();
    });
    for (Multiplier multiplier : multipliers(isa_name())) {
      MultiplyTiming timing{multiplier, time(probes, multiplier, multiply), {}};
      timing.accumulate = info(multiplier).accumulates ? timing.multiply
                                                       : time(probes, multiplier, multiply_and_add);
      timings_.push_back(timing);
    }
  }

  void finish(cost::Ceilings& ceilings) const {
#if defined(__x86_64__)
    ceilings.machine.clock_ghz = static_cast<double>(kAdditions) / clock_->undisturbed_ns();
    ceilings.machine.clock_source = "timed chain of dependent additions, all threads busy";
#endif
    const CoreWidths* widths = core_widths(this_processor());
    for (const MultiplyTiming& each : timings_) {
      const double ops = static_cast<double>(info(each.multiplier).ops);
      cost::MultiplyRates rates;
      rates.dtype = info(each.multiplier).dtype;
      rates.instruction = info(each.multiplier).instruction;
      rates.multiply_ops_per_ns = ops * each.multiply.per_ns();
      rates.accumulate_ops_per_ns = ops * each.accumulate.per_ns();
      add_theory(widths, each, ceilings, rates);
      ceilings.multiplies.push_back(std::move(rates));
    }
  }

 private:
  LoopTiming time(ProbeList& probes,
                  Multiplier multiplier,
                  int64_t (*loop)(Multiplier, const std::byte*, int64_t)) {
    const std::byte* factors = factors_->of(info(multiplier).dtype);
    const int64_t count = is_tile(multiplier) ? kTileInstructions : kInstructions;
    const Probe& probe = probes.add("multiplications", [=, keep = factors_] {
#pragma omp parallel
      loop(multiplier, factors, count);
    });
    return {&probe, static_cast<double>(count) * omp_get_max_threads()};
  }

  // The width of the table, corrected by what was measured, times cores and clock.
  static void add_theory(const CoreWidths* widths,
                         const MultiplyTiming& timing,
                         cost::Ceilings& ceilings,
                         cost::MultiplyRates& rates) {
    if (widths == nullptr) {
      rates.source = "unknown: the table of core widths does not have this processor";
      return;
    }
    rates.source = fmt::format("{} ({})", widths->name, widths->source);
    const double cycles_per_ns =
        std::min(ceilings.machine.cores, ceilings.machine.threads) * ceilings.machine.clock_ghz;
    const double listed = widths->of(timing.multiplier);
    if (!(cycles_per_ns > 0 && listed > 0)) return;
    const double measured = timing.multiply.per_ns() / cycles_per_ns;
    const double width = corrected_width(listed, measured);
    const double ops = static_cast<double>(info(timing.multiplier).ops);
    rates.theoretical_ops_per_cycle = ops * width;
    rates.theoretical_ops_per_ns = ops * width * cycles_per_ns;
    if (width != listed) {
      const std::string note = fmt::format(
          "{}: {:.3g} per core and cycle were measured, but the table of core widths has {:g} for {}; "
          "the theoretical rate assumes {:g}",
          rates.instruction, measured, listed, widths->name, width);
      rates.source = note;
      ceilings.notes.push_back(note);
    }
  }

  std::shared_ptr<Factors> factors_ = std::make_shared<Factors>();
  const Probe* clock_;
  std::vector<MultiplyTiming> timings_;
};

// Repacked tiles of every type that the instruction set's kernels take. Each thread unpacks its
// own, which fill half of an L1.
class UnpackProbes {
 public:
  explicit UnpackProbes(ProbeList& probes)
      : tiles_(omp_get_max_threads() * kThreadBytes, "tiles of probes") {
    if (!takes_repacked(quantized_isa())) return;
    // Bytes from 0x14 to 0x17 are small scales, whatever the type.
    std::fill_n(tiles_.data(), tiles_.bytes(), std::byte{0x15});
    const bool is_512 = isa_name() != "avx2" && has_vnni();
    for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ4_K,
                        DType::kQ6_K, DType::kQ4_G32, DType::kQ4_G128})
      add(probes, repacked_dtype(dtype, {kRepackedRows, 256}),
          is_512 ? unpack_repacked_avx512 : unpack_repacked_avx2);
  }

  void finish(cost::Ceilings& ceilings) const {
    for (const Timing& each : timings_)
      ceilings.unpacks.push_back({each.tiles, each.bytes / each.probe->undisturbed_ns()});
  }

 private:
  static constexpr int64_t kThreadBytes = 16 << 10, kRepeats = 400;
  struct Timing {
    DType tiles;
    const Probe* probe;
    double bytes;  // unpacked by all threads in a run
  };

  void add(ProbeList& probes,
           DType tiles,
           void (*unpack)(DType tiles, const std::byte* data, int64_t bytes)) {
    const int64_t tile = with_tile_type(tiles, [](auto type) {
      return static_cast<int64_t>(sizeof(typename decltype(type)::type));
    });
    const int64_t bytes = kThreadBytes / tile * tile;
    const std::byte* data = tiles_.data();
    const Probe& probe = probes.add("unpacking", [=] {
#pragma omp parallel
      for (int64_t repeat = 0; repeat < kRepeats; ++repeat)
        unpack(tiles, data + omp_get_thread_num() * kThreadBytes, bytes);
    });
    timings_.push_back(
        {tiles, &probe, static_cast<double>(bytes * kRepeats) * omp_get_max_threads()});
  }

  Arena tiles_;
  std::vector<Timing> timings_;
};

}  // namespace

Finish multiply_probes(ProbeList& probes) {
  auto multiplies = std::make_shared<MultiplyProbes>(probes);
  auto unpacks = std::make_shared<UnpackProbes>(probes);
  return [multiplies, unpacks](cost::Ceilings& ceilings) {
    multiplies->finish(ceilings);
    unpacks->finish(ceilings);
  };
}

}  // namespace ridge::backends::cpu
