// SPDX-License-Identifier: Apache-2.0
// Implements the CUDA backend: its answers to passes, its memory and its streams.
#include "backends/cuda/cuda_backend.h"

#include <algorithm>

#include "backends/cuda/calibration/mixed_launches.h"
#include "backends/cuda/counted_collectives.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/flash_pairs.h"
#include "backends/cuda/gemm_tuner.h"
#include "backends/cuda/host_copies.h"
#include "backends/cuda/kernel_clock.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/native_gemm.h"
#include "backends/cuda/nvtx_range.h"
#include "backends/cuda/passes/gemm_choices.h"
#include "backends/cuda/passes/passes.h"
#include "backends/cuda/pointwise_compiler.h"
#include "backends/cuda/recording.h"
#include "backends/cuda/short_product.h"
#include "backends/cuda/skinny_gemm.h"
#include "backends/cuda/transposed_operand.h"
#include "backends/table_backend.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

class CudaBackend final : public TableBackend, public GemmChoices {
 public:
  explicit CudaBackend(const CudaOptions& options)
      : options_(options),
        tuner_(device_, options.tune_gemm, options.tuning_file),
        compiler_(device_),
        collectives_(device_, options.groups) {}
  ~CudaBackend() override { cudaStreamSynchronize(device_.stream()); }

  void tell(CollectiveListener* listener) override {
    Backend::tell(listener);
    collectives_.tell(listener);
  }
  bool counts_collectives() const override { return collectives_.counts(); }
  Launch counted(Launch collective, int ended) override {
    return collectives_.counted(std::move(collective), ended);
  }

  std::string_view name() const override { return "cuda"; }

  int rounds(const Graph& graph, const Node& node) const override {
    const Kernel* kernel = find(node);
    if (kernel == nullptr) return 0;
    return kernel->rounds_of == nullptr ? kernel->rounds
                                        : kernel->rounds_of(CallTypes(graph, node).call());
  }

  bool calls_library(const Graph& graph, const Node& node) const override {
    const Kernel* kernel = find(node);
    return kernel != nullptr && kernel->calls_library != nullptr &&
           kernel->calls_library(CallTypes(graph, node).call());
  }

  bool replays() const override { return options_.capture; }

  bool owns_weights() const override { return true; }

  // Products of weight gradients may lag by a few kernels, and optimizer updates by about one
  // layer's kernels. Next to products that fill the GPU by themselves, concurrency gains nothing:
  // the kernels only compete for the caches.
  plan::BranchSlack branch_slack(const Graph& graph) const override {
    constexpr plan::BranchSlack kSlack{3, 16}, kChain{3, 16, true};
    const auto any = [&](const auto& is) {
      return options_.capture && options_.branches &&
             std::any_of(graph.nodes.begin(), graph.nodes.end(), is);
    };
    if (any([&](const Node& node) { return is_short_product(graph, node); })) return kSlack;
    return any(is_collective) ? kChain : plan::BranchSlack{};
  }

  plan::FlashScores flash_scores(const Call& attention) const override {
    return cuda::flash_scores(attention, options_.tf32);
  }

  std::span<const passes::Pass* const> passes() const override { return cuda::passes(); }

  bool has_native_gemm(const Call& matmul) const override {
    return cuda::has_native_gemm(matmul, options_.tf32);
  }

  int transposed_operand(const Call& matmul) const override {
    return cuda::transposed_operand(matmul, device_.facts(), options_.tf32);
  }
  bool prefers_streamed_gemm(const Shape& x,
                             const Shape& weight,
                             bool has_activation) const override {
    return cuda::prefers_streamed_gemm(x, weight, has_activation);
  }

  std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) override {
    return std::make_unique<DeviceMemory>(bytes, what);
  }

  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    ring_.copy(to, from, bytes, device_.stream());
  }

  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    // The driver takes longer for memory that is not pinned.
    if (const auto copy = start_copy_out(from, bytes)) {
      std::ranges::copy(copy->wait(), static_cast<std::byte*>(to));
      return;
    }
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                          device_.stream()),
          "copying from the GPU");
    synchronize();
  }

  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                          device_.stream()),
          "copying on the GPU");
  }

  std::unique_ptr<CopyOut> start_copy_out(const std::byte* from, int64_t bytes) override {
    return bytes <= HostCopies::kMostBytes ? copies_.start(from, bytes, device_.stream()) : nullptr;
  }

  void synchronize() override {
    device_.synchronize();
    faults_.raise();
  }

  int64_t available_bytes() const override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return static_cast<int64_t>(free);
  }
  // The driver reports no peak, but a run holds its memory until it ends, so the peak is the
  // current value.
  ProcessMemory taken_memory() const override {
    int64_t taken = device_.facts().memory_bytes - available_bytes();
    return {taken, taken};
  }

  Launch bind(const BindCall& call) override {
    Launch launch = TableBackend::bind(call);
    return options_.nvtx ? in_nvtx_range(std::move(launch), call.node) : launch;
  }

  std::unique_ptr<Recording> record(std::span<const NodeLaunch> launches) override {
    return options_.capture ? record_graph(device_, launches, nullptr) : nullptr;
  }

  // A recording needs no probe.
  const EnqueueProbe* enqueue_probe() override {
    if (options_.capture) return nullptr;
    if (launches_ == nullptr) {
      launches_ = std::make_unique<MixedLaunches>(device_, options_.tf32);
      enqueue_probe_ = launches_->probe();
    }
    return &enqueue_probe_;
  }

  Instrument* instrument() override {
    if (instrument_ == nullptr) instrument_ = make_kernel_clock(device_);
    return instrument_.get();
  }

 private:
  const KernelTable& kernels() const override { return kernels_; }

  bool is_short_product(const Graph& graph, const Node& node) const {
    if (node.op->name != "matmul") return false;
    const CallTypes types(graph, node);
    return cuda::is_short_product(node.op->work(types.call()).macs, types.call().inputs[0].dtype,
                                  device_.facts(), options_.tf32);
  }

  CudaOptions options_;
  Device device_;
  StagingRing ring_;
  IndexFaults faults_;
  HostCopies copies_{faults_};
  Tickets tickets_;
  GemmTuner tuner_;
  PointwiseCompiler compiler_;
  CountedCollectives collectives_;
  BindContext context_{device_,  options_.tf32,        tuner_, compiler_, faults_,
                       tickets_, collectives_.groups()};
  KernelTable kernels_{cuda_kernels(context_)};
  std::unique_ptr<Instrument> instrument_;
  std::unique_ptr<MixedLaunches> launches_;  // created on first use
  EnqueueProbe enqueue_probe_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

std::string why_no_gpu() { return missing_device(); }

int gpu_count() { return device_count(); }

std::string gpu_name() { return Device().facts().name; }

std::string gpu_architecture() { return Device().facts().architecture(); }

}  // namespace ridge::backends::cuda
