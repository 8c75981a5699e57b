// SPDX-License-Identifier: Apache-2.0
// Packs blocks into panels and dequantizes rows of panels. Plain loops; the GEMM kernels have their
// own code.
#include "base/row_panels.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "base/bf16.h"

namespace ridge {
inline namespace base {
namespace {

template <typename Panel>
constexpr int64_t kBlockColumns =
    Panel::kColumns == kSuperBlockElements ? kSuperBlockElements : kBlockElements;
template <typename Panel>
constexpr int64_t kBlocks = Panel::kColumns / kBlockColumns<Panel>;

uint32_t load_word(const std::byte* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}
void store_word(uint32_t word, uint8_t* to) { std::memcpy(to, &word, 4); }

// Gathers bits k, k + 4, .. k + 28 of a word into one byte.
uint32_t every_fourth_bit(uint32_t word, int k) {
  uint32_t bits = (word >> k) & 0x11111111;
  bits = (bits | bits >> 3) & 0x03030303;
  bits = (bits | bits >> 6) & 0x000f000f;
  return (bits | bits >> 12) & 0xff;
}

// Packs one block of row r as block b of the panel. Blocks in a file may be at odd addresses.
template <typename Panel>
void pack_block(const std::byte* from, int64_t b, int64_t r, Panel& panel) {
  using Block = typename Panel::Block;
  constexpr size_t kGroups = sizeof(Block::quants) / 4;
  constexpr uint32_t kFlipped = std::is_same_v<Block, BlockQ8_0> ? 0x80808080 : 0;
  std::memcpy(&panel.scales[b][r], from, 2);
  if constexpr (requires { panel.mins; })
    std::memcpy(&panel.mins[b][r], from + offsetof(Block, min), 2);
  if constexpr (requires { panel.high_bits; }) {
    const uint32_t word = load_word(from + offsetof(Block, high_bits));
    for (int k = 0; k < 4; ++k)
      panel.high_bits[b][r][k] = static_cast<uint8_t>(every_fourth_bit(word, k));
  }
  for (size_t g = 0; g < kGroups; ++g)
    store_word(load_word(from + offsetof(Block, quants) + 4 * g) ^ kFlipped, panel.quants[b][g][r]);
}

void pack_block(const std::byte* from, int64_t, int64_t r, PanelQ4_K& panel) {
  std::memcpy(&panel.scales[r], from + offsetof(BlockQ4_K, scale), 2);
  std::memcpy(&panel.mins[r], from + offsetof(BlockQ4_K, min), 2);
  for (size_t i = 0; i < 12; ++i)
    panel.sub_scales[i][r] = static_cast<uint8_t>(from[offsetof(BlockQ4_K, scales) + i]);
  for (size_t g = 0; g < 32; ++g)
    store_word(load_word(from + offsetof(BlockQ4_K, quants) + 4 * g),
               panel.quants[g / 8][g % 8][r]);
}

// Packs four codes at a time from the low and high bits of BlockQ6_K.
void pack_block(const std::byte* from, int64_t, int64_t r, PanelQ6_K& panel) {
  std::memcpy(&panel.scales[r], from + offsetof(BlockQ6_K, scale), 2);
  for (size_t s = 0; s < 16; ++s)
    panel.sub_scales[s][r] = static_cast<int8_t>(from[offsetof(BlockQ6_K, scales) + s]);
  for (size_t s = 0; s < 16; ++s) {
    const size_t half = s / 8, group = s % 8 / 2;
    const std::byte *low_bits = from + 64 * half + 32 * (group % 2) + 16 * (s % 2),
                    *high_bits = from + offsetof(BlockQ6_K, high_bits) + 32 * half + 16 * (s % 2);
    uint32_t low[4], high = 0;
    for (size_t g = 0; g < 4; ++g) {
      low[g] = load_word(low_bits + 4 * g) >> group / 2 * 4 & 0x0f0f0f0f;
      high |= (load_word(high_bits + 4 * g) >> 2 * group & 0x03030303) << 2 * g;
    }
    store_word(low[0] | low[1] << 4, panel.low_bits[s][0][r]);
    store_word(low[2] | low[3] << 4, panel.low_bits[s][1][r]);
    store_word(high, panel.high_bits[s][r]);
  }
}

// Goes row by row, in memory order; the panels of the strip stay in L1 meanwhile.
template <typename Panel>
void pack_strip(const std::byte* rows, int64_t panels, Panel* to) {
  using Block = typename Panel::Block;
  for (int64_t r = 0; r < kPanelRowCount; ++r)
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t b = 0; b < kBlocks<Panel>; ++b, rows += sizeof(Block))
        pack_block(rows, b, r, to[p]);
}

// Dequantizes block b of a row in a panel.
template <typename Panel>
void unpack_block(const Panel& panel, int64_t b, int64_t row, float* out) {
  const float scale = f16_to_float(panel.scales[b][row]);
  float min = 0;
  if constexpr (requires { panel.mins; }) min = f16_to_float(panel.mins[b][row]);
  const auto set = [&](int64_t column, int code) {
    if constexpr (requires { panel.high_bits; })
      code |= (panel.high_bits[b][row][column % 4] >> column / 4 & 1) << 4;
    out[column] = scale * static_cast<float>(code - Panel::kOffset) + min;
  };
  constexpr int64_t kCodes = 4 * std::extent_v<decltype(Panel::quants), 1>;
  for (int64_t i = 0; i < kCodes; ++i) {
    const uint8_t code = panel.quants[b][i / 4][row][i % 4];
    if constexpr (kCodes == kBlockElements) {
      set(i, code);
    } else {
      set(i, code & 15);
      set(16 + i, code >> 4);
    }
  }
}

void unpack_block(const PanelQ4_K& panel, int64_t, int64_t row, float* out) {
  const float scale = f16_to_float(panel.scales[row]), min = f16_to_float(panel.mins[row]);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sub = k_scale_min(&panel.sub_scales[0][row], s, kPanelRowCount);
    for (int i = 0; i < 32; ++i) {
      const int code = panel.quants[s / 2][i / 4][row][i % 4] >> s % 2 * 4 & 15;
      *out++ = scale * static_cast<float>(sub.scale) * static_cast<float>(code) -
               min * static_cast<float>(sub.min);
    }
  }
}

void unpack_block(const PanelQ6_K& panel, int64_t, int64_t row, float* out) {
  const float scale = f16_to_float(panel.scales[row]);
  for (int s = 0; s < 16; ++s)
    for (int i = 0; i < 16; ++i) {
      const int low = panel.low_bits[s][i / 8][row][i % 4] >> i / 4 % 2 * 4 & 15;
      const int high = panel.high_bits[s][row][i % 4] >> i / 4 * 2 & 3;
      *out++ = scale * static_cast<float>(panel.sub_scales[s][row]) *
               static_cast<float>((low | high << 4) - PanelQ6_K::kOffset);
    }
}

}  // namespace

