// SPDX-License-Identifier: Apache-2.0
// 8- and 16-bit GEMMs of few tokens: the split of rows over threads, the choice of the inner loop,
// and its portable form. The fast inner loops are in files named after their ISA.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/gemv.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>

#include "backends/cpu/kernels/pointwise/glu.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/error.h"
#include "base/row_panels.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Chosen by Highway's target, because querying the processor's features takes microseconds in a
// virtual machine.
RowsTimesVectors gemv_of_target() {
#if HWY_TARGET == HWY_SCALAR
  return gemv_portable;
#else
  return gemv_avx2;
#endif
}

RowsTimesVectors gemv_panels_of_target() {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_AVX2
  return gemv_panels_avx2;
#else
  static const bool vnni = has_vnni();
  return vnni ? gemv_panels_avx512 : gemv_panels_avx2;
#endif
}

bool target_takes_panels() { return HWY_TARGET != HWY_SCALAR; }

Codes panel_codes_of_target() {
  return gemv_panels_of_target() == gemv_panels_avx2 ? Codes::kWord : Codes::kTwoBytes;
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

HWY_EXPORT(gemv_of_target);
HWY_EXPORT(gemv_panels_of_target);
HWY_EXPORT(target_takes_panels);
HWY_EXPORT(panel_codes_of_target);

Codes few_token_codes(bool any_panels) {
  return any_panels ? HWY_DYNAMIC_DISPATCH(panel_codes_of_target)() : Codes::kTwoBytes;
}

bool all_panels(std::span<const QuantizedProduct> products) {
  return std::all_of(products.begin(), products.end(), [](const QuantizedProduct& product) {
    return is_panels(product.weight.dtype);
  });
}

void check_fast(std::span<const QuantizedProduct> products, int64_t in) {
  for (const auto& [weight, y, accumulate, up] : products) {
    RIDGE_CHECK(weight.in == in && supports_fast(weight.dtype),
                "expected blocks of {} columns, got {} of {}", in, weight.in, name(weight.dtype));
    if (up.weight.data == nullptr) continue;
    RIDGE_CHECK(products.size() == 1 && !accumulate && up.weight.dtype == weight.dtype &&
                    up.weight.out == weight.out && up.weight.in == in,
                "expected one GLU of two weights [{}, {}] in {}", weight.out, in,
                name(weight.dtype));
  }
}

bool is_streamed(const QuantizedProduct& product, int64_t tokens) {
  const auto is_aligned = [](uintptr_t bytes) { return bytes % 64 == 0; };
  return bytes_of<float>(tokens * product.weight.out) >= kStreamBytes / 2 && !product.accumulate &&
         product.weight.out % kPanelRows == 0 &&
         is_aligned(reinterpret_cast<uintptr_t>(product.y.data)) &&
         is_aligned(sizeof(float) * static_cast<uintptr_t>(product.y.stride));
}

bool multiplies_bytes(DType dtype) {
  return few_token_codes(true) == Codes::kTwoBytes ||
         (takes_panels() && code_format(dtype).most <= kMostByteCode);
}

bool takes_panels() { return HWY_DYNAMIC_DISPATCH(target_takes_panels)(); }

void gemv_portable(const RowsProduct& call) {
  const QuantizedMatrix& weight = call.weight;
  const QuantizedActivations& x = call.x;
  const StridedRows<float> y = call.y;
  const bool accumulate = call.accumulate;
  const Range rows = call.stream.rows;
  constexpr int64_t kStep = 256;  // whole blocks of any format
  const int64_t group = code_format(weight.dtype).group;
  uint8_t codes[kStep];
  float scales[kStep / 16], offsets[kStep / 16];
  for (int64_t v = 0; v < x.vectors(); ++v) {
    const int64_t n = x.token_of(v);
    const QuantizedActivations vector = x.part(x.part_of(v));
    const float* sums = group == 16 ? vector.half_sums(n) : vector.sums(n);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float total = 0;
      for (int64_t column = 0; column < x.in; column += kStep) {
        const int64_t depth = std::min(kStep, x.in - column);
        unpack_codes({weight, row, column, depth}, {codes, scales, offsets});
        for (int64_t g = 0; g < depth / group; ++g) {
          const int8_t* part = vector.codes(n) + column + g * group;
          int32_t dot = 0;
          for (int64_t i = 0; i < group; ++i) dot += codes[g * group + i] * part[i];
          const float scale = vector.scales(n)[(column + g * group) / kActivationBlock];
          total += scales[g] * scale * static_cast<float>(dot);
          total += offsets[g] * sums[column / group + g];
        }
      }
      total *= x.unit(n);
      const bool adds = accumulate || x.part_of(v) != 0;
      y[n][row] = adds ? y[n][row] + total : total;
    }
  }
}

