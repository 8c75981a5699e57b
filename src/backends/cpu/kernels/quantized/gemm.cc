// SPDX-License-Identifier: Apache-2.0
// 8- and 16-bit GEMMs of many tokens: the split into tasks, the choice of the inner loop, and its portable
// form. The fast inner loops are in files named after their ISA.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/quantized/gemm.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/kernels/quantized/gate_and_up.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/error.h"
#include "base/row_panels.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

PanelLoops panel_loops_of_target(Codes form) {
  const bool in_bytes = form == Codes::kByte;
#if HWY_TARGET == HWY_SCALAR
  return {in_bytes ? unpack_bytes : unpack_words, nullptr, gemm_panel_portable};
#else
#if HWY_TARGET != HWY_AVX2
  static const bool vnni = has_vnni();
  if (vnni && in_bytes) return {unpack_bytes, unpack_byte_panels_avx512, gemm_panels_avx512, 2};
  if (vnni) return {unpack_words, unpack_panels_avx512, gemm_panels_avx512, 2};
#endif
  if (in_bytes) return {unpack_bytes, unpack_byte_panels_avx2, gemm_byte_panel_avx2};
  return {unpack_words, unpack_panels_avx2, gemm_panel_avx2};
#endif
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

HWY_EXPORT(panel_loops_of_target);

// Scales the exact integer sum of each group. It is the reference for the fast forms, and the form
// that machines without AVX2 run, and those without VNNI in bytes.
void gemm_panel_portable(const PanelProduct& call) {
  const int64_t group = call.group;
  const bool in_words = call.x->in_words();
  for (int64_t n = call.tokens.begin; n < call.tokens.end; ++n) {
    const int16_t* words = call.x->words(n) + call.column;
    const int8_t* bytes = call.x->codes(n) + call.column;
    const float* scales = call.x->scales(n) + call.column / kActivationBlock;
    const float* sums = group == 16 ? call.x->half_sums(n) : call.x->sums(n);
    sums += call.column / group;
    for (int64_t r = 0; r < call.rows; ++r) {
      float total = 0;
      for (int64_t g = 0; g < call.depth / group; ++g) {
        int32_t dot = 0;
        for (int64_t k = g * group; k < (g + 1) * group; ++k)
          dot += in_words ? call.panels->words[k / 2 * kPairWords + 2 * r + k % 2] * words[k]
                          : (call.panels->bytes[k / 4 * kStepBytes + 4 * r + k % 4] - call.zero) *
                                bytes[k];
        const float scale = call.panels->scales[g * kPanelRows + r];
        total += scale * scales[g * group / kActivationBlock] * static_cast<float>(dot);
        if (call.has_min) total += call.panels->offsets[g * kPanelRows + r] * sums[g];
      }
      float& y = call.y_of(n)[r];
      total *= call.x->unit(n);
      y = call.accumulate ? y + total : total;
    }
  }
}

namespace {

// The words, or bytes, of so many tokens and kPanelDepth columns take half of an L2 of 512 KiB.
constexpr int64_t kTokenBlock = 160, kByteTokenBlock = 256;
static_assert(kTokenBlock % kTokenCut == 0 && kByteTokenBlock % kTokenCut == 0);
// With AVX2 up to so many tokens, reading panels into registers again for every four tokens is faster
// than unpacking them into a panel of words, or of bytes (formats differ: with 16 tokens, unpacking
// takes 1.05 times as long for Q4_1 and 0.8 times for Q6_K).
constexpr int64_t kDirectTokens = 8, kDirectByteTokens = 12;

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
  struct Panel {
    const QuantizedMatrix& weight;
    int64_t row;
  };
  std::span<const Panel> panels;
  int64_t rows;     // of all panels
  int64_t advance;  // a thread's next task begins so many rows of a weight later
};

// `call` has x, the tokens and y.
void multiply_panels(const PanelLoops& loops, const Task& task, PanelProduct call) {
  const DType dtype = task.panels[0].weight.dtype;
  const bool in_panels = is_panels(dtype), accumulate = call.accumulate;
  const CodeFormat format = code_format(dtype);
  const QuantizedActivations& x = *call.x;
  CodePanel panels[kMostPanels];
  call.group = format.group;
  call.has_min = format.has_min;
  call.zero = x.in_words() ? 0 : format.zero;
  call.most_code = format.most;
  const StridedRows<float> y = call.y;
  for (int64_t column = 0; column < x.in; column += kPanelDepth) {
    call.column = column;
    call.depth = std::min(kPanelDepth, x.in - column);
    for (size_t p = 0; p < task.panels.size(); ++p) {
      const WeightPart part{task.panels[p].weight, task.panels[p].row, column, call.depth};
      (in_panels ? loops.unpack_panels : loops.unpack_rows)(part, panels[p]);
      if (in_panels) call.next[p] = bytes_of(after(part, task.advance));
    }
    call.accumulate = accumulate || column > 0;
    const int64_t at_once = loops.panels * kPanelRows;
    for (int64_t row = 0; row < task.rows; row += at_once) {
      call.panels = panels + row / kPanelRows;
      call.rows = std::min(at_once, task.rows - row);
      call.y.data = y.data + row;
      loops.multiply(call);
    }
  }
}

void multiply(const PanelLoops& loops,
              const QuantizedProduct& product,
              int64_t row,
              const QuantizedActivations& x,
              Range tokens) {
  const QuantizedMatrix& weight = product.weight;
  const Task::Panel panels[] = {{weight, row}, {weight, row + kPanelRows}};
  const int64_t rows = std::min(loops.panels * kPanelRows, weight.out - row);
  PanelProduct call;
  call.x = &x;
  call.tokens = tokens;
  call.y = call.result = {product.y.data + row, product.y.stride};
  call.accumulate = product.accumulate;
  call.is_streamed = x.in <= kPanelDepth && is_streamed(product, x.tokens);
  const auto count = static_cast<size_t>((rows + kPanelRows - 1) / kPanelRows);
  multiply_panels(loops, {{panels, count}, rows, loops.panels * kPanelRows}, call);
  if (call.is_streamed) hwy::FlushStream();
}

// 16 rows of gate and of up, of which only the GLU leaves the core. Rows past the last are computed as
// zeros.
void multiply_glu(const PanelLoops& loops,
                  const QuantizedProduct& product,
                  int64_t row,
                  const QuantizedActivations& x,
                  Range tokens) {
  GateAndUp<std::max(kTokenBlock, kByteTokenBlock)> products;
  static_assert(products.kRows == kPanelRows);
  const Task::Panel panels[] = {{product.weight, row}, {product.up.weight, row}};
  PanelProduct call;
  call.x = &x;
  call.tokens = tokens;
  call.y = products.y();
  call.token_of_y = tokens.begin;
  call.result = {product.y.data + row, product.y.stride};
  multiply_panels(loops, {panels, 2 * kPanelRows, kPanelRows}, call);
  products.store_glu(product, row, tokens);
}

bool is_direct(std::span<const QuantizedProduct> products, const QuantizedActivations& x) {
  return x.tokens <= (x.in_words() ? kDirectTokens : kDirectByteTokens) &&
         few_token_codes(true) == Codes::kWord && all_panels(products);
}

}  // namespace

void quantized_gemm(std::span<const QuantizedProduct> products,
                    const QuantizedActivations& x,
                    const QuantizedMatrix& next) {
  RIDGE_CHECK(x.parts() == 1, "expected activations in words or in bytes");
  if (is_direct(products, x)) return quantized_gemv(products, x, next);
  const PanelLoops loops = HWY_DYNAMIC_DISPATCH(panel_loops_of_target)(x.form);
  check_fast(products, x.in);
  for (const QuantizedProduct& product : products)
    RIDGE_CHECK(loops.unpack_panels != nullptr || !is_panels(product.weight.dtype),
                "no panels of {} here", name(product.weight.dtype));
  const bool glu = is_glu(products);
  for_each_panel_task(products, glu ? kPanelRows : loops.panels * kPanelRows, x.tokens,
                      x.in_words() ? kTokenBlock : kByteTokenBlock,
                      [&](const QuantizedProduct& product, int64_t row, Range tokens) {
                        (glu ? multiply_glu : multiply)(loops, product, row, x, tokens);
                      });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