DType panel_dtype(DType dtype, const Shape& shape) {
  constexpr std::pair<DType, DType> kPanels[] = {
      {DType::kQ4_0, DType::kQ4_0x16}, {DType::kQ4_1, DType::kQ4_1x16},
      {DType::kQ5_0, DType::kQ5_0x16}, {DType::kQ8_0, DType::kQ8_0x16},
      {DType::kQ4_K, DType::kQ4_Kx16}, {DType::kQ6_K, DType::kQ6_Kx16}};
  if (shape.rank() != 2 || shape.elements() == 0 || shape[0] % kPanelRowCount != 0) return dtype;
  for (const auto& [blocks, panels] : kPanels)
    if (dtype == blocks && shape[1] % (info(panels).elements_per_block / kPanelRowCount) == 0)
      return panels;
  return dtype;
}

void pack_panels(DType to,
                 int64_t in,
                 std::span<const std::byte> rows,
                 std::span<std::byte> panels) {
  with_panel(to, [&](auto type) {
    using Panel = typename decltype(type)::type;
    const int64_t across = in / Panel::kColumns;
    const size_t strip_bytes = static_cast<size_t>(across) * sizeof(Panel);
    RIDGE_CHECK(
        in % Panel::kColumns == 0 && rows.size() == panels.size() && rows.size() % strip_bytes == 0,
        "{} bytes of rows of {} are no panels", rows.size(), in);
    for (size_t at = 0; at < rows.size(); at += strip_bytes)
      pack_strip(rows.data() + at, across, reinterpret_cast<Panel*>(panels.data() + at));
  });
}

void dequantize_row(DType dtype, const std::byte* panels, int64_t row, std::span<float> out) {
  with_panel(dtype, [&](auto type) {
    using Panel = typename decltype(type)::type;
    const int64_t across = static_cast<int64_t>(out.size()) / Panel::kColumns;
    const Panel* strip = reinterpret_cast<const Panel*>(panels) + row / kPanelRowCount * across;
    float* to = out.data();
    for (int64_t p = 0; p < across; ++p)
      for (int64_t b = 0; b < kBlocks<Panel>; ++b, to += kBlockColumns<Panel>)
        unpack_block(strip[p], b, row % kPanelRowCount, to);
  });
}

}  // namespace base
}  // namespace ridge
