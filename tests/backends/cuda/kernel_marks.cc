// SPDX-License-Identifier: Apache-2.0
// Prints a table that compares memory-bound kernels with a device copy of the same number of bytes,
// and shows the rate of flash attention. Not a test: nothing is expected.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/kernels/adamw.h"
#include "backends/cuda/kernels/flash_attention/flash_attention.h"
#include "backends/cuda/kernels/losses/softmax_cross_entropy.h"
#include "backends/cuda/kernels/pointwise/glu.h"
#include "backends/cuda/kernels/pointwise/pointwise.h"
#include "backends/cuda/kernels/rms_norm/rms_norm.h"
#include "backends/cuda/kernels/rope/rope.h"
#include "base/bf16.h"
#include "base/error.h"
#include "base/random.h"

namespace ridge::backends::cuda {
namespace {

constexpr int64_t kPoolBytes = int64_t{6} << 30;
// Operand sets rotate over this many bytes, so that no cache holds them.
constexpr int64_t kSpreadBytes = int64_t{1} << 30;
constexpr int64_t kPageBytes = 4096;
constexpr int kSamples = 15;

void fill_at_random(DeviceMemory& pool) {
  Random random(7);
  std::vector<float> normal(size_t{1} << 22);
  random.fill_normal(normal, 0.5f);
  std::vector<uint16_t> block(normal.size());  // normal numbers in bf16 and in fp32
  std::transform(normal.begin(), normal.end(), block.begin(), float_to_bf16);
  int64_t bytes = static_cast<int64_t>(block.size() * sizeof(uint16_t));
  for (int64_t at = 0; at < kPoolBytes; at += bytes)
    check(cudaMemcpy(pool.data() + at, block.data(), static_cast<size_t>(bytes),
                     cudaMemcpyHostToDevice),
          "filling operands");
}

// Allocates operands one after the other.
class Cut {
 public:
  explicit Cut(std::byte* at) : at_(at) {}
  template <typename T>
  T* take(int64_t elements) {
    T* taken = reinterpret_cast<T*>(at_);
    at_ += (elements * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
    return taken;
  }

 private:
  std::byte* at_;
};

class Marks {
 public:
  Marks() : pool_(kPoolBytes, "operands"), small_(int64_t{64} << 20, "small operands") { renew(); }

  // Values that kernels wrote in one type may not be normal numbers in another type.
  void renew() { fill_at_random(pool_); }

  cudaStream_t stream() const { return device_.stream(); }
  std::byte* small() const { return small_.data(); }  // zeros

  // `launch` places its operands from the given address on, in at most `footprint` bytes. It reads
  // and writes `bytes` bytes.
  void against_copy(const std::string& name,
                    double bytes,
                    int64_t footprint,
                    const std::function<void(std::byte*)>& launch) {
    double us = rotating_us(bytes, footprint, launch);
    // A copy of more than 512 MB, or of a partial page, takes a slower path.
    int64_t half =
        std::min(static_cast<int64_t>(bytes / 2), int64_t{256} << 20) / kPageBytes * kPageBytes;
    double copy_us = rotating_us(2.0 * static_cast<double>(half), 2 * half, [&](std::byte* at) {
      check(cudaMemcpyAsync(at + half, at, static_cast<size_t>(half), cudaMemcpyDeviceToDevice,
                            stream()),
            "copying");
    });
    double rate = bytes / us, copy_rate = 2 * static_cast<double>(half) / copy_us;
    fmt::print("{:<44} {:8.1f} MB {:9.2f} us {:7.0f} GB/s   copy {:7.0f} GB/s   {:5.1f}%\n", name,
               bytes / 1e6, us, rate / 1e3, copy_rate / 1e3, 100 * rate / copy_rate);
    std::fflush(stdout);
  }

  void rate(const std::string& name, double flops, const std::function<void(std::byte*)>& launch) {
    double us = graph_us(10, [&](int) { launch(pool_.data()); });
    fmt::print("{:<44} {:9.1f} us {:7.1f} TFLOP/s\n", name, us, flops / us / 1e6);
    std::fflush(stdout);
  }

 private:
  double rotating_us(double bytes,
                     int64_t footprint,
                     const std::function<void(std::byte*)>& launch) {
    int64_t step = (footprint + kPageBytes - 1) / kPageBytes * kPageBytes;
    RIDGE_CHECK(step <= kPoolBytes, "a set of {} bytes", step);
    int64_t sets =
        std::clamp<int64_t>(kSpreadBytes / step, std::min<int64_t>(2, kPoolBytes / step), 64);
    int launches = std::clamp(static_cast<int>(8e9 / bytes), static_cast<int>(sets), 64);
    return graph_us(launches, [&](int i) { launch(pool_.data() + i % sets * step); });
  }

