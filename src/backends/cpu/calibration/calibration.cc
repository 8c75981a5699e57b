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
#include "base/clock.h"
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

// Cycles per nanosecond while all threads work: in a chain of dependent additions, each takes one
// cycle.
double clock_ghz() {
#if defined(__x86_64__)
  constexpr int64_t kAdditions = 4'000'000;
  std::vector<double> rates;
  for (int repeat = 0; repeat < 9; ++repeat) {
    double fastest = 0;
#pragma omp parallel reduction(max : fastest)
    {
      uint64_t sum = 1;
      double begin = now_ns();
      for (int64_t i = 0; i < kAdditions; i += 8)
        asm volatile(
            "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n"
            "add %0, %0\n add %0, %0\n add %0, %0\n add %0, %0\n"
            : "+r"(sum));
      fastest = static_cast<double>(kAdditions) / (now_ns() - begin);
    }
    rates.push_back(fastest);
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
#else
  return 0;
#endif
}

// FLOPs per core and cycle, by the instruction set and the manufacturer's documents; 0 where those
// do not specify it.
double flops_per_cycle(DType dtype, const std::string& isa) {
  __builtin_cpu_init();
  bool is_amd = __builtin_cpu_is("amd");
  if (isa == "amx" && dtype == DType::kBF16)
    return 1024;  // a 16 x 16 x 32 tile product in 16 cycles
  // Intel's server CPUs have two 512-bit units; Zen 4 joins two 256-bit units.
  bool wide = isa == "amx" || isa.starts_with("avx512");
  double f32 = wide && !is_amd ? 64 : isa == "sse4.1" ? 0 : 32;
  if (dtype == DType::kF32) return f32;
  return dtype == DType::kBF16 && isa == "avx512_bf16" && is_amd ? 2 * f32 : 0;
}

int64_t least_pool_bytes(int threads) { return kLeastPool + threads * kPoolPerThread; }

int64_t pool_bytes(const std::vector<cost::MemoryLevel>& levels, int threads) {
  int64_t largest = 0;
  for (const cost::MemoryLevel& level : levels) largest = std::max(largest, level.capacity_bytes);
  int64_t available = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  // The size of the inputs and of the results, each. Together they are four times the largest
  // cache, at most a quarter of the free memory.
  int64_t wanted = std::min({2 * largest, available / 8, kLargestPool});
  return std::max(wanted, least_pool_bytes(threads)) / kAlignmentBytes * kAlignmentBytes;
}

void add_theory(cost::Ceilings& ceilings) {
  for (cost::ProductRates& rates : ceilings.products)
    rates.theoretical_flops_per_ns = std::min(ceilings.machine.cores, ceilings.machine.threads) *
                                     ceilings.machine.clock_ghz *
                                     flops_per_cycle(rates.dtype, ceilings.machine.isa);
}

class CpuCalibration final : public Calibration {
 public:
  CpuCalibration()
      : levels_(caches(omp_get_max_threads())),
        f32_(DType::kF32, pool_bytes(levels_, omp_get_max_threads())),
        bf16_(DType::kBF16, least_pool_bytes(omp_get_max_threads())),
        parts_{vector_probes(probes_, f32_),           memory_probes(probes_, f32_, levels_),
               gemm_probes(probes_, f32_, bf16_),      stored_probes(probes_, f32_),
               attention_probes(probes_, f32_, bf16_), cache_probes(probes_, f32_, bf16_)} {}

  ProbeList& probes() override { return probes_; }

  cost::Ceilings ceilings() override {
    cost::Ceilings ceilings;
    ceilings.machine = this_machine();
    ceilings.machine.clock_ghz = clock_ghz();
    ceilings.machine.clock_source = "timed chain of dependent additions, all threads busy";
    for (const Finish& finish : parts_) finish(ceilings);
    add_theory(ceilings);
    ceilings.notes = {"ceilings are lower octiles over rounds, because disturbances only add time",
                      "predictions use median rates",
                      "theoretical GEMM rates: cores x FLOPs per cycle (manufacturer's documents) "
                      "x measured clock"};
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
