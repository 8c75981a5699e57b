// SPDX-License-Identifier: Apache-2.0
// Plans from a number of parameters against the figures of a lecture on resource accounting
// (CS336).
#include "planning/plans.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "planning/layout.h"
#include "planning/planned.h"

namespace ridge::planning {
namespace {

record::ParameterPlan plan(const ParameterPlanRequest& request) {
  return plan_parameters(request, hardware_list("h100"))[0];
}

// 70B parameters and 15T tokens take 1,024 H100 144 days at an MFU of 50%.
TEST(ParameterPlan, SeventyBillionParametersTakeHalfAYear) {
  ParameterPlanRequest request{{.devices = 1024, .price = 2}, 70e9, 15e12, 0.5};
  const record::ParameterPlan got = plan(request);
  EXPECT_EQ(got.flops(), 6.3e24);
  EXPECT_EQ(got.hardware.memory_bytes, hardware_list("h100")[0].memory_bytes);
  const double days = got.assumed_days;
  EXPECT_GE(days, 143);
  EXPECT_LE(days, 144);
  EXPECT_EQ(got.zero, cost::Zero::kWeights);  // the lowest stage that fits
  EXPECT_NEAR(got.spent.device_hours, days * 24 * 1024, 1);
  EXPECT_NEAR(got.spent.price, days * 24 * 1024 * 2, 1);
  EXPECT_NEAR(got.spent.kilowatt_hours, days * 24 * 1024 * 0.7, 1);
  request.layout.zero = "0";
  const record::ParameterPlan unfit = plan(request);
  EXPECT_FALSE(unfit.fits);
  EXPECT_EQ(unfit.would_fit[0].rfind("--zero 3", 0), 0u);
}

// 8 H100 hold 40B parameters with plain AdamW, 16 bytes each.
TEST(ParameterPlan, EightDevicesHoldFortyBillionParameters) {
  for (const char* dtype : {"fp32", "bf16"}) {
    const record::ParameterPlan got = plan({{.devices = 8}, 40e9, 1e9, 0.4, dtype});
    EXPECT_EQ(got.types.total(), 16) << dtype;
    EXPECT_TRUE(got.fits) << dtype;
    EXPECT_EQ(got.largest_model, 40'000'000'000) << dtype;
  }
  EXPECT_FALSE(plan({{.devices = 8}, 40.1e9, 1e9, 0.4}).fits);
}

// 8 devices of 80 GB hold 16, 9, 5.5 and 2 bytes of a parameter by the stages of ZeRO in fp32.
TEST(ParameterPlan, SuggestsTheNextStageThatFits) {
  auto changes = [](double parameters, const char* stage, int64_t devices = 8) {
    const record::ParameterPlan got =
        plan({{.devices = devices, .zero = stage}, parameters, 1e9, 0.4, "fp32"});
    std::string text;
    for (const std::string& change : got.would_fit)
      if (change.starts_with("--zero")) text += change + ";";
    return text;
  };
  EXPECT_EQ(changes(7e9, "0"), "--zero 1 (58.7 GiB);");
  EXPECT_EQ(changes(12e9, "1"), "--zero 2 (61.5 GiB);");
  EXPECT_EQ(changes(12e9, "0"), "--zero 2 (61.5 GiB);");
  EXPECT_EQ(changes(30e9, "2"), "--zero 3 (55.9 GiB);");
  EXPECT_EQ(changes(7e9, "0", 1), "");
  EXPECT_EQ(changes(300e9, "0"), "");
}

TEST(ParameterPlan, RefusesNumbersThatCannotBe) {
  for (double parameters : {0.0, -1.0, 1e16, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(plan({{}, parameters, 1e9, 0.4}), Error) << parameters;
}

TEST(Layout, RefusesWhatCannotBe) {
  EXPECT_NO_THROW(expect_sane({}));
  for (const record::PlanLayout& layout :
       std::vector<record::PlanLayout>{{.devices = 0},
                                       {.devices = 99'999'999},
                                       {.zero = "4"},
                                       {.weight_dtype = "i8"},
                                       {.gradient_dtype = "i8"},
                                       {.moment_dtype = "q4_0"},
                                       {.link = -1},
                                       {.network = 0},
                                       {.network = std::numeric_limits<double>::infinity()},
                                       {.node_devices = 0},
                                       {.price = -1},
                                       {.watts = std::numeric_limits<double>::quiet_NaN()}})
    EXPECT_THROW(expect_sane(layout), Error);
}

}  // namespace
}  // namespace ridge::planning