  // The median over replays of a graph of launches, so that the host's time does not count.
  double graph_us(int launches, const std::function<void(int)>& launch) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    launch(0);  // lazy loading happens here
    check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "recording");
    for (int i = 0; i < launches; ++i) launch(i);
    check(cudaStreamEndCapture(stream(), &graph), "recording");
    check(cudaGraphInstantiate(&executable, graph, 0), "recording");
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin), "making an event");
    check(cudaEventCreate(&end), "making an event");
    std::vector<float> times;
    for (int i = 0; i < kSamples + 3; ++i) {
      check(cudaEventRecord(begin, stream()), "timing");
      check(cudaGraphLaunch(executable, stream()), "timing");
      check(cudaEventRecord(end, stream()), "timing");
      check(cudaEventSynchronize(end), "timing");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin, end), "timing");
      if (i >= 3) times.push_back(ms);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    std::nth_element(times.begin(), times.begin() + kSamples / 2, times.end());
    return times[kSamples / 2] * 1e3 / launches;
  }

  Device device_;
  DeviceMemory pool_;
  DeviceMemory small_;
};

template <typename T>
std::string title(const char* op, int64_t rows, int64_t width) {
  return fmt::format("{} {} {}x{}", op, sizeof(T) == 2 ? "bf16" : "f32", rows, width);
}

template <typename T>
void norms(Marks& marks, int64_t n, int64_t d) {
  const int64_t matrix = n * d * static_cast<int64_t>(sizeof(T)) + 256,
                vectors = 8 * (n + d) + 4096;
  const double bytes = static_cast<double>(n * d) * sizeof(T);
  auto norm_of = [&](Cut& cut) {
    RmsNorm<T> norm;
    norm.tokens = n, norm.width = d, norm.eps = 1e-5f;
    norm.x = {cut.take<T>(n * d), d}, norm.y = {cut.take<T>(n * d), d};
    norm.weight = cut.take<float>(d), norm.rstd = cut.take<float>(n);
    return norm;
  };
  marks.against_copy(title<T>("rms_norm", n, d), 2 * bytes, 2 * matrix + vectors,
                     [&](std::byte* at) {
                       Cut cut(at);
                       check(launch_rms_norm(norm_of(cut), marks.stream()), "rms_norm");
                     });
  marks.against_copy(
      title<T>("add_rms_norm", n, d), 4 * bytes, 4 * matrix + vectors, [&](std::byte* at) {
        Cut cut(at);
        RmsNorm<T> norm = norm_of(cut);
        StridedRows<const T> residual{cut.take<T>(n * d), d};
        check(launch_add_rms_norm(norm, residual, {cut.take<T>(n * d), d}, marks.stream()),
              "add_rms_norm");
      });
  const int64_t scratch = rms_norm_backward_workspace_bytes(n, d);
  marks.against_copy(title<T>("rms_norm_backward, residual", n, d), 4 * bytes,
                     4 * matrix + vectors + scratch, [&](std::byte* at) {
                       Cut cut(at);
                       Ticketed<RmsNormBackward<T>> norm;
                       norm.tokens = n, norm.width = d;
                       norm.dy = {cut.take<T>(n * d), d}, norm.x = {cut.take<T>(n * d), d};
                       norm.d_residual = {cut.take<T>(n * d), d}, norm.dx = {cut.take<T>(n * d), d};
                       norm.weight = cut.take<float>(d), norm.d_weight = cut.take<float>(d);
                       norm.rstd = cut.take<float>(n);
                       norm.workspace = cut.take<float>(scratch / 4);
                       norm.tickets = reinterpret_cast<int32_t*>(marks.small());
                       check(launch_rms_norm_backward(norm, marks.stream()), "rms_norm_backward");
                     });
}

// gate and up as slices of one projection.
template <typename T>
void glus(Marks& marks, int64_t n, int64_t f, GluActivation activation, const char* name) {
  const int64_t matrix = n * f * static_cast<int64_t>(sizeof(T)) + 256;
  const double bytes = static_cast<double>(n * f) * sizeof(T);
  marks.against_copy(title<T>(name, n, f), 3 * bytes, 3 * matrix, [&](std::byte* at) {
    Cut cut(at);
    T* merged = cut.take<T>(2 * n * f);
    Glu<T> glu{n, f, activation, {merged, 2 * f}, {merged + f, 2 * f}, {cut.take<T>(n * f), f}};
    check(launch_glu(glu, marks.stream()), "glu");
  });
  marks.against_copy(title<T>((std::string(name) + " backward").c_str(), n, f), 5 * bytes,
                     5 * matrix, [&](std::byte* at) {
                       Cut cut(at);
                       T *merged = cut.take<T>(2 * n * f), *gradient = cut.take<T>(2 * n * f);
                       GluBackward<T> glu{n,
                                          f,
                                          activation,
                                          {cut.take<T>(n * f), f},
                                          {merged, 2 * f},
                                          {merged + f, 2 * f},
                                          {gradient, 2 * f},
                                          {gradient + f, 2 * f}};
                       check(launch_glu_backward(glu, marks.stream()), "glu_backward");
                     });
}

