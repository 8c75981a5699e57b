// SPDX-License-Identifier: Apache-2.0
// The table of core widths, the rule that corrects it, and the loops that its rates are compared
// with. Nothing is timed.
#include "backends/cpu/calibration/core_widths.h"

#include <gtest/gtest.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/peak/multiply.h"
#include "backends/cpu/kernels/peak/unpack_repacked.h"
#include "base/arena.h"
#include "base/repacked_tiles.h"

namespace ridge::backends::cpu {
namespace {

// Operations per core and cycle, as manufacturers state them.
double ops(const Processor& processor, Multiplier multiplier) {
  const CoreWidths* widths = core_widths(processor);
  return widths == nullptr ? 0 : widths->of(multiplier) * static_cast<double>(info(multiplier).ops);
}

Processor amd(int family, int model) { return {"AuthenticAMD", family, model}; }
Processor intel(int model) { return {"GenuineIntel", 6, model}; }

TEST(CoreWidths, OfAmd) {
  using enum Multiplier;
  EXPECT_EQ(ops(amd(0x17, 0x01), kFma256), 16);  // Zen: 128-bit units
  EXPECT_EQ(ops(amd(0x17, 0x31), kFma256), 32);  // Zen 2
  EXPECT_EQ(ops(amd(0x17, 0x31), kMaddInt16_256), 32);
  EXPECT_EQ(ops(amd(0x19, 0x01), kFma256), 32);  // Zen 3
  EXPECT_EQ(ops(amd(0x19, 0x01), kMaddInt16_256), 64);
  EXPECT_EQ(ops(amd(0x19, 0x01), kMaddInt8_256), 128);
  EXPECT_EQ(ops(amd(0x19, 0x01), kFma512), 0);
  EXPECT_EQ(ops(amd(0x19, 0x11), kFma512), 32);  // Zen 4: halves of 256 bits
  EXPECT_EQ(ops(amd(0x19, 0x11), kDotInt16_512), 64);
  EXPECT_EQ(ops(amd(0x19, 0x61), kDotBf16_512), 64);
  for (int model : {0x02, 0x11, 0x44, 0x70}) {  // Zen 5: servers, desktops, Strix Halo
    EXPECT_EQ(ops(amd(0x1a, model), kFma512), 64) << model;
    EXPECT_EQ(ops(amd(0x1a, model), kDotInt16_512), 128) << model;
    EXPECT_EQ(ops(amd(0x1a, model), kDotInt8_512), 256) << model;
    EXPECT_EQ(ops(amd(0x1a, model), kDotBf16_512), 128) << model;
  }
  for (int model : {0x24, 0x60})  // mobile parts
    EXPECT_EQ(ops(amd(0x1a, model), kDotInt16_512), 64) << model;
}

TEST(CoreWidths, OfIntel) {
  using enum Multiplier;
  EXPECT_EQ(ops(intel(0x3f), kFma256), 32);  // Haswell
  EXPECT_EQ(ops(intel(0x3f), kMaddInt16_256), 32);
  EXPECT_EQ(ops(intel(0x5e), kMaddInt16_256), 64);  // Skylake
  EXPECT_EQ(ops(intel(0x55), kDotInt16_512), 128);  // Cascade Lake
  EXPECT_EQ(ops(intel(0x8c), kDotInt16_512), 64);   // Tiger Lake: one 512-bit unit
  for (int model : {0x8f, 0xcf, 0xad}) {            // with AMX
    EXPECT_EQ(ops(intel(model), kFma512), 64);
    EXPECT_EQ(ops(intel(model), kTileBf16), 1024);
    EXPECT_EQ(ops(intel(model), kTileInt8), 2048);
  }
}

TEST(CoreWidths, OfOtherProcessorsAreUnknown) {
  EXPECT_EQ(core_widths(amd(0x15, 0x02)), nullptr);
  EXPECT_EQ(core_widths(amd(0x1a, 0x50)), nullptr);  // a later generation has it
  EXPECT_EQ(core_widths(intel(0x96)), nullptr);
  EXPECT_EQ(core_widths({"HygonGenuine", 0x18, 1}), nullptr);
  EXPECT_EQ(core_widths({}), nullptr);
}

TEST(CoreWidths, AreOfOneVendorFamilyAndModelAndNameTheirSource) {
  for (const char* vendor : {"AuthenticAMD", "GenuineIntel"})
    for (int family : {6, 0x17, 0x19, 0x1a})
      for (int model = 0; model < 256; ++model)
        if (const CoreWidths* widths = core_widths({vendor, family, model})) {
          EXPECT_FALSE(widths->name.empty());
          EXPECT_GT(widths->source.size(), 20u);
          EXPECT_GT(widths->of(Multiplier::kFma256), 0);
        }
}

TEST(CoreWidths, AreDoubledUntilTheyExplainWhatWasMeasured) {
  EXPECT_EQ(corrected_width(2, 1.2), 2);
  EXPECT_EQ(corrected_width(2, 2.1), 2);   // the clock varies
  EXPECT_EQ(corrected_width(1, 1.86), 2);  // a full-width core in a table of halves
  EXPECT_EQ(corrected_width(0.5, 1.9), 2);
  EXPECT_EQ(corrected_width(2, 100), 2);  // the clock was stopped meanwhile
  EXPECT_EQ(corrected_width(0, 1.9), 0);  // unknown
}

TEST(MultiplyLoops, CountTheirInstructions) {
  Arena factors(kFactorBytes, "factors");
  std::fill_n(factors.data(), kFactorBytes, std::byte{0x15});
  const auto counts = [&](int64_t done, int64_t asked) {
    EXPECT_GE(done, asked);
    EXPECT_LT(done, asked + 12);
  };
  if (isa_name() == "sse4.1") GTEST_SKIP() << "no AVX2";
  for (int64_t asked : {1, 12, 13, 1000}) {
    using enum Multiplier;
    for (Multiplier multiplier : {kFma256, kMaddInt16_256, kMaddInt8_256})
      counts(multiply(multiplier, factors.data(), asked), asked);
    for (Multiplier multiplier : {kMaddInt16_256, kMaddInt8_256})
      counts(multiply_and_add(multiplier, factors.data(), asked), asked);
    if (!__builtin_cpu_supports("avx512bw")) continue;
    for (Multiplier multiplier : {kFma512, kMaddInt16_512, kMaddInt8_512})
      counts(multiply(multiplier, factors.data(), asked), asked);
    for (Multiplier multiplier : {kMaddInt16_512, kMaddInt8_512})
      counts(multiply_and_add(multiplier, factors.data(), asked), asked);
    if (__builtin_cpu_supports("avx512vnni"))
      for (Multiplier multiplier : {kDotInt16_512, kDotInt8_512})
        counts(multiply(multiplier, factors.data(), asked), asked);
    if (has_bf16_products()) counts(multiply(kDotBf16_512, factors.data(), asked), asked);
    if (has_bf16_tiles()) counts(multiply_amx(kTileBf16, factors.data(), asked), asked);
  }
}

TEST(UnpackLoops, StayWithinWholeTiles) {
  if (isa_name() == "sse4.1") GTEST_SKIP() << "no AVX2";
  for (DType dtype : {DType::kQ4_0x16, DType::kQ4_1x16, DType::kQ5_0x16, DType::kQ8_0x16,
                      DType::kQ4_Kx16, DType::kQ6_Kx16, DType::kQ4_G32x16, DType::kQ4_G128x16})
    with_tile_type(dtype, [&](auto type) {
      using Tile = typename decltype(type)::type;
      // Sanitizers find a read past the end.
      std::vector<Tile> tiles(3);
      const auto bytes = static_cast<int64_t>(3 * sizeof(Tile));
      const auto* data = reinterpret_cast<const std::byte*>(tiles.data());
      unpack_repacked_avx2(dtype, data, bytes);
      unpack_repacked_avx2(dtype, data, bytes - 1);
      if (__builtin_cpu_supports("avx512bw")) unpack_repacked_avx512(dtype, data, bytes);
    });
}

}  // namespace
}  // namespace ridge::backends::cpu
