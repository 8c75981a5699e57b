// SPDX-License-Identifier: Apache-2.0
// Blocks into panels, and rows out of them. Plain loops: products have forms of their own.
#include "base/row_panels.h"

#include <cstring>
#include <type_traits>

#include "base/bf16.h"

namespace ridge {
inline namespace base {
namespace {

// Row by row, as memory brings them; the strip's panels stay in L1 meanwhile. A file may have
// blocks at odd addresses.
template <typename Panel>
void pack_strip(const std::byte* rows, int64_t panels, Panel* to) {
  using Block = typename Panel::Block;
  constexpr size_t kGroups = sizeof(Block::quants) / 4;
  constexpr uint32_t kFlipped = std::is_same_v<Block, BlockQ8_0> ? 0x80808080 : 0;
  for (int64_t r = 0; r < kPanelRowCount; ++r)
    for (int64_t b = 0; b < 2 * panels; ++b, rows += sizeof(Block)) {
      Panel& panel = to[b / 2];
      std::memcpy(&panel.scales[b % 2][r], rows, 2);
      if constexpr (requires { panel.mins; })
        std::memcpy(&panel.mins[b % 2][r], rows + offsetof(Block, min), 2);
      for (size_t g = 0; g < kGroups; ++g) {
        uint32_t four;
        std::memcpy(&four, rows + offsetof(Block, quants) + 4 * g, 4);
        four ^= kFlipped;
        std::memcpy(panel.quants[b % 2][g][r], &four, 4);
      }
    }
}

// A row's 32 columns of half a panel.
template <typename Panel>
void unpack_block(const Panel& panel, int64_t half, int64_t row, float* out) {
  const float scale = f16_to_float(panel.scales[half][row]);
  float min = 0;
  if constexpr (requires { panel.mins; }) min = f16_to_float(panel.mins[half][row]);
  const auto value = [&](int code) {
    return scale * static_cast<float>(code - Panel::kOffset) + min;
  };
  constexpr int64_t kCodes = 4 * std::extent_v<decltype(Panel::quants), 1>;
  for (int64_t i = 0; i < kCodes; ++i) {
    const uint8_t code = panel.quants[half][i / 4][row][i % 4];
    if constexpr (kCodes == kBlockElements) {
      out[i] = value(code);
    } else {
      out[i] = value(code & 15);
      out[16 + i] = value(code >> 4);
    }
  }
}

}  // namespace

DType panel_dtype(DType dtype, const Shape& shape) {
  const bool fits = shape.rank() == 2 && shape[0] % kPanelRowCount == 0 &&
                    shape[1] % kPanelColumns == 0 && shape.elements() > 0;
  if (fits && dtype == DType::kQ4_0) return DType::kQ4_0x16;
  if (fits && dtype == DType::kQ4_1) return DType::kQ4_1x16;
  if (fits && dtype == DType::kQ8_0) return DType::kQ8_0x16;
  return dtype;
}

void pack_panels(DType to,
                 int64_t in,
                 std::span<const std::byte> rows,
                 std::span<std::byte> panels) {
  with_panel(to, [&](auto type) {
    using Panel = typename decltype(type)::type;
    const int64_t across = in / kPanelColumns;
    const size_t strip_bytes = static_cast<size_t>(across) * sizeof(Panel);
    RIDGE_CHECK(
        in % kPanelColumns == 0 && rows.size() == panels.size() && rows.size() % strip_bytes == 0,
        "{} bytes of rows of {} are no panels", rows.size(), in);
    for (size_t at = 0; at < rows.size(); at += strip_bytes)
      pack_strip(rows.data() + at, across, reinterpret_cast<Panel*>(panels.data() + at));
  });
}

void dequantize_row(DType dtype, const std::byte* panels, int64_t row, std::span<float> out) {
  with_panel(dtype, [&](auto type) {
    using Panel = typename decltype(type)::type;
    const int64_t across = static_cast<int64_t>(out.size()) / kPanelColumns;
    const Panel* strip = reinterpret_cast<const Panel*>(panels) + row / kPanelRowCount * across;
    for (int64_t b = 0; b < 2 * across; ++b)
      unpack_block(strip[b / 2], b % 2, row % kPanelRowCount, out.data() + b * kBlockElements);
  });
}

}  // namespace base
}  // namespace ridge
