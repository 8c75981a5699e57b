// SPDX-License-Identifier: Apache-2.0
// The GEMM path: the split into tasks, and the GLU. The inner loops are in files named after their
// ISA; choose.cc says which one a weight takes.
#include <hwy/cache_control.h>

#include <algorithm>

#include "backends/cpu/kernels/quantized/gate_and_up.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/error.h"
#include "base/row_panels.h"

namespace ridge::backends::cpu {
namespace {

// The bytes of a part of panels; those after the last row are left out.
std::span<const std::byte> bytes_of(const WeightPart& part) {
  const QuantizedMatrix& weight = part.weight;
  if (part.row >= weight.out) return {};
  const auto bytes = [&](int64_t elements) { return storage_bytes(weight.dtype, elements); };
  return {weight.data + bytes(part.row * weight.in) + bytes(kPanelRows * part.column),
          static_cast<size_t>(bytes(kPanelRows * part.depth))};
}

// The part that is unpacked after this one: the next columns, or the first of the rows of the next
// task.
WeightPart after(const WeightPart& part, int64_t rows_of_task) {
  const int64_t in = part.weight.in, column = part.column + part.depth;
  if (column < in) return {part.weight, part.row, column, std::min(kPanelDepth, in - column)};
  return {part.weight, part.row + rows_of_task, 0, std::min(kPanelDepth, in)};
}

// Panels of one format and depth whose products are side by side in y.
struct Task {
  const QuantizedKernel& kernel;
  struct Panel {
    const QuantizedMatrix& weight;
    int64_t row;
  };
  std::span<const Panel> panels;
  int64_t rows;     // all panels have so many
  int64_t advance;  // a thread's next task begins so many rows of a weight later
};

// `call` has x, the tokens and y.
void multiply_panels(const Task& task, PanelProduct call) {
  const DType dtype = task.panels[0].weight.dtype;
  const bool in_panels = is_panels(dtype), accumulate = call.accumulate;
  const QuantFormat format = quant_format(dtype);
  const QuantizedActivations& x = *call.x;
  CodePanel panels[kMostPanels];
  call.group = format.group;
  call.has_min = format.has_min;
  call.zero = x.is_int16() ? 0 : format.zero;
  call.most_quant = format.most;
  const StridedRows<float> y = call.y;
  for (int64_t column = 0; column < x.in; column += kPanelDepth) {
    call.column = column;
    call.depth = std::min(kPanelDepth, x.in - column);
    for (size_t p = 0; p < task.panels.size(); ++p) {
      const WeightPart part{task.panels[p].weight, task.panels[p].row, column, call.depth};
      task.kernel.unpack(part, panels[p]);
      if (in_panels) call.next[p] = bytes_of(after(part, task.advance));
    }
    call.accumulate = accumulate || column > 0;
    const int64_t at_once = task.kernel.rows;
    for (int64_t row = 0; row < task.rows; row += at_once) {
      call.panels = panels + row / kPanelRows;
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
  const Task::Panel panels[] = {{weight, row}, {weight, row + kPanelRows}};
  const int64_t rows = std::min(kernel.rows, weight.out - row);
  PanelProduct call;
  call.x = &x;
  call.tokens = tokens;
  call.y = call.result = {product.y.data + row, product.y.stride};
  call.accumulate = product.accumulate;
  call.is_streamed = x.in <= kPanelDepth && is_streamed(product, x.tokens);
  const auto count = static_cast<size_t>((rows + kPanelRows - 1) / kPanelRows);
  multiply_panels({kernel, {panels, count}, rows, kernel.rows}, call);
  if (call.is_streamed) hwy::FlushStream();
}

// 16 rows of gate and of up, of which only the GLU leaves the core. Rows past the last are
// computed as zeros.
void multiply_glu(const QuantizedProduct& product,
                  int64_t row,
                  const QuantizedActivations& x,
                  Range tokens) {
  GateAndUp<kMostTokenBlock> products;
  static_assert(products.kRows == kPanelRows);
  const Task::Panel panels[] = {{product.weight, row}, {product.up.weight, row}};
  PanelProduct call;
  call.x = &x;
  call.tokens = tokens;
  call.y = products.y();
  call.token_of_y = tokens.begin;
  call.result = {product.y.data + row, product.y.stride};
  multiply_panels({*product.kernel, panels, 2 * kPanelRows, kPanelRows}, call);
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
  for_each_panel_task(products, glu ? kPanelRows : kernel.rows, x.tokens, kernel.token_block,
                      [&](const QuantizedProduct& product, int64_t row, Range tokens) {
                        (glu ? multiply_glu : multiply)(product, row, x, tokens);
                      });
}

}  // namespace ridge::backends::cpu
