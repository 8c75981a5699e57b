// SPDX-License-Identifier: Apache-2.0
// Identifies the machine, computes its theoretical rates, and sets the order of the measurements.
#include "backends/cpu/calibration/calibration.h"

#include <hwloc.h>
#include <hwy/highway.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>

#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "base/hwloc_topology.h"

namespace ridge::backends::cpu {
namespace {

// Enough for the largest product, and for the vectors and attention of each thread.
constexpr int64_t kLeastPool = int64_t{64} << 20;
constexpr int64_t kPoolPerThread = int64_t{2} << 20;
constexpr int64_t kLargestPool = int64_t{1} << 30;

int physical_cores() {
  const HwlocTopology topology = load_hwloc_topology();
  const HwlocBitmap cpus = allowed_cpus(topology.get());
  int cores = 0;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core)) != nullptr;)
    cores += hwloc_bitmap_intersects(core->cpuset, cpus.get());
  return std::max(cores, 1);
}

// Data and unified caches; each instance that the threads can use counts once.
std::vector<cost::MemoryLevel> caches(int threads) {
  const HwlocTopology topology = load_hwloc_topology();
  const HwlocBitmap cpus = allowed_cpus(topology.get());
  while (hwloc_bitmap_weight(cpus.get()) > threads)
    hwloc_bitmap_clr(cpus.get(), hwloc_bitmap_last(cpus.get()));
  std::vector<cost::MemoryLevel> levels;
  for (int type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L5CACHE; ++type) {
    int64_t bytes = 0;
    for (hwloc_obj_t cache = nullptr;
         (cache = hwloc_get_next_obj_covering_cpuset_by_type(
              topology.get(), cpus.get(), static_cast<hwloc_obj_type_t>(type), cache)) != nullptr;)
      bytes += static_cast<int64_t>(cache->attr->cache.size);
    if (bytes > 0)
      levels.push_back({fmt::format("L{}", type - HWLOC_OBJ_L1CACHE + 1), bytes, 0, 0, 0});
  }
  return levels;
}

int64_t least_pool_bytes(int threads) { return kLeastPool + threads * kPoolPerThread; }

int64_t pool_bytes(const std::vector<cost::MemoryLevel>& levels, int threads) {
  int64_t largest = 0;
  for (const cost::MemoryLevel& level : levels) largest = std::max(largest, level.capacity_bytes);
  int64_t available = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  // The inputs and the results each are four times the largest cache, because a part of a somewhat
  // larger set stays in it. Together they take at most a quarter of the free memory.
  int64_t wanted = std::min({4 * largest, available / 8, kLargestPool});
  return std::max(wanted, least_pool_bytes(threads)) / kAlignmentBytes * kAlignmentBytes;
}

// GEMMs cannot multiply faster than the fastest instruction for their type.
void add_theory(cost::Ceilings& ceilings) {
  for (cost::ProductRates& rates : ceilings.products)
    if (const cost::MultiplyRates* multiplies = ceilings.multiply_rates(rates.dtype))
      rates.theoretical_flops_per_ns = multiplies->theoretical_ops_per_ns;
}

class CpuCalibration final : public Calibration {
 public:
  explicit CpuCalibration(CalibrationScope scope)
      : scope_(std::move(scope)),
        levels_(caches(omp_get_max_threads())),
        f32_(DType::kF32, pool_bytes(levels_, omp_get_max_threads())),
        bf16_(DType::kBF16, least_pool_bytes(omp_get_max_threads())) {
    if (!scope_.known)
      parts_ = {multiply_probes(probes_), vector_probes(probes_, f32_, bf16_),
                memory_probes(probes_, f32_, levels_), gemm_probes(probes_, f32_, bf16_),
                attention_probes(probes_, f32_, bf16_)};
    if (scope_.has_inference) {
      parts_.push_back(quantized_probes(probes_, f32_, bf16_));
      parts_.push_back(cache_probes(probes_, f32_, bf16_));
    }
  }

  ProbeList& probes() override { return probes_; }

  cost::Ceilings ceilings() override {
    cost::Ceilings ceilings = scope_.known ? *scope_.known : described();
    for (const Finish& finish : parts_) finish(ceilings);
    ceilings.has_inference = scope_.has_inference;
    add_theory(ceilings);
    return ceilings;
  }

 private:
  static cost::Ceilings described() {
    cost::Ceilings ceilings;
    ceilings.machine = this_machine();
    ceilings.notes = {
        "ceilings are lower octiles over rounds, because disturbances only add time",
        "predictions use median rates",
        "theoretical rates: cores x operations per cycle (table of core widths) x measured clock"};
    return ceilings;
  }

  CalibrationScope scope_;
  std::vector<cost::MemoryLevel> levels_;
  OperandPool f32_, bf16_;
  ProbeList probes_;
  std::vector<Finish> parts_;
};

}  // namespace

cost::Machine this_machine() {
  cost::Machine machine;
  machine.device = cpu_model();
  machine.isa = isa_name();
  machine.cores = physical_cores();
  machine.threads = omp_get_max_threads();
  machine.libraries = {gemm_library(), fmt::format("Highway {}.{}", HWY_MAJOR, HWY_MINOR)};
  machine.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return machine;
}

std::unique_ptr<Calibration> make_calibration(CalibrationScope scope) {
  return std::make_unique<CpuCalibration>(std::move(scope));
}

}  // namespace ridge::backends::cpu
