// SPDX-License-Identifier: Apache-2.0
// The load generator guidellm against a server: every request succeeds, and it counts the tokens
// that the server counts. RIDGE_PEER_PYTHON is a Python that has it; otherwise pip fetches it
// (gigabytes, for it brings PyTorch) into a scratch folder, and without a network the test is
// skipped.
#include <fstream>

#include "files/scratch.h"
#include "http/served_model_test.h"
#include "http/server.h"
#include "peer_python.h"

namespace ridge::http {
namespace {

class LoadToolsTest : public ServedModelTest {
 protected:
  LoadToolsTest() : ServedModelTest(ApiKeys({kKey}), 4, 16) { api_.open(model_); }

  // A line for each request: its prompt, and how many tokens it asks for.
  std::string write_prompts(int count) const {
    const std::string path = folder_.path() / "prompts.jsonl";
    std::ofstream file(path);
    for (int i = 0; i < count; ++i)
      file << json{{"prompt", fmt::format("A story of {} cats", i)}, {"output_tokens_count", 8 + i}}
           << "\n";
    return path;
  }

  files::ScratchFolder folder_;
};

TEST_F(LoadToolsTest, GuidellmCountsWhatTheServerCounts) {
  const std::string interpreter = python_with("guidellm", "guidellm==0.8.1", folder_.path());
  if (interpreter.empty()) GTEST_SKIP() << "pip could not fetch the package guidellm";
  const Server server(api_, {.port = 0});
  constexpr int kRequests = 16;
  const std::string prompts = write_prompts(kRequests), report = folder_.path() / "report.json";
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    SCOPED_TRACE(path);
    const serve::EngineCounts before = engine_.counts();
    const std::string said = output_of(fmt::format(
        "HF_HUB_OFFLINE=1 '{}' -m guidellm run --backend "
        "kind=openai_http,target=http://127.0.0.1:{},request_format={},api_key={} --profile "
        "kind=concurrent,streams=4 --constraint kind=max_requests,count={} --data "
        "kind=json_file,path='{}' --output kind=json,path='{}' --disable-progress",
        interpreter, server.port(), path, kKey, kRequests, prompts, report));
    ASSERT_FALSE(said.empty());
    await([&] { return engine_.is_idle(); });
    const serve::EngineCounts after = engine_.counts();
    const json metrics = json::parse(std::ifstream(report)).at("benchmarks").at(0).at("metrics");
    const json& totals = metrics.at("request_totals");
    EXPECT_EQ(totals.at("successful"), kRequests);
    EXPECT_EQ(totals.at("errored"), 0);
    EXPECT_EQ(totals.at("incomplete"), 0);
    const auto sum = [&](const char* count) {
      return std::llround(metrics.at(count).at("successful").at("total_sum").get<double>());
    };
    EXPECT_EQ(sum("prompt_token_count"), after.prompt_tokens - before.prompt_tokens);
    EXPECT_EQ(sum("output_token_count"), after.generated_tokens - before.generated_tokens);
    EXPECT_EQ(sum("output_token_count"), kRequests * 8 + kRequests * (kRequests - 1) / 2);
    EXPECT_GT(metrics.at("time_to_first_token_ms").at("successful").at("min"), 0);
    EXPECT_EQ(after.blocks_in_use, 0);
  }
}

}  // namespace
}  // namespace ridge::http
