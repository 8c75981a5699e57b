// SPDX-License-Identifier: Apache-2.0
// The CPU backend's answers to the passes and its memory.
#include "backends/cpu/cpu_backend.h"

#include <omp.h>

#include <cstring>

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/gemm_tuner.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/flash_attention.h"
#include "base/arena.h"
#include "base/error.h"
#include "ops/attention.h"
#include "perf/process_memory.h"

namespace ridge::backends::cpu {
namespace {

class HostMemory final : public Memory {
 public:
  HostMemory(int64_t bytes, const char* what) : arena_(bytes, what) {}
  std::byte* data() const override { return arena_.data(); }
  int64_t bytes() const override { return arena_.bytes(); }

 private:
  Arena arena_;
};

// Parameters are never written in a graph that has borrowed ones, so the const can go.
class BorrowedMemory final : public Memory {
 public:
  explicit BorrowedMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::byte* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  int64_t bytes() const override { return static_cast<int64_t>(bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) {
    if (options.threads > 0) omp_set_num_threads(options.threads);
    set_isa(options.isa);
    if (options.tune_gemm) tuner_ = std::make_unique<GemmTuner>(options.tuning_file);
  }

  std::string_view name() const override { return "cpu"; }

  std::string unsupported(const Graph& graph, const Node& node) const override {
    if (node.op->kind == OpKind::kView) return "";
    const CpuKernel* kernel = find_kernel(node.op->name);
    if (kernel == nullptr) return "the cpu backend has no kernel for it";
    for (const auto* values : {&node.inputs, &node.outputs})
      for (ValueId value : *values) {
        DType dtype = graph.type(value).dtype;
        if (kernel->takes_stored && values == &node.inputs &&
            (is_block(dtype) || dtype == DType::kF16))
          continue;
        if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kI32)
          return fmt::format(
              "the cpu backend computes on f32 and bf16, and on i32 for ids, not on {}",
              ridge::name(dtype));
      }
    return kernel->unsupported == nullptr ? "" : kernel->unsupported(CallTypes(graph, node).call());
  }

  bool takes_input(const Graph& graph,
                   const Node& node,
                   int i,
                   const Layout& layout) const override {
    const CpuKernel* kernel = find_kernel(node.op->name);
    return kernel != nullptr && kernel->takes_input != nullptr &&
           kernel->takes_input(CallTypes(graph, node).call(), i, layout);
  }

  bool takes_output(const Graph& graph,
                    const Node& node,
                    int i,
                    const Layout& layout) const override {
    const CpuKernel* kernel = find_kernel(node.op->name);
    return kernel != nullptr && kernel->takes_output != nullptr &&
           kernel->takes_output(CallTypes(graph, node).call(), i, layout);
  }

  bool runs_in_place(const Graph&, const Node& node, int, int) const override {
    const CpuKernel* kernel = find_kernel(node.op->name);
    return kernel != nullptr && kernel->in_place;
  }

  int64_t workspace_bytes(const Graph& graph, const Node& node) const override {
    const CpuKernel* kernel = find_kernel(node.op->name);
    if (kernel == nullptr || kernel->workspace_bytes == nullptr) return 0;
    return kernel->workspace_bytes(CallTypes(graph, node).call());
  }

  int launches(const Graph&, const Node&) const override { return 1; }

  perf::FlashScores flash_scores(const Call& attention) const override {
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
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void synchronize() override {}
  int64_t available_bytes() const override { return perf::available_memory_bytes(); }

  Launch bind(const BindCall& call) override {
    const CpuKernel* kernel = find_kernel(call.node.op->name);
    RIDGE_CHECK(kernel != nullptr, "no cpu kernel for '{}'", call.node.op->name);
    if (kernel->bind_tuned != nullptr) return kernel->bind_tuned(call, tuner_.get());
    return kernel->bind(call);
  }

 private:
  std::unique_ptr<GemmTuner> tuner_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace ridge::backends::cpu
