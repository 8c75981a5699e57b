// SPDX-License-Identifier: Apache-2.0
// Measures proposals on random operands.
#include "backends/cuda/gemm_tuner.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/recording.h"
#include "backends/random_block.h"
#include "backends/tuning_file.h"
#include "base/error.h"
#include "base/samples.h"
#include "base/shape.h"

namespace ridge::backends::cuda {
namespace {

constexpr int kCandidates = 12;
// A proposal must be faster by more than this to displace one listed before it: medians of 5 runs
// differ by about 1%, and in a step other kernels run next to it than in the measurement.
constexpr double kMargin = 0.04;
constexpr double kHopeless = 2;
constexpr int kRuns = 5;
constexpr double kEnoughMs = 1;  // short products are repeated until a run lasts this long

int64_t matrix_bytes(int64_t batch, int64_t batch_stride, int64_t last, DType dtype) {
  return storage_bytes(dtype, (batch - 1) * batch_stride + last + 1);
}

// Random data, repeated from one block, because zeros multiply faster.
std::unique_ptr<DeviceMemory> random_operand(int64_t bytes, DType dtype) {
  constexpr int64_t kBlockBytes = int64_t{1} << 20;
  const std::vector<std::byte> block =
      random_block(dtype, std::min(round_up(bytes, 256), kBlockBytes), 1);
  auto memory = std::make_unique<DeviceMemory>(round_up(bytes, 256), "tuning operand");
  for (int64_t at = 0; at < memory->bytes(); at += kBlockBytes) {
    int64_t part = std::min<int64_t>(static_cast<int64_t>(block.size()), memory->bytes() - at);
    check(cudaMemcpy(memory->data() + at, block.data(), static_cast<size_t>(part),
                     cudaMemcpyHostToDevice),
          "writing a tuning operand");
  }
  return memory;
}

// The matrices of one product.
struct Operands {
  std::unique_ptr<DeviceMemory> a, b, c;
  int64_t bytes() const { return a->bytes() + b->bytes() + c->bytes(); }
};

Operands random_operands(const GemmShape& g) {
  int64_t batch = g.batch.empty() ? 1 : g.batch[0];
  auto operand = [&](const std::vector<int64_t>& stride, int64_t last, DType dtype) {
    return random_operand(matrix_bytes(batch, stride.empty() ? 0 : stride[0], last, dtype), dtype);
  };
  return {operand(g.a_batch, (g.m - 1) * g.a_m + (g.k - 1) * g.a_k, g.input),
          operand(g.b_batch, (g.k - 1) * g.b_k + (g.n - 1) * g.b_n, g.input),
          operand(g.c_batch, (g.m - 1) * g.c_m + (g.n - 1) * g.c_n, g.output)};
}

// Times proposals as a step runs them: inside a graph, on operands that are no longer in the L2
// cache, one after the other. A product for a part of the GPU runs next to copies of itself that
// fill the rest, at most eight in total. Outside a graph this would measure the host, and on the
// same operands the cache.
class Trial {
 public:
  Trial(Device& device, const GemmProblem& problem)
      : device_(device),
        problem_(problem),
        copies_(
            problem.multiprocessors() > 0
                ? std::min(kMostSets, device.facts().multiprocessors / problem.multiprocessors())
                : 1),
        workspaces_(copies_ * kGemmWorkspaceBytes, "tuning workspace") {
    // At least one set per copy, and equally many for each copy.
    int64_t held = 0;
    do {
      for (int copy = 0; copy < copies_; ++copy) {
        sets_.push_back(random_operands(problem.shape()));
        held += sets_.back().bytes();
      }
    } while (held < 2 * device.facts().l2_bytes && std::ssize(sets_) < kMostSets);
    check(cudaEventCreate(&begin_), "making an event");
    check(cudaEventCreate(&end_), "making an event");
  }
  ~Trial() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Trial(const Trial&) = delete;

  // Gives up after one run on a proposal that is far slower than the best so far (0: none yet).
  double median_ms(const GemmAlgorithm& algorithm, double best_ms) {
    int few = static_cast<int>(sets_.size());
    double first = ms(algorithm, few, 1);
    if (best_ms > 0 && first > kHopeless * best_ms) return first;
    return ms(algorithm, std::clamp(static_cast<int>(kEnoughMs / std::max(first, 1e-3)), few, 200),
              kRuns);
  }

