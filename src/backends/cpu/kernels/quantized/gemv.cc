// SPDX-License-Identifier: Apache-2.0
// The GEMV path: the split of rows over threads, and the GLU. The inner loops are in files named
// after their ISA; choose.cc says which one a weight takes.
#include <hwy/cache_control.h>

#include <algorithm>
#include <atomic>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/error.h"
#include "base/repacked_tiles.h"

namespace ridge::backends::cpu {

void check_blocks(std::span<const QuantizedProduct> products, int64_t in) {
  for (const auto& [weight, y, accumulate, up, kernel] : products) {
    RIDGE_CHECK(weight.in == in && is_block(weight.dtype),
                "expected blocks of {} columns, got {} of {}", in, weight.in, name(weight.dtype));
    if (up.weight.data == nullptr) continue;
    RIDGE_CHECK(products.size() == 1 && !accumulate && up.weight.dtype == weight.dtype &&
                    up.weight.out == weight.out && up.weight.in == in,
                "expected one GLU of two weights [{}, {}] in {}", weight.out, in,
                name(weight.dtype));
  }
}

void check_rounded(std::span<const QuantizedProduct> products,
                   const QuantizedActivations& x,
                   QuantizedPath path) {
  check_blocks(products, x.in);
  for (const QuantizedProduct& product : products)
    RIDGE_CHECK(
        product.kernel != nullptr && product.kernel->path == path && product.kernel->form == x.form,
        "{} has a kernel of another path or form", name(product.weight.dtype));
}

bool is_streamed(const QuantizedProduct& product, int64_t tokens) {
  const auto is_aligned = [](uintptr_t bytes) { return bytes % 64 == 0; };
  return bytes_of<float>(tokens * product.weight.out) >= kStreamBytes / 2 && !product.accumulate &&
         product.weight.out % kRowBlockRows == 0 &&
         is_aligned(reinterpret_cast<uintptr_t>(product.y.data)) &&
         is_aligned(sizeof(float) * static_cast<uintptr_t>(product.y.stride));
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
      : granule(is_repacked(weight.dtype) ? kRowBlockRows : kGranule), even(weight.out) {
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

// A thread prefetches so much of its share of the next weight while it waits: memory would idle
// during norms and attention. It takes a quarter of an L2 of 1 MiB.
constexpr int64_t kIdleBytes = 256 << 10;

void read_when_idle(const QuantizedMatrix& next, int64_t parts, int64_t index) {
  if (next.data == nullptr || parts == 1) return;
  const Shares shares(next, parts);
  const Range rows = part_of(shares.even, parts, index, shares.granule);
  const int64_t bytes = storage_bytes(next.dtype, (rows.end - rows.begin) * next.in);
  Team::read_when_idle(share_begin(next, parts, index), std::min(bytes, kIdleBytes));
}

}  // namespace

// Each thread takes its share of the rows of every product, so that GEMMs of several dtypes stay
// balanced.
void quantized_gemv(std::span<const QuantizedProduct> products,
                    const QuantizedActivations& x,
                    const QuantizedMatrix& next) {
  check_rounded(products, x, QuantizedPath::kGemv);
  int64_t bytes = 0;
  for (const QuantizedProduct& product : products) {
    RIDGE_CHECK(!product.is_glu() || product.up.product,
                "a GLU on the GEMV path has no place for up");
    bytes += weight_bytes(product.weight) + weight_bytes(product.up.weight);
  }
  const int64_t parts = parts_for(bytes);
  const auto multiply_rows = [&](const QuantizedProduct& product, const RowStream& stream) {
    const bool bypasses = is_repacked(product.weight.dtype) && is_streamed(product, x.tokens);
    product.kernel->gemv({product.weight, stream, x, product.y, product.accumulate, bypasses});
    if (bypasses) hwy::FlushStream();
  };
  const auto multiply = [&](const QuantizedProduct& product, const RowStream& stream) {
    const Range rows = stream.rows;
    if (rows.begin == rows.end) return;
    if (!product.is_glu()) return multiply_rows(product, stream);
    const QuantizedUp& up = product.up;
    const auto plain = [&](const QuantizedMatrix& weight, StridedRows<float> to) {
      return QuantizedProduct{weight, to, false, {}, product.kernel};
    };
    multiply_rows(plain(product.weight, product.y), {rows, row_begin(up.weight, rows.begin)});
    multiply_rows(plain(up.weight, up.product), stream);
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
