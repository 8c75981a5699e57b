// SPDX-License-Identifier: Apache-2.0
// Packs blocks into panels and dequantizes rows of panels. Plain loops; the GEMM kernels have their
// own code.
#include "base/row_panels.h"

#include <array>
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

// A word, four bytes, of each of four rows. Panels are packed in such columns of words.
typedef uint32_t Words __attribute__((vector_size(16)));
constexpr int kWordRows = 4;

// The same block of each row of a strip.
using RowBlocks = std::array<const std::byte*, kPanelRowCount>;

// Words k to k + 3 behind `offset` of rows r to r + 3.
std::array<Words, 4> load_words(const RowBlocks& rows, size_t r, size_t offset, size_t k) {
  Words row[kWordRows];
  for (size_t i = 0; i < kWordRows; ++i) std::memcpy(&row[i], rows[r + i] + offset + 4 * k, 16);
  const Words low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
              high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
              low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
              high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  return {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
          __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
          __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
          __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
}

void store_words(const Words& words, uint8_t (*rows)[4]) { std::memcpy(rows, &words, 16); }

Words splat(uint32_t word) { return Words{word, word, word, word}; }

// Gathers bits k, k + 4, .. k + 28 of a word into one byte.
uint32_t every_fourth_bit(uint32_t word, int k) {
  uint32_t bits = (word >> k) & 0x11111111;
  bits = (bits | bits >> 3) & 0x03030303;
  bits = (bits | bits >> 6) & 0x000f000f;
  return (bits | bits >> 12) & 0xff;
}

// to[i] gets byte i of the 16 bytes behind `offset` of each row.
using ByteColumns = std::array<std::array<uint8_t, kPanelRowCount>, 16>;
ByteColumns load_columns(const RowBlocks& rows, size_t offset) {
  typedef uint8_t Bytes __attribute__((vector_size(16)));
  std::array<Bytes, 16> from, to;
  for (size_t r = 0; r < 16; ++r) std::memcpy(&from[r], rows[r] + offset, 16);
  // Each round interleaves the rows of both halves; four of them transpose.
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < 8; ++i) {
      to[2 * i] = __builtin_shufflevector(from[i], from[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                          5, 21, 6, 22, 7, 23);
      to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 8], 8, 24, 9, 25, 10, 26, 11, 27,
                                              12, 28, 13, 29, 14, 30, 15, 31);
    }
    from = to;
  }
  ByteColumns columns;
  std::memcpy(&columns, &to, sizeof(columns));
  return columns;
}

// Packs block b of a panel from the rows' blocks. Blocks in a file may be at odd addresses.
template <typename Panel>
void pack_blocks(const RowBlocks& rows, size_t b, Panel& panel) {
  using Block = typename Panel::Block;
  constexpr size_t kGroups = sizeof(Block::quants) / 4;
  const Words flipped = splat(std::is_same_v<Block, BlockQ8_0> ? 0x80808080 : 0);
  for (size_t r = 0; r < kPanelRowCount; ++r) {
    std::memcpy(&panel.scales[b][r], rows[r], 2);
    if constexpr (requires { panel.mins; })
      std::memcpy(&panel.mins[b][r], rows[r] + offsetof(Block, min), 2);
    if constexpr (requires { panel.high_bits; }) {
      uint32_t word;
      std::memcpy(&word, rows[r] + offsetof(Block, high_bits), 4);
      for (int k = 0; k < 4; ++k)
        panel.high_bits[b][r][k] = static_cast<uint8_t>(every_fourth_bit(word, k));
    }
  }
  for (size_t r = 0; r < kPanelRowCount; r += kWordRows)
    for (size_t g = 0; g < kGroups; g += 4) {
      const auto words = load_words(rows, r, offsetof(Block, quants), g);
      for (size_t k = 0; k < 4; ++k) store_words(words[k] ^ flipped, &panel.quants[b][g + k][r]);
    }
}

void pack_blocks(const RowBlocks& rows, size_t, PanelQ4_K& panel) {
  static_assert(offsetof(BlockQ4_K, scale) == 0 && offsetof(BlockQ4_K, min) == 2 &&
                offsetof(BlockQ4_K, scales) == 4);
  const ByteColumns columns = load_columns(rows, 0);
  for (size_t r = 0; r < kPanelRowCount; ++r) {
    panel.scales[r] = static_cast<uint16_t>(columns[0][r] | columns[1][r] << 8);
    panel.mins[r] = static_cast<uint16_t>(columns[2][r] | columns[3][r] << 8);
  }
  std::memcpy(panel.sub_scales, &columns[4], sizeof(panel.sub_scales));
  for (size_t r = 0; r < kPanelRowCount; r += kWordRows)
    for (size_t g = 0; g < 32; g += 4) {
      const auto words = load_words(rows, r, offsetof(BlockQ4_K, quants), g);
      for (size_t k = 0; k < 4; ++k) store_words(words[k], &panel.quants[g / 8][g % 8 + k][r]);
    }
}

