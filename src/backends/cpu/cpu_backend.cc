// SPDX-License-Identifier: Apache-2.0
// Implements the CPU backend: its answers to passes, and its memory.
#include "backends/cpu/cpu_backend.h"

#include <omp.h>
#include <algorithm>

#include "backends/cpu/gemm_tuner.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "backends/cpu/kernels/team.h"
#include "backends/cpu/passes/passes.h"
#include "backends/cpu/quantized_matmul.h"
#include "backends/host_memory.h"
#include "backends/table_backend.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/process_memory.h"
#include "ops/attention.h"

namespace ridge::backends::cpu {
namespace {

// A graph with borrowed parameters never writes them, so casting the const away is safe.
class BorrowedMemory final : public Memory {
 public:
  explicit BorrowedMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::byte* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  int64_t bytes() const override { return static_cast<int64_t>(bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
};

class CpuBackend final : public TableBackend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : tuner_(options.tune_gemm ? std::make_unique<GemmTuner>(options.tuning_file) : nullptr),
        kernels_(cpu_kernels(tuner_.get(), options.groups)) {}

  std::string_view name() const override { return "cpu"; }

  std::span<const passes::Pass* const> passes() const override { return cpu::passes(); }

  plan::FlashScores flash_scores(const Call& attention) const override {
    ops::AttentionShape s = ops::attention_shape("flash_attention", attention);
    AttentionExtents extents{s.batch,     s.sequence, s.heads,  s.kv_heads,
                             s.head_size, s.causal,   s.window, static_cast<float>(s.scale)};
    return {flash_attention_visited_scores(extents),
            flash_attention_backward_visited_scores(extents)};
  }

  std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) override {
    return std::make_unique<HostMemory>(bytes, what);
  }
  std::unique_ptr<Memory> borrow(std::span<const std::byte> bytes) override {
    return std::make_unique<BorrowedMemory>(bytes);
  }
  // Both pointers of an empty tensor may be null, which memcpy does not allow.
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(from), bytes, to);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    std::copy_n(from, bytes, static_cast<std::byte*>(to));
  }
  void synchronize() override {}
  int64_t available_bytes() const override { return available_memory_bytes(); }

  // True for oneDNN's GEMMs, and for those with AMX tiles, whose threads wait for each other
  // within one GEMM; and for collectives, which wait for other processes.
  bool owns_threads(const BindCall& call) const override {
    if (is_collective(call.node)) return true;
    return call.node.op->name == "matmul" && !has_quantized_weight(call.call()) &&
           !streams_weight(call);
  }
  void in_parallel_region(const std::function<void()>& launches) override {
    Team::gather(launches);
  }

 private:
  const KernelTable& kernels() const override { return kernels_; }

  std::unique_ptr<GemmTuner> tuner_;
  KernelTable kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  // These come first: the tuner's choices are valid for one number of threads and one ISA.
  if (options.threads > 0) omp_set_num_threads(options.threads);
  start_openmp_threads();
  set_isa(options.isa);
  return std::make_unique<CpuBackend>(options);
}

}  // namespace ridge::backends::cpu
