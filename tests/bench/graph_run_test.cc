// SPDX-License-Identifier: Apache-2.0
// A graph gives the same on given data as arithmetic by hand, at each level.
#include "bench/graph_run.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "base/error.h"
#include "bench/graph_file.h"
#include "graph/text_form.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

constexpr const char* kGraph = R"(%0 = input f32[2,3] "x"
%1 = parameter bf16[2,3] "w"
%2 = state f32[2,3] "s"
%3 = input i32[2] "ids"
%4 : f32[2,3] = cast(%1) {dtype="f32"} #forward
%5 : f32[2,3] = mul(%0, %4) #forward
%6 : f32[2,3] = add(%5, %2) #forward
%7 : f32[2,3] = embedding(%6, %3) #forward
return %6, %7
)";

class GraphRun : public testing::Test {
 protected:
  GraphRun() : trial_(trial_of(parse_graph(kGraph, ops::table()))) {
    const std::vector<Value> operands = operands_of(trial_.graph);
    given_["x"] = stored(operands[0], std::vector<float>{1, 2, 3, 4, 5, 6});
    given_["w"] = stored(operands[1], std::vector<float>{1, 2, 1, 2, 1, 2});
    given_["ids"] = stored(operands[3], std::vector<int32_t>{1, 1});
  }
  std::vector<std::vector<float>> run(const char* level = "baseline") {
    return run_graph(trial_, passes::Selection(level, ""), *backend_, given_);
  }

  TrialGraph trial_;
  OperandBytes given_;
  std::unique_ptr<backends::Backend> backend_ = backends::cpu::make_cpu_backend({1, "", false, ""});
};

TEST_F(GraphRun, GivesOutputsInTheirOrder) {
  const std::vector<std::vector<float>> wanted = {{1, 4, 3, 8, 5, 12}, {8, 5, 12, 8, 5, 12}};
  for (const char* level : {"baseline", "compiled"}) EXPECT_EQ(run(level), wanted) << level;
  given_["s"] = stored(operands_of(trial_.graph)[2], std::vector<float>{1, 1, 1, 1, 1, 1});
  EXPECT_EQ(run()[0], (std::vector<float>{2, 5, 4, 9, 6, 13}));
}

TEST_F(GraphRun, RefusesMissingAndUnknownOperands) {
  given_["y"] = {};
  EXPECT_THROW(run(), Error);
  given_.erase("y");
  EXPECT_NO_THROW(run());
  given_.erase("w");
  EXPECT_THROW(run(), Error);
}

// The squared error of a lecture: w = (3, 1), phi = (1, 2), y = 2; its gradient of w is (6, 12).
TEST(GraphRunOnValues, GivesGradients) {
  const auto backend = backends::cpu::make_cpu_backend({1, "", false, ""});
  const TrialGraph trial =
      trial_of(parse_graph("%0 = parameter f32[2] \"w\"\n"
                           "%1 = input f32[2] \"phi\"\n"
                           "%2 = input f32[] \"y\"\n"
                           "%3 : f32[] = einsum(%0, %1) {einsum=\"i,i->\"} #forward\n"
                           "%4 : f32[] = sub(%3, %2) #forward\n"
                           "%5 : f32[] = square(%4) #forward\n"
                           "return %5\n",
                           ops::table()));
  std::map<std::string, std::vector<float>> values = {{"w", {3, 1}}, {"phi", {1, 2}}, {"y", {2}}};
  for (const char* level : {"baseline", "compiled"}) {
    TrialSetting setting;
    setting.selection = passes::Selection(level, "");
    EXPECT_EQ(run_on_values(trial, setting, *backend, values).size(), 1u);
    setting.is_backward = true;
    const std::vector<NamedResult> results = run_on_values(trial, setting, *backend, values);
    ASSERT_EQ(results.size(), 4u);
    EXPECT_EQ(results[0].name, "result");
    EXPECT_EQ(results[0].values, (std::vector<float>{9}));
    EXPECT_EQ(results[1].name, "gradient of w");
    EXPECT_EQ(results[1].values, (std::vector<float>{6, 12}));
    EXPECT_EQ(results[2].values, (std::vector<float>{18, 6}));
    EXPECT_EQ(results[3].values, (std::vector<float>{-6}));
  }
  values["w"] = {3};
  EXPECT_THROW(run_on_values(trial, {}, *backend, values), Error);
  values["w"] = {3, 1};
  values["z"] = {1};
  EXPECT_THROW(run_on_values(trial, {}, *backend, values), Error);
}

TEST_F(GraphRun, RefusesAGraphWithoutNodes) {
  EXPECT_THROW(trial_of(Graph()), Error);
  EXPECT_THROW(stored(operands_of(trial_.graph)[3], std::vector<float>{1, 1}), Error);
  EXPECT_THROW(stored(operands_of(trial_.graph)[0], std::vector<int32_t>{1, 2, 3, 4, 5, 6}), Error);
}

}  // namespace
}  // namespace ridge::bench
