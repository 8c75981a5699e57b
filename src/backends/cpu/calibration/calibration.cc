// SPDX-License-Identifier: Apache-2.0
// Identifies the machine, computes its theoretical rates, and sets the order of the measurements.
#include "backends/cpu/calibration/calibration.h"

#include <hwy/highway.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/isa.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

// Enough for the largest product, and for the vectors and attention of each thread.
constexpr int64_t kLeastPool = int64_t{64} << 20;
constexpr int64_t kPoolPerThread = int64_t{2} << 20;
constexpr int64_t kLargestPool = int64_t{1} << 30;

std::string line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "32768K" -> bytes; 0 when unreadable.
int64_t size_of(const std::string& text) {
  int64_t value = 0;
  for (char c : text) {
    if (c >= '0' && c <= '9')
      value = value * 10 + (c - '0');
    else if (c == 'K')
      return value << 10;
    else if (c == 'M')
      return value << 20;
  }
  return value;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

std::filesystem::path cpu_folder(int cpu) {
  return fmt::format("/sys/devices/system/cpu/cpu{}", cpu);
}

int physical_cores() {
  std::set<std::string> cores;
  for (int cpu : allowed_cpus())
    cores.insert(line_of(cpu_folder(cpu) / "topology/thread_siblings_list"));
  return static_cast<int>(std::max<size_t>(cores.size(), 1));
}

// Data and unified caches; each instance that the threads can use counts once.
std::vector<cost::MemoryLevel> caches(int threads) {
  std::vector<cost::MemoryLevel> levels;
  std::vector<int> cpus = allowed_cpus();
  cpus.resize(std::min(cpus.size(), static_cast<size_t>(threads)));
  for (int index = 0; index < 8; ++index) {
    std::set<std::string> seen;
    int64_t bytes = 0;
    std::string level;
    for (int cpu : cpus) {
      std::filesystem::path folder = cpu_folder(cpu) / fmt::format("cache/index{}", index);
      if (line_of(folder / "type") == "Instruction") continue;
      if (!seen.insert(line_of(folder / "shared_cpu_list")).second) continue;
      bytes += size_of(line_of(folder / "size"));
      level = line_of(folder / "level");
    }
    if (bytes > 0 && !level.empty()) levels.push_back({"L" + level, bytes, 0, 0, 0});
  }
  return levels;
}

int64_t least_pool_bytes(int threads) { return kLeastPool + threads * kPoolPerThread; }

int64_t pool_bytes(const std::vector<cost::MemoryLevel>& levels, int threads) {
  int64_t largest = 0;
  for (const cost::MemoryLevel& level : levels) largest = std::max(largest, level.capacity_bytes);
  int64_t available = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  // The size of the inputs and of the results, each: four times the largest cache, because a part of
  // what is somewhat larger than a cache stays in it. At most a quarter of the free memory together.
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
  CpuCalibration()
      : levels_(caches(omp_get_max_threads())),
        f32_(DType::kF32, pool_bytes(levels_, omp_get_max_threads())),
        bf16_(DType::kBF16, least_pool_bytes(omp_get_max_threads())),
        parts_{multiply_probes(probes_),
               vector_probes(probes_, f32_, bf16_),
               memory_probes(probes_, f32_, levels_),
               gemm_probes(probes_, f32_, bf16_),
               stored_probes(probes_, f32_, bf16_),
               attention_probes(probes_, f32_, bf16_),
               cache_probes(probes_, f32_, bf16_)} {}

  ProbeList& probes() override { return probes_; }

  cost::Ceilings ceilings() override {
    cost::Ceilings ceilings;
    ceilings.machine = this_machine();
    for (const Finish& finish : parts_) finish(ceilings);
    add_theory(ceilings);
    for (
        const char* note :
        {"ceilings are lower octiles over rounds, because disturbances only add time",
         "predictions use median rates",
         "theoretical rates: cores x operations per cycle (table of core widths) x measured clock"})
      ceilings.notes.push_back(note);
    return ceilings;
  }

 private:
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

std::unique_ptr<Calibration> make_calibration() { return std::make_unique<CpuCalibration>(); }

}  // namespace ridge::backends::cpu
