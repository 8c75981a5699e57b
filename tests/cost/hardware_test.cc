// SPDX-License-Identifier: Apache-2.0
// Hardware descriptions from a user's file: read back, with errors that name the field.
#include "cost/hardware.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ridge::cost {
namespace {

using nlohmann::json;

json plain() {
  return {{"name", "mine"},
          {"peaks", {{"bf16", 100.0}, {"f32", 10}}},
          {"memory_tera_bytes", 1.5},
          {"memory_bytes", 80'000'000'000}};
}

std::string refusal(const json& description) {
  try {
    hardware_from_json(description.dump(), "mine.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadFile);
    return error.what();
  }
  return "";
}

TEST(HardwareFile, IsReadWithItsFallbacks) {
  Hardware hardware = hardware_from_json(plain().dump(), "mine.json");
  EXPECT_EQ(hardware.title, "mine");
  ASSERT_EQ(hardware.peaks.size(), 2u);
  EXPECT_EQ(hardware.peaks[0].dtype, DType::kF32);
  EXPECT_EQ(hardware.peaks[1].tera_flops, 100);
  EXPECT_EQ(hardware.vector_tera_flops, 10);
  EXPECT_EQ(hardware.memory_bytes, 80'000'000'000);
  EXPECT_EQ(hardware.source, "file mine.json");
  EXPECT_EQ(hardware.cache_bytes, 0);
  json description = plain();
  description["cache_bytes"] = 0;  // as if it were not there
  EXPECT_EQ(hardware_from_json(description.dump(), "mine.json").cache_bytes, 0);
  description["cache_bytes"] = -1;
  EXPECT_NE(refusal(description).find("cache_bytes"), std::string::npos);
}

// The table once more, in the units of the data sheets. `sparsity` is 2 if the sheet's rates of
// tf32 and bf16 are those with sparsity.
struct Sheet {
  const char* name;
  const char* sheet;
  double vector_tera_flops, f32_tera_flops;
  double sparsity, tf32_tera_flops, bf16_tera_flops;
  double memory_giga_bytes;  // per second
  int64_t memory_gigabytes, cache_megabytes;
  double link_giga_bytes;
  int64_t multiprocessors, shared_kilobytes;  // units of the chip; KiB of one for blocks
  double watts;
};
constexpr Sheet kSheets[] = {
    {"a6000", "NVIDIA Ampere GA102 white paper, table of the RTX A6000", 38.7, 38.7,  //
     1, 77.4, 154.8, 768, 48, 6, 112.5, 84, 100, 300},
    {"a10", "NVIDIA A10 data sheet", 31.2, 31.2, 2, 125, 250, 600, 24, 6, 64, 72, 100, 150},
    {"a100-40", "NVIDIA A100 data sheet, SXM 40 GB", 19.5, 19.5, 2, 312, 624, 1555, 40, 40, 600,  //
     108, 164, 400},
    {"a100", "NVIDIA A100 data sheet, SXM 80 GB", 19.5, 19.5, 2, 312, 624, 2039, 80, 40, 600,  //
     108, 164, 400},
    {"h100", "NVIDIA H100 data sheet, SXM", 67, 67, 2, 989, 1979, 3350, 80, 50, 900, 132, 228, 700},
    {"h200", "NVIDIA H200 data sheet, SXM", 67, 67, 2, 989, 1979, 4800, 141, 50, 900, 132, 228,
     700},
    {"mi210", "AMD Instinct MI210 data sheet", 22.6, 45.3, 1, 0, 181, 1600, 64, 8, 300, 104, 64,
     300},
    {"mi250", "AMD Instinct MI250 data sheet", 45.3, 90.5, 1, 0, 362.1, 3200, 128, 16, 600, 208, 64,
     500},
    {"mi300x", "AMD Instinct MI300X data sheet", 163.4, 163.4, 1, 653.7, 1307.4, 5300, 192, 256,
     896, 304, 64, 750},
    {"rtx4090", "NVIDIA Ada white paper, GeForce RTX 4090, fp32 sums", 82.6, 82.6, 2, 165.2, 330.4,
     1008, 24, 72, 64, 128, 100, 450},
    {"l4", "NVIDIA L4 data sheet", 30.3, 30.3, 2, 120, 242, 300, 24, 48, 64, 58, 100, 72},
    {"l40s", "NVIDIA L40S data sheet", 91.6, 91.6, 1, 183, 362.05, 864, 48, 96, 64, 142, 100, 350},
    {"b200", "NVIDIA Blackwell data sheet, HGX B200", 80, 80, 2, 2200, 4500, 8000, 180, 126, 1800,
     148, 228, 1000},
    {"mi355x", "AMD Instinct MI355X data sheet", 157.3, 157.3, 1, 0, 2516.6, 8000, 288, 256, 1075.2,
     256, 160, 1400},
};

TEST(Hardware, IsThatOfTheDataSheets) {
  EXPECT_EQ(hardware_table().size(), std::size(kSheets));
  for (const Sheet& sheet : kSheets) {
    const Hardware* found = find_hardware(sheet.name);
    ASSERT_NE(found, nullptr) << sheet.name;
    const Hardware& h = *found;
    auto rate = [&](DType dtype) {
      for (const PeakRate& peak : h.peaks)
        if (peak.dtype == dtype) return peak.tera_flops;
      return 0.0;
    };
    EXPECT_EQ(h.peaks.size(), 3u) << sheet.sheet;
    EXPECT_EQ(h.peaks[0].dtype, DType::kF32) << sheet.sheet;
    EXPECT_DOUBLE_EQ(rate(DType::kF32), sheet.f32_tera_flops) << sheet.sheet;
    EXPECT_DOUBLE_EQ(rate(DType::kBF16), sheet.bf16_tera_flops / sheet.sparsity) << sheet.sheet;
    EXPECT_DOUBLE_EQ(rate(DType::kF16), sheet.bf16_tera_flops / sheet.sparsity) << sheet.sheet;
    EXPECT_DOUBLE_EQ(h.tf32_tera_flops, sheet.tf32_tera_flops / sheet.sparsity) << sheet.sheet;
    EXPECT_DOUBLE_EQ(h.vector_tera_flops, sheet.vector_tera_flops) << sheet.sheet;
    EXPECT_DOUBLE_EQ(h.memory_tera_bytes, sheet.memory_giga_bytes / 1000) << sheet.sheet;
    EXPECT_EQ(h.memory_bytes, sheet.memory_gigabytes * 1'000'000'000) << sheet.sheet;
    EXPECT_EQ(h.cache_bytes, sheet.cache_megabytes * 1'000'000) << sheet.sheet;
    EXPECT_DOUBLE_EQ(h.interconnect_giga_bytes, sheet.link_giga_bytes) << sheet.sheet;
    EXPECT_EQ(h.multiprocessors, sheet.multiprocessors) << sheet.sheet;
    EXPECT_EQ(h.shared_bytes, sheet.shared_kilobytes * 1024) << sheet.sheet;
    EXPECT_DOUBLE_EQ(h.board_watts, sheet.watts) << sheet.sheet;
  }
}

TEST(Hardware, IsFoundInAnyCase) {
  EXPECT_EQ(find_hardware("MI300X"), find_hardware("mi300x"));
  EXPECT_EQ(find_hardware("A100-40")->name, "a100-40");
  EXPECT_EQ(find_hardware("h10"), nullptr);
  EXPECT_EQ(find_hardware("h1000"), nullptr);
  EXPECT_EQ(find_hardware(""), nullptr);
  EXPECT_EQ(
      hardware_names(),
      "a6000, a10, a100-40, a100, rtx4090, l4, l40s, h100, h200, b200, mi210, mi250, mi300x, mi355x");
}

// Rates of the sheet times the shares, per nanosecond.
TEST(Hardware, CeilingsAreSharesOfTheSheet) {
  const Ceilings c =
      ceilings_of(*find_hardware("a100"), false,
                  {.products = 0.5, .memory = 0.8, .vector = 0.4, .launch_ns = 3000});
  EXPECT_DOUBLE_EQ(c.product(DType::kF32).peak_flops_per_ns, 9750);
  EXPECT_DOUBLE_EQ(c.product(DType::kF32).theoretical_flops_per_ns, 19500);
  EXPECT_DOUBLE_EQ(c.product(DType::kBF16).peak_flops_per_ns, 156'000);
  EXPECT_DOUBLE_EQ(c.memory_bytes_per_ns(), 0.8 * 2039);
  EXPECT_DOUBLE_EQ(c.memory_reads_per_ns(), 0.8 * 2039);
  EXPECT_DOUBLE_EQ(c.levels.back().theoretical_bytes_per_ns, 2039);
  EXPECT_EQ(c.levels.back().capacity_bytes, 80'000'000'000);
  ASSERT_EQ(c.bandwidth.size(), 1u);
  EXPECT_DOUBLE_EQ(c.bandwidth[0].copy_bytes_per_ns, 0.8 * 2039);
  EXPECT_DOUBLE_EQ(c.bandwidth[0].read_bytes_per_ns, 0.8 * 2039);
  EXPECT_DOUBLE_EQ(c.arithmetic_flops_per_ns, 0.4 * 19500);
  EXPECT_DOUBLE_EQ(c.fused_flops_per_ns, 0.4 * 19500);
  EXPECT_DOUBLE_EQ(c.transcendentals_per_ns, 0.4 * 19500 / 8);
  EXPECT_DOUBLE_EQ(c.launch_ns, 3000);
  ASSERT_EQ(c.attention.size(), 3u);
  const AttentionRates& attention = c.attention[1];
  EXPECT_EQ(attention.dtype, DType::kBF16);
  EXPECT_DOUBLE_EQ(attention.forward_flops_per_ns, 156'000);
  EXPECT_DOUBLE_EQ(attention.backward_flops_per_ns, 104'000);
  for (double scores : {attention.forward_scores_per_ns, attention.backward_scores_per_ns})
    EXPECT_DOUBLE_EQ(scores, 0.4 * 19500 / 8);
  EXPECT_DOUBLE_EQ(ceilings_of(*find_hardware("a100"), true, {.products = 0.5})
                       .product(DType::kF32)
                       .peak_flops_per_ns,
                   78'000);
}

TEST(Hardware, PlansTf32AtItsOwnRateOrRefusesIt) {
  for (const Hardware& each : hardware_table()) {
    if (each.tf32_tera_flops == 0) {
      EXPECT_THROW(ceilings_of(each, true), Error) << each.name;
      continue;
    }
    const ProductRates rates = ceilings_of(each, true).product(DType::kF32);
    EXPECT_EQ(rates.theoretical_flops_per_ns, 1000 * each.tf32_tera_flops) << each.name;
    // GeForce cards multiply TF32 no faster than fp32.
    EXPECT_GE(rates.peak_flops_per_ns, ceilings_of(each).product(DType::kF32).peak_flops_per_ns);
  }
}

TEST(Hardware, UtilizationIsAShareOfTheDataSheet) {
  const Ceilings c = ceilings_of(*find_hardware("a10"));
  EXPECT_EQ(c.mfu_reference(DType::kBF16).per_ns, 125'000);
  EXPECT_EQ(c.mfu_reference(DType::kBF16).source, "data sheet");
  EXPECT_EQ(c.mbu_reference().per_ns, 600);
}

TEST(HardwareFile, FaultsNameTheField) {
  auto with = [](const char* key, json value) {
    json description = plain();
    description[key] = std::move(value);
    return refusal(description);
  };
  for (const char* key : {"name", "peaks", "memory_tera_bytes", "memory_bytes"}) {
    EXPECT_NE(with(key, json::array()).find(key), std::string::npos) << key;
    EXPECT_NE(with(key, nullptr).find(key), std::string::npos) << key;
  }
  for (const json& value : {json(0), json(-1), json(1e9), json("fast")}) {
    EXPECT_NE(with("memory_tera_bytes", value).find("memory_tera_bytes"), std::string::npos);
    EXPECT_NE(with("peaks", {{"f32", value}}).find("peaks.f32"), std::string::npos) << value;
  }
  EXPECT_NE(with("memory_bytes", 0).find("an integer >= 1"), std::string::npos);
  EXPECT_NE(with("peaks", {{"f33", 1}}).find("\"f33\""), std::string::npos);
  EXPECT_NE(with("peaks", {{"bf16", 1}}).find("a rate for f32"), std::string::npos);
  EXPECT_NE(refusal(json::array()), "");
}

// Names, multiprocessors and bytes as drivers report them.
TEST(Hardware, IsThatOfADevice) {
  auto sheet = [](const char* name, int64_t multiprocessors, int64_t bytes) {
    const Hardware* found = hardware_of_device(name, multiprocessors, bytes);
    return found == nullptr ? "" : found->name;
  };
  EXPECT_EQ(sheet("NVIDIA H100 80GB HBM3", 132, 85'018'279'936), "h100");
  EXPECT_EQ(sheet("NVIDIA H200", 132, 150'109'880'320), "h200");
  EXPECT_EQ(sheet("NVIDIA A100-PG509-200", 108, 42'297'524'224), "a100-40");
  EXPECT_EQ(sheet("NVIDIA A100-SXM4-80GB", 108, 85'094'825'984), "a100");
  EXPECT_EQ(sheet("AMD Instinct MI300X VF", 304, 205'571'227'648), "mi300x");
  EXPECT_EQ(sheet("", 304, 206'141'652'992), "mi300x");
  EXPECT_EQ(sheet("NVIDIA H100 PCIe", 114, 85'000'000'000), "");
  EXPECT_EQ(sheet("AMD Radeon Graphics", 104, 68'702'699'520), "");
  EXPECT_EQ(sheet("NVIDIA L40", 142, 48'000'000'000), "");
  EXPECT_EQ(sheet("", 0, 0), "");
}

}  // namespace
}  // namespace ridge::cost
