// SPDX-License-Identifier: Apache-2.0
// A lab of inference measures each part that its options name, once, and says what it leaves out.
#include "bench/inference_lab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

class InferenceLabTest : public testing::Test {
 protected:
  InferenceLabTest() {
    inference_.model = serve::data_folder() + "llama_fp32";
    inference_.machine.device = "cpu";
    inference_.machine.threads = 1;
    inference_.level.switches = "-tune_gemm";
    options_.levels = "fused,compiled";
    options_.batch_sizes = "1,2";
    options_.lengths = "8,16";
    options_.latency_batches = "3,1";
    options_.attention_lengths = "16,32";
    options_.prompt = 6;
    options_.tokens = 4;
    options_.seconds = 1e6;  // no part is left out, however slow the machine
    // No run is faster.
    cost::Ceilings c = cost::made_up_ceilings({{1, 1e6, 1e6}, {1 << 30, 1e6, 1e6}}, 1e6);
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1e6;
    c.machine.memory_bytes = int64_t{1} << 30;
    study_.lab.ceilings = c;
    listener_.is_stopped = [] { return false; };
    listener_.announce = [this](const std::string& part, double) { parts_.push_back(part); };
  }

  void run() { InferenceLab(inference_, options_, study_).run(listener_); }
  // "[seq-len] expected ...", empty if there is none.
  std::string error() {
    try {
      const InferenceLab lab(inference_, options_, study_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  void expect_error(const std::string& begin) {
    EXPECT_TRUE(error().starts_with(begin)) << error() << "\nexpected " << begin;
  }

  serve::InferenceOptions inference_;
  InferenceLabOptions options_;
  record::InferenceRecord study_;
  InferenceLabListener listener_;
  std::vector<std::string> parts_;
};

TEST_F(InferenceLabTest, MeasuresEachPartOnce) {
  run();
  EXPECT_TRUE(study_.left_out.empty()) << study_.left_out[0];
  EXPECT_EQ(study_.file, "safetensors");
  EXPECT_GT(study_.file_bytes, 0);
  // Both levels at the first size, the last one at the others; prefills come first.
  struct Run {
    const char* level;
    int64_t batch, length;
  };
  const std::vector<Run> sizes = {{"fused", 1, 8},
                                  {"compiled", 1, 8},
                                  {"compiled", 2, 8},
                                  {"compiled", 1, 16},
                                  {"compiled", 2, 16}};
  ASSERT_EQ(study_.lab.runs.size(), 2 * sizes.size());
  for (size_t i = 0; i < study_.lab.runs.size(); ++i) {
    const record::Setting& setting = study_.lab.runs[i].setting;
    const Run& want = sizes[i % sizes.size()];
    EXPECT_EQ(setting.task, i < sizes.size() ? "prefill" : "decode");
    EXPECT_EQ(setting.level, want.level) << i;
    EXPECT_EQ(setting.batch_size, want.batch) << i;
    EXPECT_EQ(setting.sequence, want.length) << i;
    EXPECT_EQ(setting.model, "llama_fp32");
  }
  EXPECT_EQ(study_.lab.detailed, (std::vector<size_t>{1, 6})) << "of the last level";
  ASSERT_EQ(study_.gains.size(), 2u);
  EXPECT_EQ(study_.gains[0].context, 8);
  EXPECT_EQ(study_.gains[1].context, 16);
  ASSERT_EQ(study_.latencies.size(), 2u);
  EXPECT_EQ(study_.latencies[0].batch, 3);
  EXPECT_EQ(study_.latencies[1].batch, 1);
  for (const record::LatencyRecord& each : study_.latencies) {
    EXPECT_EQ(each.prompt, 6);
    EXPECT_EQ(each.tokens, 4);
  }
  ASSERT_EQ(study_.attention.size(), 4u);
  ASSERT_EQ(study_.reaches.size(), 2u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(study_.attention[i].head_size, i < 2 ? 64 : 128);
    EXPECT_EQ(study_.attention[i].sequence, i % 2 == 0 ? 16 : 32);
  }
  EXPECT_EQ(study_.reaches[0].head_size, 64);
  EXPECT_EQ(study_.reaches[1].head_size, 128);
  EXPECT_EQ(study_.reaches[0].memory_bytes, int64_t{1} << 30);
  ASSERT_EQ(parts_.size(), 5u + 2 + 2 + 4);
  EXPECT_EQ(parts_[0], "prefill and decode, fused, batch 1, length 8");
  EXPECT_EQ(parts_[5], "with and without the KV cache, length 8");
  EXPECT_EQ(parts_[7], "latency, batch 3: 4 tokens after 6");
  EXPECT_EQ(parts_.back(), "attention, head size 128, length 32");
}

// The first size is always measured. Another rank says that no time is left for the others.
TEST_F(InferenceLabTest, SaysWhatNoTimeIsLeftFor) {
  listener_.any = [](bool) { return true; };
  run();
  ASSERT_EQ(study_.lab.runs.size(), 4u);
  ASSERT_EQ(study_.left_out.size(), 3u + 2 + 2);
  EXPECT_EQ(study_.left_out[0].substr(0, 57),
            "prefill and decode, compiled, batch 2, length 8: needs ab");
  // The parts share the million seconds.
  for (size_t i = 0; i < study_.left_out.size(); ++i) {
    const std::string& each = study_.left_out[i];
    const size_t at = each.find("but ");
    ASSERT_NE(at, std::string::npos) << each;
    EXPECT_TRUE(each.ends_with(" s are left (--seconds)")) << each;
    EXPECT_NEAR(std::stod(each.substr(at + 4)), i < 3 ? 450e3 : i < 5 ? 550e3 : 800e3, 2e3) << each;
  }
  EXPECT_EQ(study_.left_out[3].substr(0, 45), "with and without the KV cache, length 8: need");
  EXPECT_EQ(study_.left_out[5].substr(0, 38), "latency, batch 3: 4 tokens after 6: ne");
  EXPECT_EQ(study_.attention.size(), 4u);
}

TEST_F(InferenceLabTest, EndsAfterCtrlC) {
  for (const int most : {0, 1, 4, 11}) {
    const std::optional<cost::Ceilings> ceilings = study_.lab.ceilings;
    study_ = {};
    study_.lab.ceilings = ceilings;
    parts_.clear();
    listener_.is_stopped = [&] { return std::ssize(parts_) > most; };
    run();
    SCOPED_TRACE(most);
    EXPECT_EQ(std::ssize(parts_), most + 1) << "no part begins behind it";
    const bool has_runs = !study_.lab.runs.empty();
    EXPECT_EQ(std::ranges::count(study_.lab.warnings, "Ctrl-C ended this lab early"), has_runs);
    ASSERT_FALSE(study_.left_out.empty());
    for (const std::string& each : study_.left_out)
      EXPECT_TRUE(each.ends_with(": Ctrl-C ended the lab")) << each;
    EXPECT_LE(study_.lab.runs.size(), 2 * static_cast<size_t>(most + 1));
    for (const size_t index : study_.lab.detailed) EXPECT_LT(index, study_.lab.runs.size());
  }
}

TEST_F(InferenceLabTest, RefusesOptionsByTheirNames) {
  const InferenceLabOptions good = options_;
  const auto expect = [&](auto change, const std::string& begin) {
    options_ = good;
    change(options_);
    expect_error(begin);
  };
  EXPECT_EQ(error(), "");
  expect([](auto& o) { o.seconds = 0.9; }, "[seconds] expected 1 to 1000000, got 0.9");
  expect([](auto& o) { o.seconds = 1e7; }, "[seconds] expected 1 to 1000000, got 1e+07");
  expect([](auto& o) { o.prompt = 0; }, "[tokens] expected --prompt-tokens of at least 1");
  expect([](auto& o) { o.tokens = 1; }, "[tokens] expected --prompt-tokens of at least 1");
  expect([](auto& o) { o.lengths = "16,257"; }, "[seq-len] expected at most 256 positions");
  expect([](auto& o) { o.prompt = 254; }, "[prompt-tokens and tokens] expected at most 256");
  expect([](auto& o) { o.prompt = INT64_MAX; }, "[prompt-tokens and tokens] expected at most 256");
  expect([](auto& o) { o.attention_lengths = "1048577"; },
         "[attention-seq-len] expected at most 1048576, got 1048577");
  expect([](auto& o) { o.levels = "fast"; }, "[level] expected all or some of baseline");
  expect([](auto& o) { o.batch_sizes = "1,100000"; }, "[batch-size] expected at most ");
  expect([](auto& o) { o.latency_batches = "100000"; }, "[latency-batch-size] expected at most ");
  for (const auto& [prompt, tokens] : {std::pair{253, 4}, std::pair{1, 2}}) {
    options_ = good;
    options_.prompt = prompt, options_.tokens = tokens;
    EXPECT_EQ(error(), "") << "the last token is not read again";
  }
}

}  // namespace
}  // namespace ridge::bench
