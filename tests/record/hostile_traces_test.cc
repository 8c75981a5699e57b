// SPDX-License-Identifier: Apache-2.0
// Damaged versions of traces that others recorded: each is read, or refused by a bad-file Error.
// They lie beside the project, and tests of what is not there are skipped.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "files/block_reader.h"
#include "files/damage.h"
#include "record/foreign_files.h"
#include "record/import/imported_run.h"
#include "record/trace_text.h"

namespace ridge::record {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostEvents = 4000;  // a part of a trace is damaged as a whole one is

std::string text_of(const std::filesystem::path& path) {
  files::BlockReader reader(path);
  std::string text;
  for (; !reader.at_end(); reader.advance()) text += reader.current();
  return text;
}

// The first events, with those that give all kinds of them.
Json part_of(const std::string& text) {
  Json trace = Json::parse(text);
  if (!trace.contains("traceEvents")) return trace;
  Json some = Json::array();
  std::map<std::string, size_t> kinds;
  for (const Json& event : trace["traceEvents"]) {
    if (some.size() == kMostEvents) break;
    if (++kinds[event.value("cat", "")] <= kMostEvents / 6) some.push_back(event);
  }
  trace["traceEvents"] = std::move(some);
  return trace;
}

void import_all(const std::string& text) {
  files::BlockReader reader(text, "trace.json");
  const ForeignTrace trace = text.find("rocprofiler-sdk-tool") < 4096 ? read_rocprof_json(reader)
                                                                      : read_torch_trace(reader);
  const ImportedSteps steps = imported_steps(trace);
  imported_run(trace, steps, nullptr);
}

void expect_harmless(const Json& trace, const std::string& what) {
  files::reads_or_refuses([&] { import_all(trace.dump()); }, what);
}

using Change = std::function<void(Json&)>;

// Events whose ids, times or numbers are those that the reader might follow in a circle.
void damage_events(const Json& good, const std::string& name) {
  const std::vector<std::pair<const char*, Change>> changes = {
      {"one id for all",
       [](Json& event) {
         for (const char* key : {"External id", "correlation", "Sequence number", "graph node id",
                                 "Python id", "Python parent id"})
           if (event["args"].is_object()) event["args"][key] = 1;
         event["id"] = 1;
       }},
      {"each contains all others",
       [](Json& event) {
         event["ts"] = 5;
         event["dur"] = 100;
       }},
      {"one thread", [](Json& event) { event["tid"] = event["pid"] = 1; }},
      {"no lengths", [](Json& event) { event["dur"] = 0; }},
      {"the longest", [](Json& event) { event["dur"] = 1e12; }},
      {"ids that are too large",
       [](Json& event) {
         for (const char* key : {"External id", "correlation", "Sequence number"})
           if (event["args"].is_object()) event["args"][key] = UINT64_MAX;
       }},
      {"huge extents",
       [](Json& event) {
         if (event["args"].is_object() && event["args"].contains("Input Dims"))
           for (Json& each : event["args"]["Input Dims"])
             if (!each.empty() && each.is_array()) each[0] = int64_t{1} << 49;
       }},
      {"one name", [](Json& event) { event["name"] = "vllm::moe_forward"; }},
      {"kernels of an operation of themselves",
       [](Json& event) { event["cat"] = event["dur"] > 5 ? "kernel" : "cpu_op"; }},
  };
  for (const auto& [what, change] : changes) {
    Json bad = good;
    for (Json& event : bad["traceEvents"])
      if (event.value("ph", "") == "X") change(event);
    expect_harmless(bad, name + ": " + what);
  }
  // A parent inside its child.
  Json bad = good;
  for (Json& event : bad["traceEvents"])
    if (event.value("ph", "") == "X" && event["ts"].is_number())
      event["ts"] = -event["ts"].get<double>();
  expect_harmless(bad, name + ": backwards");
}

class DamagedTrace : public testing::TestWithParam<const char*> {};

TEST_P(DamagedTrace, IsReadOrRefused) {
  SKIP_WITHOUT_TRACES();
  constexpr int kRounds = 16;
  const std::string name = GetParam();
  const std::string whole = text_of(foreign_traces() / (name + ".json.gz"));
  for (const size_t size : {whole.size() / 3, whole.size() - 2})
    EXPECT_FALSE(
        files::reads_or_refuses([&] { import_all(whole.substr(0, size)); }, name + " cut"));
  const Json good = part_of(whole);
  if (good.contains("traceEvents")) damage_events(good, name);
  for (int seed = 0; seed < kRounds; ++seed) {
    files::Damage damage(static_cast<uint32_t>(seed));
    const std::string bad = seed % 2 == 0 ? damage.bytes(good.dump()) : damage.document(good);
    files::reads_or_refuses([&] { import_all(bad); }, fmt::format("{} of seed {}", name, seed));
  }
}
INSTANTIATE_TEST_SUITE_P(All,
                         DamagedTrace,
                         testing::Values("h100_qwen1.5_0.5b",
                                         "mi300_vit",
                                         "mi300_resnet_recompute",
                                         "torch_compile_triton",
                                         "mi300_vllm_decode_graph",
                                         "mi300_vllm_decode_capture",
                                         "sglang_qwen3_8b_prefill_decode",
                                         "mi250_minitoy_kineto",
                                         "rocprofv3_908",
                                         "nccl",
                                         "h200/llama_prefill_cuda_graph",
                                         "h200/llama_bf16_compiled",
                                         "h200/mixtral_bf16_eager",
                                         "h200/ddp_rank0"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& c : name)
                             if (c == '/' || c == '.') c = '_';
                           return name;
                         });

// A graph that is replayed in the trace of its own capture.
TEST(DamagedCapture, IsReadOrRefused) {
  SKIP_WITHOUT_TRACES();
  const Json good = part_of(text_of(foreign_traces() / "mi300_vllm_decode_capture.json.gz"));
  for (int seed = 0; seed < 8; ++seed) {
    files::Damage damage(static_cast<uint32_t>(seed));
    const std::string bad = damage.document(good);
    files::reads_or_refuses(
        [&] {
          files::BlockReader reader(bad, "trace.json"), again(bad, "trace.json");
          ForeignTrace trace = read_torch_trace(reader);
          join_capture(trace, read_torch_trace(again));
          imported_run(trace, imported_steps(trace), nullptr);
        },
        fmt::format("seed {}", seed));
  }
}

}  // namespace
}  // namespace ridge::record
