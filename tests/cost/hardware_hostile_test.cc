// SPDX-License-Identifier: Apache-2.0
// Damaged data sheets and ceilings, which are also the program's own cache, are refused as bad
// files or have finite positive rates.
#include <gtest/gtest.h>

#include <cmath>

#include "cost/hardware.h"
#include "files/damage.h"

namespace ridge::cost {
namespace {

constexpr int kRounds = 1500;

void expect_usable(const Ceilings& ceilings) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_TRUE(std::isfinite(ridge_point(ceilings, dtype)));
    EXPECT_GT(ridge_point(ceilings, dtype), 0);
    EXPECT_GT(ceilings.mfu_reference(dtype).per_ns, 0);
  }
  EXPECT_GT(ceilings.mbu_reference().per_ns, 0);
  EXPECT_EQ(ceilings.machine.hash().size(), 16u);
}

void expect_mixed(const files::Outcomes& outcomes) {
  EXPECT_GT(outcomes.refused, kRounds / 2);
  EXPECT_GT(outcomes.read, kRounds / 50);  // another number, another name
}

TEST(HostileHardware, DamagedDataSheets) {
  const std::string good =
      R"({"name": "my-gpu", "title": "My GPU", "peaks": {"f32": 19.5, "bf16": 312},
          "tf32_tera_flops": 156, "vector_tera_flops": 19.5, "memory_tera_bytes": 2.0,
          "memory_bytes": 80000000000, "cache_bytes": 40000000, "interconnect_giga_bytes": 600,
          "interconnect": "links", "source": "a sheet"})";
  expect_mixed(files::read_damaged(
      good,
      [](const std::string& text) {
        expect_usable(ceilings_of(hardware_from_json(text, "damaged.json")));
      },
      kRounds));
}

TEST(HostileHardware, DamagedCeilings) {
  Ceilings good = ceilings_of(*find_hardware("h100"));
  good.machine.libraries = {"library 1"};
  good.levels.push_back({"L2", 50 << 20, 5500, 5000, 0});
  good.products[0].samples.push_back({{2, 96, 48, 24}, ProductForm::kTN, 1234.5});
  expect_mixed(files::read_damaged(
      to_json(good),
      [](const std::string& text) { expect_usable(ceilings_from_json(text, "damaged.json")); },
      kRounds));
}

}  // namespace
}  // namespace ridge::cost
