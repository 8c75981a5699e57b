// SPDX-License-Identifier: Apache-2.0
// /debug/activity and /debug/trace against the engine's counts.
#include "http/event_log_json.h"

#include "http/body.h"
#include "http/served_model_test.h"
#include "report/trace_rules.h"

namespace ridge::http {
namespace {

class ActivityTest : public ServedModelTest {
 protected:
  ActivityTest() { api_.open(model_); }

  json get(const std::string& path, const std::string& query) {
    const Reply reply = api_.reply({"GET", path, "", "", query}, [] {});
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }
  void serve_three() {
    std::vector<std::unique_ptr<serve::AnswerReader>> readers;
    for (int32_t i = 1; i <= 3; ++i)
      readers.push_back(std::make_unique<serve::AnswerReader>(
          engine_, serve::Request{.prompt = std::vector<int32_t>(static_cast<size_t>(30 * i), i),
                                  .max_tokens = 5 + i,
                                  .ignores_end = true}));
    for (auto& each : readers) each->finished();
    await([&] { return engine_.is_idle() && engine_.counts().running == 0; });
  }
};

TEST_F(ActivityTest, AddsUpToTheCounts) {
  serve_three();
  const json activity = get("/debug/activity", "");
  const serve::EngineCounts counts = engine_.counts();
  std::map<std::string, int64_t> sums;
  const json& steps = activity.at("steps");
  for (const json& row : steps.at("rows")) {
    for (size_t i = 3; i < 10; ++i) sums[steps.at("columns").at(i)] += row.at(i).get<int64_t>();
    EXPECT_LT(row.at(1), row.at(2));
    EXPECT_EQ(row.at(10), "f32");
  }
  EXPECT_EQ(std::ssize(steps.at("rows")), counts.steps);
  EXPECT_EQ(sums["prefill_tokens"], counts.prompt_tokens - counts.cached_tokens);
  EXPECT_EQ(sums["decode_tokens"], counts.generated_tokens - 3);  // the first are of the prompts
  EXPECT_EQ(sums["model_flops"], counts.cost.model.flops);
  EXPECT_EQ(sums["executed_flops"], counts.cost.executed_flops);
  EXPECT_EQ(sums["read_bytes"], counts.cost.read_bytes);
  EXPECT_EQ(sums["written_bytes"], counts.cost.written_bytes);
  ASSERT_EQ(activity.at("requests").size(), 3u);
  double ttft_s = 0;
  for (const json& each : activity.at("requests")) {
    EXPECT_EQ(each.at("finish_reason"), "length");
    EXPECT_EQ(each.at("prompt_tokens"), 30 * each.at("id").get<int64_t>());
    EXPECT_EQ(each.at("generated_tokens"), 5 + each.at("id").get<int64_t>());
    EXPECT_EQ(each.at("stages").at(2).at(0), "decode");
    ttft_s +=
        (each.at("first_ns").get<double>() - each.at("stages").at(0).at(1).get<double>()) / 1e9;
  }
  EXPECT_NEAR(ttft_s, counts.ttft.sum, 1e-6);
  const json& blocks = activity.at("blocks");
  EXPECT_EQ(blocks.at("blocks"), counts.blocks);
  EXPECT_EQ(blocks.at("used"), 0);
  EXPECT_GT(blocks.at("cached"), 0);
  EXPECT_EQ(blocks.at("free").get<int64_t>() + blocks.at("cached").get<int64_t>(), counts.blocks);
  EXPECT_EQ(std::ssize(blocks.at("cells").get<std::string>()), counts.blocks);
  EXPECT_EQ(activity.at("server").at("model"), "small");
  const json next =
      get("/debug/activity", "after=" + std::to_string(activity.at("event").get<int64_t>()));
  EXPECT_EQ(next.at("steps").at("rows").size(), 0u);
  EXPECT_EQ(next.at("requests").size(), 0u);
  EXPECT_FALSE(next.contains("server"));
}

TEST_F(ActivityTest, TracesFollowTheRulesOfTraces) {
  serve_three();
  const json trace = get("/debug/trace", "seconds=3600");
  EXPECT_EQ(report::TraceRules(trace).broken(), std::vector<std::string>{});
  std::map<std::string, int64_t> slices;
  std::set<int64_t> lanes;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::string name = event.at("name");
    ++slices[name.substr(0, name.find_first_of("# "))];
    if (name.starts_with("request ")) lanes.insert(event.at("tid").get<int64_t>());
  }
  EXPECT_EQ(slices["ProfilerStep"], engine_.counts().steps);
  EXPECT_EQ(slices["request"], 3);
  EXPECT_EQ(slices["prefill"], 3);
  EXPECT_EQ(slices["decode"], 3);
  EXPECT_GE(lanes.size(), 2u);
  EXPECT_LE(lanes.size(), 3u);
}

TEST_F(ActivityTest, RefusesWrongNumbers) {
  for (const char* wrong : {"seconds=0", "seconds=-1", "seconds=", "seconds=1e3", "seconds",
                            "seconds=99999999999999999999", "x=1&seconds=3601"}) {
    const Reply reply = api_.reply({"GET", "/debug/trace", "", "", wrong}, [] {});
    EXPECT_EQ(reply.status, 400) << wrong;
    EXPECT_EQ(json::parse(reply.body).at("error").at("param"), "seconds") << wrong;
  }
  EXPECT_EQ(query_integer("seconds2=5&&=&seconds=7&seconds=8", "seconds", 1, 9, 5), 7);
  EXPECT_EQ(query_integer("", "seconds", 1, 9, 5), 5);
}

class ActivityKeyTest : public ServedModelTest {
 protected:
  ActivityKeyTest() : ServedModelTest(ApiKeys({kKey})) { api_.open(model_); }
};

TEST_F(ActivityKeyTest, NeedsAKey) {
  for (const char* path : {"/debug/activity", "/debug/trace"}) {
    EXPECT_EQ(api_.reply({"GET", path, "", ""}, [] {}).status, 401);
    EXPECT_EQ(api_.reply({"GET", path, std::string("Bearer ") + kKey, ""}, [] {}).status, 200);
  }
}

}  // namespace
}  // namespace ridge::http