namespace {

// For a weight that streams from memory, the last eighth of its rows is handed out in pieces to
// threads that are done: other work on the machine slows its threads unevenly.
constexpr int64_t kDealtBytes = 16 << 20, kPieceBytes = 512 << 10;

int64_t weight_bytes(const QuantizedMatrix& weight) {
  return storage_bytes(weight.dtype, weight.out * weight.in);
}

// The split of a weight's rows among threads.
struct Shares {
  Shares(const QuantizedMatrix& weight, int64_t parts)
      : granule(is_panels(weight.dtype) ? kPanelRows : kGranule), even(weight.out) {
    const int64_t bytes = weight_bytes(weight);
    if (parts == 1 || bytes < kDealtBytes) return;
    even = weight.out / 8 * 7 / granule * granule;
    piece = (kPieceBytes * weight.out / bytes + granule - 1) / granule * granule;
    pieces = (weight.out - even + piece - 1) / piece;
  }
  static constexpr int64_t kGranule = 4;  // rows of blocks that the inner loops process at once
  int64_t granule;
  int64_t even;                   // rows [0, even) are split evenly
  int64_t piece = 0, pieces = 0;  // the rest is `pieces` pieces of `piece` rows
};

const std::byte* row_begin(const QuantizedMatrix& weight, int64_t row) {
  return weight.data + storage_bytes(weight.dtype, row * weight.in);
}

// The address where a part begins to read.
const std::byte* share_begin(const QuantizedMatrix& weight, int64_t parts, int64_t index) {
  const Shares shares(weight, parts);
  return row_begin(weight, part_of(shares.even, parts, index, shares.granule).begin);
}

// What a thread prefetches of its share of the next weight while it waits: memory would idle during
// norms and attention. It takes a quarter of an L2 of 1 MiB.
constexpr int64_t kIdleBytes = 256 << 10;

void read_when_idle(const QuantizedMatrix& next, int64_t parts, int64_t index) {
  if (next.data == nullptr || parts == 1) return;
  const Shares shares(next, parts);
  const Range rows = part_of(shares.even, parts, index, shares.granule);
  const int64_t bytes = storage_bytes(next.dtype, (rows.end - rows.begin) * next.in);
  Team::read_when_idle(share_begin(next, parts, index), std::min(bytes, kIdleBytes));
}

// Rows of blocks beside panels are rare. Only the GEMM of many tokens multiplies them by words.
void split_by_layout(std::span<const QuantizedProduct> products,
                     const QuantizedActivations& x,
                     const QuantizedMatrix& next) {
  for (const QuantizedProduct& product : products)
    if (is_panels(product.weight.dtype))
      quantized_gemv({&product, 1}, x, next);
    else
      quantized_gemm({&product, 1}, x);
}

}  // namespace

// Each thread takes its share of the rows of every product, so that GEMMs of several dtypes stay
// balanced.
void quantized_gemv(std::span<const QuantizedProduct> products,
                    const QuantizedActivations& x,
                    const QuantizedMatrix& next) {
  check_fast(products, x.in);
  int64_t bytes = 0;
  for (const QuantizedProduct& product : products) {
    const QuantizedMatrix& weight = product.weight;
    RIDGE_CHECK(!is_panels(weight.dtype) || takes_panels(), "no panels of {} here",
                name(weight.dtype));
    RIDGE_CHECK(
        !is_panels(weight.dtype) || x.form == Codes::kByte || x.form == few_token_codes(true),
        "panels of {} need activations in another form", name(weight.dtype));
    RIDGE_CHECK(!product.is_glu() || product.up.product, "a GLU of few tokens has no place for up");
    bytes += weight_bytes(weight) + weight_bytes(product.up.weight);
  }
  if (x.in_words() && !all_panels(products)) return split_by_layout(products, x, next);
  const int64_t parts = parts_for(bytes);
  const RowsTimesVectors of_rows = HWY_DYNAMIC_DISPATCH(gemv_of_target)(),
                         of_panels = HWY_DYNAMIC_DISPATCH(gemv_panels_of_target)();
  const auto multiply_rows = [&](const QuantizedProduct& product, const RowStream& stream) {
    const bool in_panels = is_panels(product.weight.dtype),
               bypasses = in_panels && is_streamed(product, x.tokens);
    (in_panels ? of_panels
               : of_rows)({product.weight, stream, x, product.y, product.accumulate, bypasses});
    if (bypasses) hwy::FlushStream();
  };
  const auto multiply = [&](const QuantizedProduct& product, const RowStream& stream) {
    const Range rows = stream.rows;
    if (rows.begin == rows.end) return;
    if (!product.is_glu()) return multiply_rows(product, stream);
    const QuantizedUp& up = product.up;
    multiply_rows({product.weight, product.y}, {rows, row_begin(up.weight, rows.begin)});
    multiply_rows({up.weight, up.product}, stream);
    const StridedRows<float> y{product.y.data + rows.begin, product.y.stride};
    glu_on_thread({x.tokens,
                   rows.end - rows.begin,
                   up.activation,
                   y,
                   {up.product.data + rows.begin, up.product.stride},
                   y});
  };
  std::atomic<int64_t> dealt = 0;  // pieces handed out, over all products
  for_each_part(parts, [&](int64_t index) {
    for (size_t p = 0; p < products.size(); ++p) {
      const Shares shares(products[p].weight, parts);
      const QuantizedMatrix& after = p + 1 < products.size() ? products[p + 1].weight : next;
      const bool reads_on = shares.pieces == 0 && after.data != nullptr;
      multiply(products[p], {part_of(shares.even, parts, index, shares.granule),
                             reads_on ? share_begin(after, parts, index) : nullptr});
    }
    int64_t mine = dealt.fetch_add(1, std::memory_order_relaxed), first = 0;
    for (const QuantizedProduct& product : products) {
      const Shares shares(product.weight, parts);
      for (; mine < first + shares.pieces; mine = dealt.fetch_add(1, std::memory_order_relaxed)) {
        const int64_t begin = shares.even + (mine - first) * shares.piece;
        multiply(product, {{begin, std::min(begin + shares.piece, product.weight.out)}});
      }
      first += shares.pieces;
    }
    read_when_idle(next, parts, index);
  });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
