// SPDX-License-Identifier: Apache-2.0
// AdamW is pointwise, so the result does not depend on how elements are split among blocks. Also
// computes the clipping factor, a scalar.
#include "backends/cuda/kernels/adamw.h"

#include <memory>

#include "backends/cuda/kernels/tensor_list.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 256;
// Elements per block, one vector of four per thread: few, because other kernels may wait for the
// block's resources.
constexpr int64_t kPiece = 1024;

// Shared memory that a block reserves but does not use. It limits a Hopper multiprocessor to three
// blocks, whose loads still saturate the memory, and leaves threads and registers for other
// kernels.
constexpr int kRoomyBytes = 70'000;

struct Tensor {
  float* parameter;
  const void* gradient;
  float* m;
  float* v;
  uint16_t* copy;
  int64_t elements;
  float weight_decay;
  bool gradient_is_f32;
  bool takes_vectors;
};

template <int kCapacity>
struct Arguments {
  AdamwStep step;
  TensorList<Tensor, kCapacity> list;
};

// The step's constants, computed in double once per block.
struct Scalars {
  float keep;  // 1 - lr weight_decay
  float to_m;  // 1 - beta1
  float beta2;
  float to_v;  // 1 - beta2
  float root;  // sqrt(1 - beta2^step)
  float eps;
  float step_size;  // lr / (1 - beta1^step)
  float scale;      // factor of the gradient
};

__device__ __forceinline__ void compute_scalars(const AdamwStep& p,
                                                float weight_decay,
                                                Scalars& s) {
  // Two threads in different warps, so that the two pow calls run in parallel.
  if (threadIdx.x == 0) {
    const double rate = *p.learning_rate;
    s.keep = static_cast<float>(1.0 - rate * weight_decay);
    s.to_m = static_cast<float>(1.0 - p.beta1);
    s.step_size = static_cast<float>(rate / (1.0 - pow(p.beta1, static_cast<double>(*p.step))));
    s.scale = p.gradient_scale == nullptr ? 1.0f : *p.gradient_scale;
  } else if (threadIdx.x == kLanes) {
    s.beta2 = static_cast<float>(p.beta2);
    s.to_v = static_cast<float>(1.0 - p.beta2);
    s.root = static_cast<float>(sqrt(1.0 - pow(p.beta2, static_cast<double>(*p.step))));
    s.eps = static_cast<float>(p.eps);
  }
}

template <typename Gradient, int kCount>
__device__ __forceinline__ void update_piece(const Tensor& tensor,
                                             int64_t first,
                                             const Scalars& shared) {
  // The first loads are issued before the block waits for its scalars.
  const int64_t end = first + kPiece < tensor.elements ? first + kPiece : tensor.elements;
  const auto* gradient = static_cast<const Gradient*>(tensor.gradient);
  bool waited = false;
  Scalars s{};
  constexpr int kRounds = static_cast<int>(kPiece) / (kThreads * kCount);
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    const int64_t at = first + (round * kThreads + static_cast<int>(threadIdx.x)) * kCount;
    const bool inside = at < end;
    float p[kCount], g[kCount], m[kCount], v[kCount];
    if (inside) {
      load_floats(tensor.parameter + at, p);
      load_floats(gradient + at, g);
      load_floats(tensor.m + at, m);
      load_floats(tensor.v + at, v);
    }
    if (!waited) {
      __syncthreads();
      s = shared;
      waited = true;
    }
    if (!inside || s.scale < 0) continue;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float given = g[i] * s.scale;
      m[i] = fmaf(s.to_m, given - m[i], m[i]);
      v[i] = fmaf(given * given, s.to_v, v[i] * s.beta2);
      const float denominator = sqrtf(v[i]) / s.root + s.eps;
      p[i] = p[i] * s.keep - s.step_size * m[i] / denominator;
    }
    store_floats(tensor.m + at, m);
    store_floats(tensor.v + at, v);
    store_floats(tensor.parameter + at, p);
    if (tensor.copy != nullptr) store_floats(tensor.copy + at, p);
  }
}

