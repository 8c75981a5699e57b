// SPDX-License-Identifier: Apache-2.0
// The packages openai and prometheus_client against a server. RIDGE_PEER_PYTHON is a Python that
// has them; otherwise pip fetches them into a scratch folder, and without a network the tests are
// skipped.
#include "files/scratch.h"
#include "http/served_model_test.h"
#include "http/server.h"
#include "peer_python.h"

namespace ridge::http {
namespace {

class OpenAiTest : public ServedModelTest {
 protected:
  OpenAiTest() : ServedModelTest(ApiKeys({kKey})) { api_.open(model_); }

  files::ScratchFolder folder_;
};

TEST_F(OpenAiTest, GetsTheModelsAnswers) {
  const std::string interpreter = python_with("openai", "openai", folder_.path());
  if (interpreter.empty()) GTEST_SKIP() << "pip could not fetch the package openai";
  const Server server(api_, {.port = 0});
  const std::string said = output_of(
      fmt::format("'{}' '{}' http://127.0.0.1:{}/v1 {}", interpreter,
                  source_file("tests/http/openai_client.py").string(), server.port(), kKey));
  ASSERT_FALSE(said.empty());
  const json got = json::parse(said);
  const serve::Generation chat = alone(chat_ids("Hi"), 12);
  const std::string text = alone(tokenizer_.encode("Once"), 10).text;
  EXPECT_EQ(got.at("models"), json::array({"small"}));
  EXPECT_EQ(got.at("chat"), chat.text);
  EXPECT_EQ(got.at("finish"), chat.finish_reason);
  EXPECT_EQ(got.at("stream"), chat.text);
  EXPECT_EQ(got.at("text"), text);
  EXPECT_EQ(got.at("at_once"), json(std::vector<std::string>(12, text)));
  EXPECT_EQ(got.at("async_stream"), chat.text);
  EXPECT_EQ(got.at("n"), got.at("seeds"));  // choice i is that of seed + i
  EXPECT_EQ(got.at("cancelled"), json(std::vector<std::string>(3, "CancelledError")));
  EXPECT_EQ(got.at("refused"), json({"model", "temperature", "response_format"}));
  await([&] { return engine_.is_idle(); });
  EXPECT_EQ(engine_.counts().blocks_in_use, 0);
}

// A Prometheus client reads the engine's counts from /metrics.
TEST_F(OpenAiTest, MetricsAreReadByPrometheusClients) {
  const std::string interpreter =
      python_with("prometheus_client", "prometheus_client", folder_.path());
  if (interpreter.empty()) GTEST_SKIP() << "pip could not fetch the package prometheus_client";
  const Server server(api_, {.port = 0});
  for (const int64_t tokens : {3, 1, 7})
    serve::AnswerReader(engine_, {.prompt = {5, 6, 7}, .max_tokens = tokens, .ignores_end = true})
        .finished();
  await([&] { return engine_.is_idle(); });
  const std::string said = output_of(
      fmt::format("'{}' '{}' http://127.0.0.1:{}/metrics {}", interpreter,
                  source_file("tests/http/metrics_client.py").string(), server.port(), kKey));
  ASSERT_FALSE(said.empty());
  const json got = json::parse(said);
  const serve::EngineCounts counts = engine_.counts();
  const auto expect_sample = [&](const std::string& name, double value) {
    EXPECT_EQ(got.at("samples").at(name), value) << name;
  };
  EXPECT_EQ(got.at("model"), "small");
  expect_sample("ridge_prompt_tokens_total", 9);
  expect_sample("ridge_generation_tokens_total", 11);
  expect_sample("ridge_engine_steps_total", static_cast<double>(counts.steps));
  expect_sample("ridge_model_flops_total", static_cast<double>(counts.cost.model.flops));
  expect_sample("ridge_executed_flops_total", static_cast<double>(counts.cost.executed_flops));
  expect_sample("ridge_read_bytes_total", static_cast<double>(counts.cost.read_bytes));
  expect_sample("ridge_written_bytes_total", static_cast<double>(counts.cost.written_bytes));
  expect_sample("ridge_request_success_total{finished_reason=length}", 3);
  expect_sample("ridge_time_to_first_token_seconds_count", 3);
  expect_sample("ridge_time_per_output_token_seconds_count", 2);
  expect_sample("ridge_inter_token_latency_seconds_count", 8);
  expect_sample("ridge_kv_cache_usage_perc", 0);
  EXPECT_EQ(got.at("types").at("ridge_num_requests_running"), "gauge");
  EXPECT_EQ(got.at("types").at("ridge_generation_tokens"), "counter");
  EXPECT_EQ(got.at("types").at("ridge_e2e_request_latency_seconds"), "histogram");
}

}  // namespace
}  // namespace ridge::http
