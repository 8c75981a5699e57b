// SPDX-License-Identifier: Apache-2.0
// Hardware descriptions from a user's file: read back, with errors that name the field.
#include "cost/hardware.h"

#include <gtest/gtest.h>

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
}

TEST(Hardware, PlansTf32AtItsOwnRateOrRefusesIt) {
  for (const Hardware& each : hardware_table()) {
    if (each.tf32_tera_flops == 0) {
      EXPECT_THROW(ceilings_of(each, true), Error) << each.name;
      continue;
    }
    const ProductRates rates = ceilings_of(each, true).product(DType::kF32);
    EXPECT_EQ(rates.theoretical_flops_per_ns, 1000 * each.tf32_tera_flops) << each.name;
    EXPECT_GT(rates.peak_flops_per_ns, ceilings_of(each).product(DType::kF32).peak_flops_per_ns);
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

}  // namespace
}  // namespace ridge::cost
