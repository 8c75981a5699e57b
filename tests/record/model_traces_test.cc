// SPDX-License-Identifier: Apache-2.0
// Training steps of six models on a CPU, eager and compiled, as PyTorch recorded them
// (tests/data/traces/make_model_traces.py), against its own counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "files/json.h"
#include "record/trace_text.h"
#include "test_paths.h"

namespace ridge::record {
namespace {

class ModelTrace : public testing::TestWithParam<const char*> {};

std::string model_of(const std::string& name) { return name.substr(0, name.find('_')); }

Imported import_model(const std::string& name) {
  return import_trace(files::BlockReader(test_data("traces/" + name + ".json.gz")));
}

// The time that at least one of the spans covers.
int64_t covered_ns(std::vector<std::pair<int64_t, int64_t>> spans) {
  std::ranges::sort(spans);
  int64_t sum = 0, end = INT64_MIN;
  for (const auto& [begin_ns, end_ns] : spans) {
    sum += std::max<int64_t>(end_ns - std::max(begin_ns, end), 0);
    end = std::max(end, end_ns);
  }
  return sum;
}

// The gradients of recurrent networks and experts take twice their forward pass.
TEST_P(ModelTrace, HasTheFlopsThatPyTorchCounts) {
  const nlohmann::json fact =
      files::read_json(test_data("traces/models.json")).at(model_of(GetParam()));
  int64_t expected = 0;
  for (const auto& [op, flops] : fact.at("flops").items()) expected += flops.get<int64_t>();
  for (const auto& [part, macs] : fact.at("by_hand").items()) expected += 6 * macs.get<int64_t>();
  int64_t found = 0;
  const Imported imported = import_model(GetParam());
  for (const NodeRecord& node : imported.run.step.nodes) found += 2 * node.work.macs;
  EXPECT_EQ(found, expected);
}

TEST_P(ModelTrace, EveryOperationHasARowAndIdleIsTheRest) {
  const Imported imported = import_model(GetParam());
  ASSERT_EQ(imported.steps.steps.size(), 1u);
  const ImportedStep& step = imported.steps.steps[0];
  std::vector<std::pair<int64_t, int64_t>> events, rows;
  for (const ForeignEvent& event : imported.trace.events)
    if (event.kind == EventKind::kOperation && event.begin_ns >= step.begin_ns &&
        event.begin_ns < step.end_ns)
      events.emplace_back(event.begin_ns, event.end_ns());
  for (const ImportedSpan& span : imported.steps.spans)
    rows.emplace_back(span.begin_ns, span.end_ns);
  const auto whole = static_cast<double>(covered_ns(events));
  EXPECT_NEAR(static_cast<double>(covered_ns(rows)), whole, 0.001 * whole);
  EXPECT_NEAR(static_cast<double>(imported.run.step.busy_ns()), whole, 0.001 * whole);
  for (const NodeRecord& node : imported.run.step.nodes) EXPECT_FALSE(node.op.empty());
  const Attribution& a = imported.steps.attribution;
  EXPECT_GT(a.share(a.all_ns() - a.unknown_ns), 0.98);
}

TEST_P(ModelTrace, TitleClaimsNoTokensOfImages) {
  const std::string name = GetParam(), model = model_of(name);
  const Setting setting = import_model(name).run.setting;
  EXPECT_EQ(setting.task, "train");
  EXPECT_EQ(setting.level, name.ends_with("eager") ? "eager" : "compile");
  const bool has_tokens = model != "resnet50" && model != "vit";
  EXPECT_EQ(setting.batch_size, has_tokens ? 2 : 0);
  EXPECT_EQ(setting.sequence, has_tokens ? 32 : 0);
}

INSTANTIATE_TEST_SUITE_P(All,
                         ModelTrace,
                         testing::Values("resnet50_eager",
                                         "resnet50_compiled",
                                         "lstm_eager",
                                         "lstm_compiled",
                                         "vit_eager",
                                         "vit_compiled",
                                         "gpt2_eager",
                                         "gpt2_compiled",
                                         "bert_eager",
                                         "bert_compiled",
                                         "mixtral_eager",
                                         "mixtral_compiled"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ridge::record
