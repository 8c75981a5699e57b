// SPDX-License-Identifier: Apache-2.0
// Matrices of Q4_0, Q4_1, Q5_0, Q8_0, Q4_K and Q6_K with the blocks of 16 rows side by side, so
// that a vector holds what 8 or 16 rows have in the same columns and a product reads one stream
// from front to back. The blocks' bits are GGUF's, in another order, Q8_0's codes as unsigned ones:
// same values, same size. A form in memory, not a file's.
//
// A matrix [out, in] is panels [out / 16, in / kColumns]; out is a multiple of 16 and in of the
// panel's kColumns: two blocks of 32, or one of 256, of which kScaleColumns share a scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/block_formats.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"

namespace ridge {
inline namespace base {

inline constexpr int64_t kPanelRowCount = 16;

// The low nibbles are a block's columns 0..15, the high ones 16..31, four columns a group. Codes
// are kOffset above the numbers that scales multiply.
struct PanelQ4_0 {
  using Block = BlockQ4_0;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 8;
  uint16_t scales[2][16];
  uint8_t quants[2][4][16][4];  // [block, group, row, column]
};

struct PanelQ4_1 {
  using Block = BlockQ4_1;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 0;
  uint16_t scales[2][16];
  uint16_t mins[2][16];
  uint8_t quants[2][4][16][4];  // as PanelQ4_0's
};

// Bit g of a byte of `high_bits` is bit 4 of the code that this byte of group g has; groups 4..7
// are the high nibbles.
struct PanelQ5_0 {
  using Block = BlockQ5_0;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 16;
  uint16_t scales[2][16];
  uint8_t high_bits[2][16][4];  // [block, row, column]
  uint8_t quants[2][4][16][4];  // as PanelQ4_0's
};

struct PanelQ8_0 {
  using Block = BlockQ8_0;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 128;
  uint16_t scales[2][16];
  uint8_t quants[2][8][16][4];
};

// Byte i of a block's scales lies with the other rows' in sub_scales[i].
struct PanelQ4_K {
  using Block = BlockQ4_K;
  static constexpr int64_t kColumns = 256, kScaleColumns = 32;
  static constexpr int kOffset = 0;
  uint16_t scales[16];
  uint16_t mins[16];
  uint8_t sub_scales[12][16];
  uint8_t quants[4][8][16][4];  // [pair of sub-blocks, group, row, column], nibbles as the block's
};

// Of the four groups of a sub-block, groups 2 i and 2 i + 1 are the low and the high nibbles of
// low_bits[..][i], and group g has bits 2 g and 2 g + 1 of a byte of `high_bits`.
struct PanelQ6_K {
  using Block = BlockQ6_K;
  static constexpr int64_t kColumns = 256, kScaleColumns = 16;
  static constexpr int kOffset = 32;
  uint16_t scales[16];
  int8_t sub_scales[16][16];       // [sub-block, row]
  uint8_t low_bits[16][2][16][4];  // [sub-block, pair of groups, row, column]
  uint8_t high_bits[16][16][4];    // [sub-block, row, column]
};

static_assert(sizeof(PanelQ4_0) == 576 && sizeof(PanelQ4_1) == 640 && sizeof(PanelQ5_0) == 704 &&
              sizeof(PanelQ8_0) == 1088);
static_assert(sizeof(PanelQ4_K) == 16 * sizeof(BlockQ4_K) &&
              sizeof(PanelQ6_K) == 16 * sizeof(BlockQ6_K));

// Of a row in a panel.
template <typename Panel>
inline constexpr int kScaleCount = Panel::kColumns / Panel::kScaleColumns;

// Calls body(std::type_identity<Panel>()) with the panel of a type that is one.
template <typename Body>
decltype(auto) with_panel(DType panels, const Body& body) {
  switch (panels) {
    case DType::kQ4_0x16:
      return body(std::type_identity<PanelQ4_0>());
    case DType::kQ4_1x16:
      return body(std::type_identity<PanelQ4_1>());
    case DType::kQ5_0x16:
      return body(std::type_identity<PanelQ5_0>());
    case DType::kQ4_Kx16:
      return body(std::type_identity<PanelQ4_K>());
    case DType::kQ6_Kx16:
      return body(std::type_identity<PanelQ6_K>());
    default:
      RIDGE_CHECK(panels == DType::kQ8_0x16, "{} is no type of panels", name(panels));
      return body(std::type_identity<PanelQ8_0>());
  }
}

// The type of such a matrix in panels; `dtype` itself where there is none.
DType panel_dtype(DType dtype, const Shape& shape);
inline bool is_panels(DType dtype) {
  return dtype == DType::kQ4_0x16 || dtype == DType::kQ4_1x16 || dtype == DType::kQ5_0x16 ||
         dtype == DType::kQ8_0x16 || dtype == DType::kQ4_Kx16 || dtype == DType::kQ6_Kx16;
}

// Rows of blocks of width `in`, a multiple of 16 of them, into panels of type `to`; as many bytes.
void pack_panels(DType to,
                 int64_t in,
                 std::span<const std::byte> rows,
                 std::span<std::byte> panels);

// Row `row` of a matrix in panels: row.size() columns, as dequantize gives them.
void dequantize_row(DType dtype, const std::byte* panels, int64_t row, std::span<float> out);

}  // namespace base
}  // namespace ridge