// Packs sub-block s of rows r to r + 3, which is in group kGroup of four in its half of the block:
// it has nibble kGroup / 2 of its words of low bits, and two bits of those of high bits.
template <int kGroup>
void pack_quants(const std::array<Words, 4>& low,
                 const std::array<Words, 4>& high,
                 size_t r,
                 size_t s,
                 PanelQ6_K& panel) {
  const auto nibbles = [&](size_t g) { return low[g] >> (kGroup / 2 * 4) & splat(0x0f0f0f0f); };
  const auto pairs = [&](size_t g) { return high[g] >> (2 * kGroup) & splat(0x03030303); };
  store_words(nibbles(0) | nibbles(1) << 4, &panel.low_bits[s][0][r]);
  store_words(nibbles(2) | nibbles(3) << 4, &panel.low_bits[s][1][r]);
  store_words(pairs(0) | pairs(1) << 2 | pairs(2) << 4 | pairs(3) << 6, &panel.high_bits[s][r]);
}

void pack_blocks(const RowBlocks& rows, size_t, PanelQ6_K& panel) {
  for (size_t r = 0; r < kPanelRowCount; ++r)
    std::memcpy(&panel.scales[r], rows[r] + offsetof(BlockQ6_K, scale), 2);
  const ByteColumns columns = load_columns(rows, offsetof(BlockQ6_K, scales));
  std::memcpy(panel.sub_scales, &columns, sizeof(panel.sub_scales));
  for (size_t r = 0; r < kPanelRowCount; r += kWordRows)
    for (size_t half = 0; half < 2; ++half)
      for (size_t part = 0; part < 2; ++part) {
        const auto high = load_words(rows, r, offsetof(BlockQ6_K, high_bits) + 32 * half, 4 * part);
        const auto low0 = load_words(rows, r, 64 * half, 4 * part),
                   low1 = load_words(rows, r, 64 * half + 32, 4 * part);
        const size_t s = 8 * half + part;
        pack_quants<0>(low0, high, r, s, panel);
        pack_quants<1>(low1, high, r, s + 2, panel);
        pack_quants<2>(low0, high, r, s + 4, panel);
        pack_quants<3>(low1, high, r, s + 6, panel);
      }
}

// Goes panel by panel: a panel stays in L1 while its blocks are read from all rows.
template <typename Panel>
void pack_strip(const std::byte* rows, int64_t panels, Panel* to) {
  using Block = typename Panel::Block;
  const int64_t row_bytes = panels * kBlocks<Panel> * static_cast<int64_t>(sizeof(Block));
  RowBlocks blocks;
  for (int64_t r = 0; r < kPanelRowCount; ++r)
    blocks[static_cast<size_t>(r)] = rows + r * row_bytes;
  for (int64_t p = 0; p < panels; ++p)
    for (size_t b = 0; b < kBlocks<Panel>; ++b) {
      pack_blocks(blocks, b, to[p]);
      for (const std::byte*& block : blocks) block += sizeof(Block);
    }
}

// Dequantizes block b of a row in a panel.
template <typename Panel>
void unpack_block(const Panel& panel, int64_t b, int64_t row, float* out) {
  const float scale = f16_to_float(panel.scales[b][row]);
  float min = 0;
  if constexpr (requires { panel.mins; }) min = f16_to_float(panel.mins[b][row]);
  const auto set = [&](int64_t column, int quant) {
    if constexpr (requires { panel.high_bits; })
      quant |= (panel.high_bits[b][row][column % 4] >> column / 4 & 1) << 4;
    out[column] = scale * static_cast<float>(quant - Panel::kOffset) + min;
  };
  constexpr int64_t kQuants = 4 * std::extent_v<decltype(Panel::quants), 1>;
  for (int64_t i = 0; i < kQuants; ++i) {
    const uint8_t quant = panel.quants[b][i / 4][row][i % 4];
    if constexpr (kQuants == kBlockElements) {
      set(i, quant);
    } else {
      set(i, quant & 15);
      set(16 + i, quant >> 4);
    }
  }
}

void unpack_block(const PanelQ4_K& panel, int64_t, int64_t row, float* out) {
  const float scale = f16_to_float(panel.scales[row]), min = f16_to_float(panel.mins[row]);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sub = k_scale_min(&panel.sub_scales[0][row], s, kPanelRowCount);
    for (int i = 0; i < 32; ++i) {
      const int quant = panel.quants[s / 2][i / 4][row][i % 4] >> s % 2 * 4 & 15;
      *out++ = scale * static_cast<float>(sub.scale) * static_cast<float>(quant) -
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
