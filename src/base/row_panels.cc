// SPDX-License-Identifier: Apache-2.0
// Blocks into panels, and rows out of them. Plain loops: products have forms of their own.
#include "base/row_panels.h"

#include <cstring>
#include <type_traits>

#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"

namespace ridge {
inline namespace base {
namespace {

// Row by row, as memory brings them; the strip's panels stay in L1 meanwhile. A file may have
// blocks at odd addresses.
template <typename Panel, typename Block>
void pack_strip(const std::byte* rows, int64_t panels, Panel* to) {
  constexpr size_t kGroups = sizeof(Block::quants) / 4;
  constexpr uint32_t kFlipped = std::is_same_v<Block, BlockQ8_0> ? 0x80808080 : 0;
  for (int64_t r = 0; r < kPanelRowCount; ++r)
    for (int64_t b = 0; b < 2 * panels; ++b, rows += sizeof(Block)) {
      Panel& panel = to[b / 2];
      std::memcpy(&panel.scales[b % 2][r], rows, 2);
      for (size_t g = 0; g < kGroups; ++g) {
        uint32_t four;
        std::memcpy(&four, rows + offsetof(Block, quants) + 4 * g, 4);
        four ^= kFlipped;
        std::memcpy(panel.quants[b % 2][g][r], &four, 4);
      }
    }
}

template <typename Panel, typename Block>
void pack(int64_t in, std::span<const std::byte> rows, std::span<std::byte> panels) {
  const int64_t across = in / kPanelColumns;
  const size_t strip_bytes = static_cast<size_t>(across) * sizeof(Panel);
  RIDGE_CHECK(
      in % kPanelColumns == 0 && rows.size() == panels.size() && rows.size() % strip_bytes == 0,
      "{} bytes of rows of {} are no panels", rows.size(), in);
  for (size_t at = 0; at < rows.size(); at += strip_bytes)
    pack_strip<Panel, Block>(rows.data() + at, across,
                             reinterpret_cast<Panel*>(panels.data() + at));
}

void add_codes(const PanelQ4_0& panel, int64_t half, int64_t row, float scale, float* out) {
  for (int64_t i = 0; i < 16; ++i) {
    const uint8_t both = panel.quants[half][i / 4][row][i % 4];
    out[i] = scale * static_cast<float>((both & 15) - 8);
    out[16 + i] = scale * static_cast<float>((both >> 4) - 8);
  }
}

void add_codes(const PanelQ8_0& panel, int64_t half, int64_t row, float scale, float* out) {
  for (int64_t i = 0; i < 32; ++i)
    out[i] = scale * static_cast<float>(panel.quants[half][i / 4][row][i % 4] - 128);
}

template <typename Panel>
void unpack_row(const std::byte* data, int64_t row, std::span<float> out) {
  const int64_t across = static_cast<int64_t>(out.size()) / kPanelColumns;
  const Panel* panels = reinterpret_cast<const Panel*>(data) + row / kPanelRowCount * across;
  for (int64_t p = 0; p < across; ++p)
    for (int64_t half = 0; half < 2; ++half)
      add_codes(panels[p], half, row % kPanelRowCount,
                f16_to_float(panels[p].scales[half][row % kPanelRowCount]),
                out.data() + p * kPanelColumns + half * kBlockElements);
}

}  // namespace

DType panel_dtype(DType dtype, const Shape& shape) {
  const bool fits = shape.rank() == 2 && shape[0] % kPanelRowCount == 0 &&
                    shape[1] % kPanelColumns == 0 && shape.elements() > 0;
  if (fits && dtype == DType::kQ4_0) return DType::kQ4_0x16;
  if (fits && dtype == DType::kQ8_0) return DType::kQ8_0x16;
  return dtype;
}

void pack_panels(DType to,
                 int64_t in,
                 std::span<const std::byte> rows,
                 std::span<std::byte> panels) {
  RIDGE_CHECK(is_panels(to), "{} is no type of panels", name(to));
  if (to == DType::kQ4_0x16) return pack<PanelQ4_0, BlockQ4_0>(in, rows, panels);
  pack<PanelQ8_0, BlockQ8_0>(in, rows, panels);
}

void dequantize_row(DType dtype, const std::byte* panels, int64_t row, std::span<float> out) {
  RIDGE_CHECK(is_panels(dtype), "{} is no type of panels", name(dtype));
  if (dtype == DType::kQ4_0x16) return unpack_row<PanelQ4_0>(panels, row, out);
  unpack_row<PanelQ8_0>(panels, row, out);
}

}  // namespace base
}  // namespace ridge
