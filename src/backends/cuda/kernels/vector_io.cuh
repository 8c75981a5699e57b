// SPDX-License-Identifier: Apache-2.0
// Vectors of elements as stored in memory, and as floats: loads and stores of up to 16 bytes per
// instruction. The host checks which vectors an operand's alignment allows.
#pragma once

#include <type_traits>

#include "backends/cuda/kernels/gpu_dialect.cuh"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

// Elements of T in 16 bytes.
template <typename T>
inline constexpr int kVectorOf = 16 / static_cast<int>(sizeof(T));

// kCount consecutive elements of type T (float, uint16_t as bf16), loaded and stored in words of 16
// bytes or fewer.
template <typename T, int kCount>
struct Packed {
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  using Word = std::conditional_t<
      kBytes % 16 == 0,
      uint4,
      std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, uint32_t, uint16_t>>>;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  Word words[kWords];
};

template <int kCount, typename T>
__device__ __forceinline__ Packed<std::remove_const_t<T>, kCount> load_packed(T* p) {
  using Vector = Packed<std::remove_const_t<T>, kCount>;
  Vector vector;
#pragma unroll
  for (int i = 0; i < Vector::kWords; ++i)
    vector.words[i] = reinterpret_cast<const typename Vector::Word*>(p)[i];
  return vector;
}

template <typename T, int kCount>
__device__ __forceinline__ void store_packed(T* p, const Packed<T, kCount>& vector) {
  using Vector = Packed<T, kCount>;
#pragma unroll
  for (int i = 0; i < Vector::kWords; ++i)
    reinterpret_cast<typename Vector::Word*>(p)[i] = vector.words[i];
}

__device__ __forceinline__ void split_word(const uint4& word, uint32_t* bits) {
  bits[0] = word.x;
  bits[1] = word.y;
  bits[2] = word.z;
  bits[3] = word.w;
}
__device__ __forceinline__ void split_word(const uint2& word, uint32_t* bits) {
  bits[0] = word.x;
  bits[1] = word.y;
}
__device__ __forceinline__ void split_word(uint32_t word, uint32_t* bits) { bits[0] = word; }
__device__ __forceinline__ void join_word(const uint32_t* bits, uint4& word) {
  word = make_uint4(bits[0], bits[1], bits[2], bits[3]);
}
__device__ __forceinline__ void join_word(const uint32_t* bits, uint2& word) {
  word = make_uint2(bits[0], bits[1]);
}
__device__ __forceinline__ void join_word(const uint32_t* bits, uint32_t& word) { word = bits[0]; }

template <typename T, int kCount>
__device__ __forceinline__ void unpack(const Packed<T, kCount>& vector, float (&values)[kCount]) {
  using Vector = Packed<T, kCount>;
  if constexpr (Vector::kBytes < 4) {
    values[0] = to_float(vector.words[0]);
  } else {
    uint32_t bits[Vector::kBytes / 4];
#pragma unroll
    for (int i = 0; i < Vector::kWords; ++i)
      split_word(vector.words[i], bits + i * static_cast<int>(sizeof(typename Vector::Word)) / 4);
#pragma unroll
    for (int i = 0; i < Vector::kBytes / 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        values[i] = __uint_as_float(bits[i]);
      } else {
        values[2 * i] = __uint_as_float(bits[i] << 16);
        values[2 * i + 1] = __uint_as_float(bits[i] & 0xffff0000u);
      }
    }
  }
}

// NaN is ignored.
template <typename T, int kCount, int kVectors>
__device__ __forceinline__ float max_element(const Packed<T, kCount> (&vectors)[kVectors]) {
  constexpr int kBits = Packed<T, kCount>::kBytes / 4;
  if constexpr (sizeof(T) == 2 && kBits > 0) {  // two at a time
    using Word = typename Packed<T, kCount>::Word;
    uint32_t bits[kVectors * kBits];
#pragma unroll
    for (int k = 0; k < kVectors; ++k)
#pragma unroll
      for (int i = 0; i < Packed<T, kCount>::kWords; ++i)
        split_word(vectors[k].words[i], bits + k * kBits + i * static_cast<int>(sizeof(Word)) / 4);
#pragma unroll
    for (int i = 1; i < kVectors * kBits; ++i) bits[0] = max_bf16_pairs(bits[0], bits[i]);
    return fmaxf(__uint_as_float(bits[0] << 16), __uint_as_float(bits[0] & 0xffff0000u));
  } else {
    float top = -__builtin_huge_valf();
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      float v[kCount];
      unpack(vectors[k], v);
#pragma unroll
      for (int i = 0; i < kCount; ++i) top = fmaxf(top, v[i]);
    }
    return top;
  }
}

// bf16: rounded to nearest even.
template <typename T, int kCount>
__device__ __forceinline__ Packed<T, kCount> pack(const float (&values)[kCount]) {
  using Vector = Packed<T, kCount>;
  Vector vector;
  if constexpr (Vector::kBytes < 4) {
    vector.words[0] = from_float<T>(values[0]);
  } else {
    uint32_t bits[Vector::kBytes / 4];
#pragma unroll
    for (int i = 0; i < Vector::kBytes / 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        bits[i] = __float_as_uint(values[i]);
      } else {
        bits[i] = pack_bf16(values[2 * i], values[2 * i + 1]);
      }
    }
#pragma unroll
    for (int i = 0; i < Vector::kWords; ++i)
      join_word(bits + i * static_cast<int>(sizeof(typename Vector::Word)) / 4, vector.words[i]);
  }
  return vector;
}

template <int kCount, typename T>
__device__ __forceinline__ void load_floats(const T* p, float (&values)[kCount]) {
  unpack(load_packed<kCount>(p), values);
}
template <int kCount, typename T>
__device__ __forceinline__ void store_floats(T* p, const float (&values)[kCount]) {
  store_packed(p, pack<T, kCount>(values));
}

// Whether vectors of kCount elements (with at most 16 bytes per access) may start at every multiple
// of kCount.
template <int kCount, typename T>
bool takes_vectors(const T* data) {
  constexpr uintptr_t kBytes = kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16;
  return reinterpret_cast<uintptr_t>(data) % kBytes == 0;
}
// The same for each row. An absent operand supports any vectors.
template <int kCount, typename T>
bool takes_vectors(const StridedRows<T>& rows) {
  constexpr int64_t kBytes = kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16;
  return takes_vectors<kCount>(rows.data) &&
         rows.stride * static_cast<int64_t>(sizeof(T)) % kBytes == 0;
}

}  // namespace ridge::backends::cuda