template <typename T>
void ropes(Marks& marks, int64_t n, int64_t d, RopePairs pairs, const char* name) {
  constexpr int64_t kHead = 128;
  const int64_t matrix = n * d * static_cast<int64_t>(sizeof(T)) + 256, table = n * kHead * 4 + 512;
  const double bytes = 2.0 * static_cast<double>(n * d) * sizeof(T) + static_cast<double>(table);
  marks.against_copy(title<T>(name, n, d), bytes, 2 * matrix + table, [&](std::byte* at) {
    Cut cut(at);
    Rope<T> rope;
    rope.tokens = n, rope.heads = rope.rotated_heads = d / kHead, rope.head_size = kHead;
    rope.pairs = pairs;
    rope.x = {cut.take<T>(n * d), d, kHead}, rope.y = {cut.take<T>(n * d), d, kHead};
    rope.cos = cut.take<float>(n * kHead / 2), rope.sin = cut.take<float>(n * kHead / 2);
    check(launch_rope(rope, marks.stream()), "rope");
  });
}

template <typename T>
void cross_entropies(Marks& marks, int64_t n, int64_t v) {
  const int64_t matrix = n * v * static_cast<int64_t>(sizeof(T)) + 256;
  const double bytes = static_cast<double>(n * v) * sizeof(T);
  Cut small(marks.small());
  auto *tickets = small.take<int32_t>(kTicketWords), *labels = small.take<int32_t>(n);
  check(cudaMemset(tickets, 0, kTicketWords * sizeof(int32_t)), "tickets");
  check(cudaMemset(labels, 0, static_cast<size_t>(n) * sizeof(int32_t)), "labels");
  auto *lse = small.take<float>(n), *loss = small.take<float>(1), *d_loss = small.take<float>(1);
  auto* count = small.take<int32_t>(1);
  auto* workspace =
      reinterpret_cast<double*>(small.take<std::byte>(softmax_cross_entropy_workspace_bytes(n)));
  marks.against_copy(
      title<T>("softmax_cross_entropy (reads)", n, v), bytes, matrix, [&](std::byte* at) {
        Ticketed<Watched<SoftmaxCrossEntropy<T>>> call{
            {{n, v, {Cut(at).take<T>(n * v), v}, labels, lse, loss, count, workspace}}, tickets};
        check(launch_softmax_cross_entropy(call, marks.stream()), "loss");
      });
  marks.against_copy(
      title<T>("softmax_cross_entropy_backward", n, v), 2 * bytes, 2 * matrix, [&](std::byte* at) {
        Cut cut(at);
        Watched<SoftmaxCrossEntropyBackward<T>> call{
            {n, v, {cut.take<T>(n * v), v}, labels, lse, d_loss, count, {cut.take<T>(n * v), v}}};
        check(launch_softmax_cross_entropy_backward(call, marks.stream()), "loss");
      });
}

void updates(Marks& marks, int64_t elements, int count, bool bf16) {
  float scalars[3] = {1e-4f, 100, 1};
  Cut small(marks.small() + (int64_t{32} << 20));
  auto* step_scalars = small.take<float>(3);
  check(cudaMemcpy(step_scalars, scalars, sizeof scalars, cudaMemcpyHostToDevice), "adamw");
  AdamwStep step;
  step.learning_rate = step_scalars, step.step = step_scalars + 1;
  marks.against_copy(
      fmt::format("adamw {} x {}{}", count, elements, bf16 ? ", bf16 gradient and copy" : ""),
      28.0 * static_cast<double>(elements * count), count * (elements * 18 + 2048),
      [&](std::byte* at) {
        Cut cut(at);
        std::vector<AdamwTensor> tensors(static_cast<size_t>(count));
        for (AdamwTensor& t : tensors) {
          t.elements = elements;
          t.parameter = cut.take<float>(elements);
          t.m = cut.take<float>(elements), t.v = cut.take<float>(elements);
          if (bf16)
            t.bf16_gradient = cut.take<uint16_t>(elements),
            t.bf16_parameter = cut.take<uint16_t>(elements);
          else
            t.gradient = cut.take<float>(elements);
        }
        check(launch_adamw(tensors, step, false, marks.stream()), "adamw");
      });
}

