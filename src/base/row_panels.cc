// SPDX-License-Identifier: Apache-2.0
// Blocks into panels, and rows out of them. Plain loops: products have forms of their own.
#include "base/row_panels.h"

#include <cstring>
#include <type_traits>

#include "base/bf16.h"

namespace ridge {
inline namespace base {
namespace {

// Bits k, k + 4, .. k + 28 of a word side by side.
uint32_t every_fourth_bit(uint32_t word, int k) {
  uint32_t bits = (word >> k) & 0x11111111;
  bits = (bits | bits >> 3) & 0x03030303;
  bits = (bits | bits >> 6) & 0x000f000f;
  return (bits | bits >> 12) & 0xff;
}

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
      if constexpr (requires { panel.high_bits; }) {
        uint32_t word;
        std::memcpy(&word, rows + offsetof(Block, high_bits), 4);
        for (int k = 0; k < 4; ++k)
          panel.high_bits[b % 2][r][k] = static_cast<uint8_t>(every_fourth_bit(word, k));
      }
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
  const auto set = [&](int64_t column, int code) {
    if constexpr (requires { panel.high_bits; })
      code |= (panel.high_bits[half][row][column % 4] >> column / 4 & 1) << 4;
    out[column] = scale * static_cast<float>(code - Panel::kOffset) + min;
  };
  constexpr int64_t kCodes = 4 * std::extent_v<decltype(Panel::quants), 1>;
  for (int64_t i = 0; i < kCodes; ++i) {
    const uint8_t code = panel.quants[half][i / 4][row][i % 4];
    if constexpr (kCodes == kBlockElements) {
      set(i, code);
    } else {
      set(i, code & 15);
      set(16 + i, code >> 4);
    }
  }
}

}  // namespace

DType panel_dtype(DType dtype, const Shape& shape) {
  const bool fits = shape.rank() == 2 && shape[0] % kPanelRowCount == 0 &&
                    shape[1] % kPanelColumns == 0 && shape.elements() > 0;
  if (fits && dtype == DType::kQ4_0) return DType::kQ4_0x16;
  if (fits && dtype == DType::kQ4_1) return DType::kQ4_1x16;
  if (fits && dtype == DType::kQ5_0) return DType::kQ5_0x16;
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
