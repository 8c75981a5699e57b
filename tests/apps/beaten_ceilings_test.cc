// SPDX-License-Identifier: Apache-2.0
// Ceilings of the cache that a run of the program is faster than: it says so and keeps better ones.
#include "cost/ceilings.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

class BeatenCeilings : public ProgramTest {
 protected:
  // Puts ceilings of this machine whose GEMMs are a thousandth as fast into a cache of this test.
  void SetUp() override {
    const Output machine = run({"machine", "--threads", "1", "--json"});
    ASSERT_EQ(machine.code, 0) << machine.err;
    cost::Ceilings ceilings = cost::ceilings_from_json(machine.out, "machine");
    for (cost::ProductRates& each : ceilings.products) each.peak_flops_per_ns /= 1000;
    ceilings.others_share = 0;
    lowered_ = ceilings.peak_flops_per_ns(DType::kF32);
    path_ = fmt::format("cache/ridge/machine-{}.json", ceilings.machine.hash());
    std::filesystem::create_directories(folder_ / "cache/ridge");
    files::write_plain(folder_ / path_, cost::to_json(ceilings));
    limits_.cache = folder_ / "cache";
  }

  void expect_raised(const Output& output) const {
    std::string said = output.out + output.err;  // Lines are wrapped.
    std::ranges::replace(said, '\n', ' ');
    EXPECT_NE(said.find("so that was raised to what it reached"), std::string::npos) << said;
    const cost::Ceilings kept = cost::ceilings_from_json(files::contents(folder_ / path_), path_);
    EXPECT_GT(kept.peak_flops_per_ns(DType::kF32), 10 * lowered_);
  }

  RunLimits limits_;
  std::string path_;
  double lowered_ = 0;
};

TEST_F(BeatenCeilings, OfATrainingAreRaised) {
  const Output output =
      run({"train", "--preset", "tiny", "--steps", "8", "--threads", "1", "--profile"}, limits_);
  EXPECT_EQ(output.code, 0) << output.err;
  expect_raised(output);
}

// A lab that nobody waits for measures nothing more.
TEST_F(BeatenCeilings, OfAnInterruptedLabAreRaisedWithoutAnotherMeasurement) {
  Output output;
  for (int wait_ms = 500; wait_ms < 20'000 && !std::filesystem::exists(folder_ / "lab");
       wait_ms *= 2) {
    const pid_t child = start({"lab", "--preset", "tiny", "--steps", "100000", "--threads", "1",
                               "--verbose", "--out", "lab"},
                              limits_);
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    ::kill(child, SIGINT);
    output = finish(child);
  }
  EXPECT_EQ(output.code, 128 + SIGINT);
  EXPECT_EQ(output.err.find("were measured again"), std::string::npos) << output.err;
  expect_raised(output);
}

}  // namespace
}  // namespace ridge::apps