void gelu(Marks& marks, DType dtype) {
  constexpr int64_t kElements = int64_t{1} << 28;
  const int64_t bytes = storage_bytes(dtype, kElements);
  marks.against_copy(fmt::format("gelu_tanh {} 2^28", name(dtype)),
                     2.0 * static_cast<double>(bytes), 2 * bytes, [&](std::byte* at) {
                       PointwiseCall call;
                       call.function = Pointwise::kGeluTanh;
                       call.rank = 1, call.extents[0] = kElements;
                       call.a = {at, dtype, {1}}, call.y = {at + bytes, dtype, {1}};
                       check(launch_pointwise(call, marks.stream()), "gelu_tanh");
                     });
}

// Rates by the usual convention: 4 E and 10 E FLOPs per (query, key) pair, half of the square for a
// causal mask.
void attention(Marks& marks, int64_t sequence, int64_t head_size) {
  AttentionExtents e;
  e.sequence = sequence, e.batch = 16384 / sequence;
  e.heads = e.kv_heads = 2048 / head_size, e.head_size = head_size, e.scale = 0.1f;
  const int64_t elements = 16384 * 2048;
  const double pairs = static_cast<double>(e.batch * e.heads * sequence * sequence) / 2;
  const int64_t room = int64_t{1} << 30;
  auto gradient = AttentionGradient::kSpill;
  const int64_t forward_bytes = flash_attention_forward_workspace_bytes(e, DType::kBF16);
  const int64_t backward_bytes =
      flash_attention_backward_workspace_bytes(e, DType::kBF16, gradient, int64_t{256} << 20);
  RIDGE_CHECK(std::max(forward_bytes, backward_bytes) <= room, "workspace");
  auto operands = [&](std::byte* at) {
    Cut cut(at);
    cut.take<std::byte>(room);
    const int64_t token = e.heads * head_size;
    std::vector<std::byte*> all;
    for (int i = 0; i < 8; ++i)
      all.push_back(reinterpret_cast<std::byte*>(cut.take<uint16_t>(elements)));
    AttentionBackward b{
        {all[0], token, head_size}, {all[1], token, head_size}, {all[2], token, head_size},
        {all[3], token, head_size}, {all[4], token, head_size}, cut.take<float>(16384 * e.heads),
        {all[5], token, head_size}, {all[6], token, head_size}, {all[7], token, head_size}};
    return b;
  };
  const double flops = static_cast<double>(head_size) * pairs;
  marks.rate(fmt::format("flash_attention bf16 causal E{} S{}", head_size, sequence), 4 * flops,
             [&](std::byte* at) {
               AttentionBackward b = operands(at);
               AttentionOutput o{const_cast<void*>(b.o.data), b.o.token_stride, b.o.head_stride};
               check(launch_flash_attention_forward(e, DType::kBF16, b.q, b.k, b.v, o,
                                                    const_cast<float*>(b.lse), at, forward_bytes,
                                                    marks.stream()),
                     "flash_attention");
             });
  marks.rate(fmt::format("flash_attention_backward bf16 causal E{} S{}", head_size, sequence),
             10 * flops, [&](std::byte* at) {
               check(launch_flash_attention_backward(e, DType::kBF16, operands(at), gradient, at,
                                                     backward_bytes, marks.stream()),
                     "flash_attention_backward");
             });
}

void run() {
  Marks marks;
  for (int64_t d : {1024, 4096}) {
    norms<uint16_t>(marks, (int64_t{1} << 26) / d, d);
    norms<float>(marks, (int64_t{1} << 25) / d, d);
  }
  norms<uint16_t>(marks, 16384, 2048);  // 64 MB each
  glus<uint16_t>(marks, 16384, 4096, GluActivation::kSilu, "swiglu");
  glus<float>(marks, 8192, 4096, GluActivation::kSilu, "swiglu");
  glus<uint16_t>(marks, 65536, 4096, GluActivation::kGeluTanh, "geglu");  // 2^28 elements
  for (auto [pairs, name] : {std::pair{RopePairs::kHalves, "rope halves"},
                             std::pair{RopePairs::kInterleaved, "rope interleaved"}}) {
    ropes<uint16_t>(marks, 16384, 4096, pairs, name);
    ropes<float>(marks, 8192, 4096, pairs, name);
  }
  cross_entropies<uint16_t>(marks, 8192, 32000);
  cross_entropies<float>(marks, 8192, 32000);
  cross_entropies<uint16_t>(marks, 4096, 128256);
  cross_entropies<uint16_t>(marks, 65536, 1000);
  updates(marks, int64_t{1} << 24, 8, false);
  updates(marks, int64_t{1} << 24, 8, true);
  updates(marks, int64_t{1} << 20, 64, true);
  gelu(marks, DType::kF32);
  gelu(marks, DType::kBF16);
  marks.renew();  // a softmax of other values takes longer
  for (int64_t head_size : {64, 128, 256}) attention(marks, 4096, head_size);
}

}  // namespace
}  // namespace ridge::backends::cuda

int main() {
  try {
    ridge::backends::cuda::run();
    return 0;
  } catch (const ridge::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