 private:
  static constexpr int kMostSets = 8;

  double ms(const GemmAlgorithm& algorithm, int repeats, int runs) {
    std::vector<NodeLaunch> launches;
    for (int i = 0; i < repeats; ++i) {
      const Operands& o = sets_[static_cast<size_t>(i) % sets_.size()];
      std::byte* workspace = workspaces_.data() + i % copies_ * kGemmWorkspaceBytes;
      Launch launch = [this, algorithm, &o, workspace] {
        problem_.launch_stored(algorithm, o.a->data(), o.b->data(), o.c->data(), workspace,
                               device_.stream());
      };
      std::vector<int> after;
      if (i >= copies_) after.push_back(i - copies_);
      launches.push_back({kNoNode, std::move(launch), std::move(after), false});
    }
    launches[0].launch();  // loads what CUDA loads lazily before the recording
    std::unique_ptr<Recording> recording = record_graph(device_, launches, nullptr);
    std::vector<double> times;
    for (int run = 0; run <= runs; ++run) {
      check(cudaEventRecord(begin_, device_.stream()), "timing a product");
      recording->replay();
      check(cudaEventRecord(end_, device_.stream()), "timing a product");
      check(cudaEventSynchronize(end_), "timing a product");
      float elapsed = 0;
      check(cudaEventElapsedTime(&elapsed, begin_, end_), "timing a product");
      if (run > 0) times.push_back(elapsed / repeats);
    }
    return median(times);
  }

  Device& device_;
  const GemmProblem& problem_;
  int copies_;
  DeviceMemory workspaces_;
  std::vector<Operands> sets_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

std::string identity_of(const Device& device) {
  const DeviceFacts& facts = device.facts();
  // Includes how choices are made, so that choices made differently are made again.
  return fmt::format("{}, {}, driver {}, cuBLASLt {}, kernel of pieces, beside copies", facts.name,
                     facts.architecture(), facts.driver_version, cublaslt().version());
}

struct Choice {
  GemmAlgorithm algorithm{};
  TunedTimes times;  // 0 where there was one candidate
};

Choice fastest(Device& device,
               const GemmProblem& problem,
               const std::vector<GemmAlgorithm>& candidates) {
  Trial trial(device, problem);
  std::vector<double> times_ns;
  double best_ms = 0;
  for (const GemmAlgorithm& candidate : candidates) {
    const double ms = problem.accepts(candidate) ? trial.median_ms(candidate, best_ms) : 0;
    if (ms > 0 && (best_ms == 0 || ms < best_ms)) best_ms = ms;
    times_ns.push_back(1e6 * ms);
  }
  const size_t chosen = first_of_fastest(times_ns, kMargin);
  const double usual_ns = times_ns[0] > 0 ? times_ns[0] : times_ns[chosen];
  return {candidates[chosen], {times_ns[chosen], usual_ns}};
}

}  // namespace

GemmTuner::GemmTuner(Device& device, bool measures, std::string path)
    : device_(device),
      measures_(measures),
      kept_(measures ? path : "", measures && !path.empty() ? identity_of(device) : "") {}

std::optional<GemmAlgorithm> GemmTuner::choose(const GemmProblem& problem) {
  const std::string key = problem.key();
  const auto usable = [&](const TunedChoice& kept) -> std::optional<GemmAlgorithm> {
    const auto* words = std::get_if<std::vector<uint64_t>>(&kept);
    GemmAlgorithm algorithm{};
    if (words == nullptr || words->size() != algorithm.size()) return std::nullopt;
    std::ranges::copy(*words, algorithm.begin());
    return problem.accepts(algorithm) ? std::optional(algorithm) : std::nullopt;
  };
  if (const TunedChoice* kept = kept_.find(key))
    if (const std::optional<GemmAlgorithm> algorithm = usable(*kept)) return algorithm;
  const std::vector<GemmAlgorithm> candidates = problem.candidates(measures_ ? kCandidates : 1);
  if (candidates.empty()) return std::nullopt;
  const Choice own = measures_ && candidates.size() > 1 ? fastest(device_, problem, candidates)
                                                        : Choice{candidates[0], {}};
  return usable(kept_.keep(key, std::vector<uint64_t>(own.algorithm.begin(), own.algorithm.end()),
                           own.times))
      .value_or(own.algorithm);
}

}  // namespace ridge::backends::cuda
