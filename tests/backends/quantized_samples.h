// SPDX-License-Identifier: Apache-2.0
// Block-quantized weights of every format for the tests of their GEMMs, and the double-precision
// sums that results are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu_kernel_fixture.h"
#include "base/block_formats.h"
#include "base/repacked_tiles.h"

namespace ridge::backends::cpu {

inline constexpr DType kBlockTypes[] = {
    DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,   DType::kQ2_K,
    DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ4_G32, DType::kQ4_G128};

// The formats that have repacked tiles.
inline constexpr DType kRepackedTypes[] = {DType::kQ4_0,   DType::kQ4_1,   DType::kQ5_0,
                                           DType::kQ8_0,   DType::kQ4_K,   DType::kQ6_K,
                                           DType::kQ4_G32, DType::kQ4_G128};

// Byte offsets of the half-precision numbers of a block: its scale, and its min, its second scale
// or -1.
struct HalfOffsets {
  int scale, min;
};
inline HalfOffsets half_offsets(DType dtype) {
  if (dtype == DType::kQ4_G32) return {0, 2};
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {offsetof(BlockQ2_K, scale), offsetof(BlockQ2_K, min)};
    case DType::kQ3_K:
      return {offsetof(BlockQ3_K, scale), -1};
    case DType::kQ6_K:
      return {offsetof(BlockQ6_K, scale), -1};
    default:
      return {0, -1};
  }
}

// The bits of the quants: random, all set, or only the top one of each byte.
enum class Bits { kRandom, kOnes, kTop };

// An [out, in] matrix of a type, with scales and mins of both signs.
struct Weights {
  Weights(DType dtype, int64_t out, int64_t in, uint32_t seed, Bits bits = Bits::kRandom)
      : bytes(static_cast<size_t>(storage_bytes(dtype, out * in))),
        floats(static_cast<size_t>(out * in)),
        matrix{dtype, out, in, bytes.data()} {
    Random random(seed);
    if (!is_block(dtype)) {
      const std::vector<float> values = random_values<float>(out * in, seed);
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t half =
            dtype == DType::kF16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
        if (dtype == DType::kF32) {
          std::memcpy(&bytes[4 * i], &values[i], 4);
        } else {
          std::memcpy(&bytes[2 * i], &half, 2);
        }
      }
    } else {
      for (std::byte& byte : bytes) {
        const int any = static_cast<int>(256 * random.uniform());
        byte = static_cast<std::byte>(bits == Bits::kRandom ? any
                                      : bits == Bits::kOnes ? 255
                                                            : 128);
      }
      const size_t block_bytes = static_cast<size_t>(info(dtype).bytes_per_block);
      for (size_t block = 0; block < bytes.size(); block += block_bytes) {
        for (int offset : {half_offsets(dtype).scale, half_offsets(dtype).min}) {
          if (offset < 0) continue;
          const uint16_t half = float_to_f16(static_cast<float>(0.02 * random.uniform() - 0.01));
          std::memcpy(&bytes[block + static_cast<size_t>(offset)], &half, 2);
        }
        const auto put_zero = [&](size_t offset) {
          bytes[block + offset] = static_cast<std::byte>(17 * random.uniform());
        };
        if (dtype == DType::kQ4_G32) put_zero(4), put_zero(5);
        if (dtype == DType::kQ4_G128) put_zero(2), bytes[block + 3] = std::byte{0};
      }
    }
    dequantize(dtype, bytes, floats);
  }

  const float* row(int64_t r) const { return floats.data() + r * matrix.in; }

  std::vector<std::byte> bytes;
  std::vector<float> floats;
  QuantizedMatrix matrix;
};

// The same weights in repacked tiles.
struct RepackedWeights : Weights {
  RepackedWeights(DType dtype, int64_t out, int64_t in, uint32_t seed, Bits bits = Bits::kRandom)
      : Weights(dtype, out, in, seed, bits), tiles(bytes.size()) {
    matrix.dtype = repacked_dtype(dtype, {out, in});
    repack_rows(matrix.dtype, in, bytes, tiles);
    matrix.data = tiles.data();
  }
  std::vector<std::byte> tiles;
};

// Rounded activations.
struct Activations {
  Activations(const std::vector<float>& values, int64_t tokens, int64_t in, ActivationForm form)
      : x{tokens, in, nullptr, form} {
    storage.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(x.bytes()))));
    x.data = storage.get();
    quantize_activations(StridedRows<const float>{values.data(), in}, x);
  }
  // The value to which element k of token n was rounded.
  float rounded(int64_t n, int64_t k) const {
    double sum = 0;
    for (int p = 0; p < x.parts(); ++p)
      sum += static_cast<double>(x.part(p).scales(n)[k / 32]) * quant(x.part(p), n, k);
    return static_cast<float>(sum * x.row_scale(n));
  }
  static int quant(const QuantizedActivations& part, int64_t n, int64_t k) {
    constexpr int64_t kOrder[] = {0, 2, 1, 3};
    return part.is_int16() ? part.int16_quants(n)[k / 4 * 4 + kOrder[k % 4]]
                           : part.int8_quants(n)[k];
  }
  // The distance of adjacent values to which an element of its block may be rounded.
  float step(int64_t n, int64_t k) const {
    return x.row_scale(n) * x.part(x.parts() - 1).scales(n)[k / 32];
  }

  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  QuantizedActivations x;
  std::unique_ptr<std::byte, Free> storage;
};

inline double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

// The allowed error of fp32 sums: one rounding for each group of at least 16 and a few more, of
// terms as large as the row's largest weight (offsets included) times |x|.
inline double fp32_slack(const float* w, const float* x, int64_t n) {
  double largest = 0, total = 0;
  for (int64_t k = 0; k < n; ++k) {
    largest = std::max(largest, std::abs(static_cast<double>(w[k])));
    total += std::abs(static_cast<double>(x[k]));
  }
  return 0x1p-24 * (static_cast<double>(n) / 16 + 8) * 4 * largest * total;
}

inline std::vector<int64_t> widths(DType dtype) {
  if (info(dtype).elements_per_block == 256) return {256, 768, 1280};
  if (info(dtype).elements_per_block == 128) return {128, 896, 1152};
  if (info(dtype).elements_per_block == 64) return {64, 192, 576, 1088};
  return {32, 96, 576, 1056};
}

}  // namespace ridge::backends::cpu