// Mapping: one block per piece of 1024 elements of one tensor. Bound: memory, 16 (14 for bf16
// gradients) bytes read and 12 (14 with the bf16 copy) written per element.
template <int kCapacity>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const __grid_constant__ Arguments<kCapacity> p) {
  __shared__ Scalars scalars;
  const int index = p.list.tensor_of(blockIdx.x);
  const Tensor& tensor = p.list.tensors[index];
  const int64_t first = static_cast<int64_t>(blockIdx.x - p.list.first_block[index]) * kPiece;
  compute_scalars(p.step, tensor.weight_decay, scalars);
  if (tensor.gradient_is_f32) {
    if (tensor.takes_vectors)
      update_piece<float, 4>(tensor, first, scalars);
    else
      update_piece<float, 1>(tensor, first, scalars);
  } else {
    if (tensor.takes_vectors)
      update_piece<uint16_t, 4>(tensor, first, scalars);
    else
      update_piece<uint16_t, 1>(tensor, first, scalars);
  }
}

Tensor tensor_of(const AdamwTensor& x) {
  Tensor t{x.parameter,
           x.gradient,
           x.m,
           x.v,
           x.bf16_parameter,
           x.elements,
           static_cast<float>(x.weight_decay),
           x.gradient != nullptr,
           false};
  if (!t.gradient_is_f32) t.gradient = x.bf16_gradient;
  t.takes_vectors = x.elements % 4 == 0 && takes_vectors<4>(x.parameter) && takes_vectors<4>(x.m) &&
                    takes_vectors<4>(x.v) && takes_vectors<4>(x.gradient) &&
                    takes_vectors<4>(x.bf16_gradient) && takes_vectors<4>(x.bf16_parameter);
  return t;
}

template <int kCapacity>
cudaError_t launch(std::span<const AdamwTensor> tensors,
                   const AdamwStep& step,
                   bool leaves_room,
                   cudaStream_t stream) {
  // On the heap, because it takes most of 32 KiB.
  const auto p = std::make_unique<Arguments<kCapacity>>();
  p->step = step;
  int64_t blocks = 0;
  for (const AdamwTensor& tensor : tensors) {
    if (tensor.elements < 0 || (tensor.gradient != nullptr && tensor.bf16_gradient != nullptr))
      return cudaErrorInvalidValue;
    if (tensor.elements == 0) continue;
    p->list.tensors[p->list.count] = tensor_of(tensor);
    p->list.first_block[p->list.count++] = static_cast<uint32_t>(blocks);
    blocks += (tensor.elements + kPiece - 1) / kPiece;
    if (blocks >= int64_t{1} << 31) return cudaErrorInvalidValue;
  }
  if (blocks == 0) return cudaSuccess;
  if (leaves_room) {
    const cudaError_t status = cudaFuncSetAttribute(
        adamw_kernel<kCapacity>, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoomyBytes);
    if (status != cudaSuccess) return status;
  }
  adamw_kernel<kCapacity>
      <<<static_cast<unsigned>(blocks), kThreads, leaves_room ? kRoomyBytes : 0, stream>>>(*p);
  return cudaGetLastError();
}

__global__ void clip_coefficient_kernel(const float* sum_squares,
                                        double max_norm,
                                        double epsilon,
                                        float* out) {
  const double factor = max_norm / (sqrt(static_cast<double>(*sum_squares)) + epsilon);
  *out = static_cast<float>(factor < 1.0 ? factor : 1.0);
}

}  // namespace

int adamw_launches(int64_t tensors) {
  return static_cast<int>((tensors + kAdamwMaxTensors - 1) / kAdamwMaxTensors);
}

cudaError_t launch_adamw(std::span<const AdamwTensor> tensors,
                         const AdamwStep& step,
                         bool leaves_room,
                         cudaStream_t stream) {
  // The host clears and sends the whole table: for a single tensor, 23 kB would double the time of
  // a launch.
  if (tensors.size() == 1) return launch<1>(tensors, step, leaves_room, stream);
  for (size_t first = 0; first < tensors.size(); first += kAdamwMaxTensors) {
    const auto part =
        tensors.subspan(first, std::min<size_t>(kAdamwMaxTensors, tensors.size() - first));
    const cudaError_t status = launch<kAdamwMaxTensors>(part, step, leaves_room, stream);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_clip_coefficient(const float* sum_squares,
                                    double max_norm,
                                    double norm_epsilon,
                                    float* coefficient,
                                    cudaStream_t stream) {
  clip_coefficient_kernel<<<1, 1, 0, stream>>>(sum_squares, max_norm, norm_epsilon, coefficient);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
