// SPDX-License-Identifier: Apache-2.0
// The GEMM path: the split into tasks, and the GLU. The inner loops are in files named after their
// ISA; choose.cc says which one a weight takes.
#include <hwy/cache_control.h>

#include <algorithm>

#include "backends/cpu/kernels/quantized/gate_and_up.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/error.h"
#include "base/repacked_tiles.h"

namespace ridge::backends::cpu {
namespace {

// The bytes of a part of row blocks; those after the last row are left out.
std::span<const std::byte> bytes_of(const WeightPart& part) {
  const QuantizedMatrix& weight = part.weight;
  if (part.row >= weight.out) return {};
  const auto bytes = [&](int64_t elements) { return storage_bytes(weight.dtype, elements); };
  return {weight.data + bytes(part.row * weight.in) + bytes(kRowBlockRows * part.column),
          static_cast<size_t>(bytes(kRowBlockRows * part.depth))};
}

// The part that is unpacked after this one: the next columns, or the first of the rows of the next
// task.
WeightPart after(const WeightPart& part, int64_t rows_of_task) {
  const int64_t in = part.weight.in, column = part.column + part.depth;
  if (column < in) return {part.weight, part.row, column, std::min(kRowBlockDepth, in - column)};
  return {part.weight, part.row + rows_of_task, 0, std::min(kRowBlockDepth, in)};
}

// Row blocks of one format and depth whose products are side by side in y.
struct Task {
  const QuantizedKernel& kernel;
  struct RowBlock {
    const QuantizedMatrix& weight;
    int64_t row;
  };
  std::span<const RowBlock> row_blocks;
  int64_t rows;     // all row blocks have so many
  int64_t advance;  // a thread's next task begins so many rows of a weight later
};

// `call` has x, the tokens and y.
void multiply_row_blocks(const Task& task, RowBlockProduct call) {
  const DType dtype = task.row_blocks[0].weight.dtype;
  const bool repacked = is_repacked(dtype), accumulate = call.accumulate;
  const QuantFormat format = quant_format(dtype);
  const QuantizedActivations& x = *call.x;
  UnpackedRows unpacked[kMostRowBlocks];
  call.group = format.group;
  call.has_min = format.has_min;
  call.zero = x.is_int16() ? 0 : format.zero;
  call.most_quant = format.most;
  const StridedRows<float> y = call.y;
  for (int64_t column = 0; column < x.in; column += kRowBlockDepth) {
    call.column = column;
    call.depth = std::min(kRowBlockDepth, x.in - column);
    for (size_t p = 0; p < task.row_blocks.size(); ++p) {
      const WeightPart part{task.row_blocks[p].weight, task.row_blocks[p].row, column, call.depth};
      task.kernel.unpack(part, unpacked[p]);
      if (repacked) call.next[p] = bytes_of(after(part, task.advance));
    }
    call.accumulate = accumulate || column > 0;
    const int64_t at_once = task.kernel.rows;
    for (int64_t row = 0; row < task.rows; row += at_once) {
      call.row_blocks = unpacked + row / kRowBlockRows;
      call.rows = std::min(at_once, task.rows - row);
      call.y.data = y.data + row;
      task.kernel.gemm(call);
    }
  }
}

void multiply(const QuantizedProduct& product,
              int64_t row,
              const QuantizedActivations& x,
              Range tokens) {
  const QuantizedMatrix& weight = product.weight;
  const QuantizedKernel& kernel = *product.kernel;
  const Task::RowBlock row_blocks[] = {{weight, row}, {weight, row + kRowBlockRows}};
  const int64_t rows = std::min(kernel.rows, weight.out - row);
  RowBlockProduct call;
  call.x = &x;
  call.tokens = tokens;
  call.y = call.result = {product.y.data + row, product.y.stride};
  call.accumulate = product.accumulate;
  call.is_streamed = x.in <= kRowBlockDepth && is_streamed(product, x.tokens);
  const auto count = static_cast<size_t>((rows + kRowBlockRows - 1) / kRowBlockRows);
  multiply_row_blocks({kernel, {row_blocks, count}, rows, kernel.rows}, call);
  if (call.is_streamed) hwy::FlushStream();
}

// 16 rows of gate and of up, of which only the GLU leaves the core. Rows past the last are
// computed as zeros.
void multiply_glu(const QuantizedProduct& product,
                  int64_t row,
                  const QuantizedActivations& x,
                  Range tokens) {
  GateAndUp<kMostTokenBlock> products;
  static_assert(products.kRows == kRowBlockRows);
  const Task::RowBlock row_blocks[] = {{product.weight, row}, {product.up.weight, row}};
  RowBlockProduct call;
  call.x = &x;
  call.tokens = tokens;
  call.y = products.y();
  call.token_of_y = tokens.begin;
  call.result = {product.y.data + row, product.y.stride};
  multiply_row_blocks({*product.kernel, row_blocks, 2 * kRowBlockRows, kRowBlockRows}, call);
  products.store_glu(product, row, tokens);
}

}  // namespace

void quantized_gemm(std::span<const QuantizedProduct> products, const QuantizedActivations& x) {
  check_rounded(products, x, QuantizedPath::kGemm);
  if (products.empty()) return;
  const QuantizedKernel& kernel = *products[0].kernel;
  for (const QuantizedProduct& product : products)
    RIDGE_CHECK(product.kernel->rows == kernel.rows, "expected kernels of {} rows at a time",
                kernel.rows);
  const bool glu = is_glu(products);
  for_each_row_block_task(products, glu ? kRowBlockRows : kernel.rows, x.tokens, kernel.token_block,
                          [&](const QuantizedProduct& product, int64_t row, Range tokens) {
                            (glu ? multiply_glu : multiply)(product, row, x, tokens);
                          });
}

}  // namespace ridge::backends::cpu
