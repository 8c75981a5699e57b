// SPDX-License-Identifier: Apache-2.0
// Tests of several processes that train together: they train what one process does.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/rank_run.h"

namespace ridge::apps {
namespace {

class RanksTest : public RankTest {
 protected:
  // The words of a training of one sequence of 32 tokens on each of `ranks` processes.
  std::vector<std::string> training(int ranks, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"train",
                                      "--preset",
                                      "tiny",
                                      "--device",
                                      "cpu",
                                      "--seq-len",
                                      "32",
                                      "--warmup",
                                      "0",
                                      "--data-parallel",
                                      std::to_string(ranks)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Output train(int ranks, int batch, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--batch-size", std::to_string(batch)});
    return run(training(ranks, more), {.environment = kOnAnyMachine});
  }

  // The folder "run" of two ranks has the times of both, on one clock, and a trace of each.
  void expect_both_ranks() const {
    using nlohmann::json;
    const json exchange = json::parse(files::contents(folder_ / "run" / "ranks.json")),
               summary = json::parse(
                   files::contents(folder_ / "run" / "performance_summary.json"))["runs"][0];
    const json &ranks = exchange["ranks"], &collectives = exchange["collectives"];
    EXPECT_EQ(exchange["clock"], "the ranks of one host read the same clock");
    ASSERT_EQ(exchange["lanes"].size(), 2u);
    ASSERT_EQ(ranks.size(), 2u);
    for (const json& each : ranks) {
      EXPECT_GT(each["communication_ns"], 0);
      EXPECT_LE(each["communication_ns"], each["step_ns"]);
      EXPECT_EQ(each["transfer_ns"].get<int64_t>() + each["waiting_ns"].get<int64_t>(),
                each["communication_ns"].get<int64_t>());
      // Ranks on CPUs exchange while nothing else runs.
      EXPECT_EQ(each["exposed_ns"], each["communication_ns"]);
      EXPECT_EQ(each["owned_bytes"], summary["memory"]["owned_bytes"]);
      EXPECT_GT(each["peak_bytes"], 0);
    }
    ASSERT_FALSE(collectives.empty());
    const int64_t calls = collectives[0]["calls"];
    EXPECT_EQ(ranks[0]["last"].get<int64_t>() + ranks[1]["last"].get<int64_t>(), calls);
    EXPECT_GT(collectives[0]["bus_bytes_per_s"], 0);
    const json whole = json::parse(files::contents(folder_ / "run" / "trace.json"));
    std::set<int64_t> processes;
    for (const json& event : whole["traceEvents"]) processes.insert(event["pid"].get<int64_t>());
    EXPECT_EQ(processes, (std::set<int64_t>{0, 1}));
    for (const int rank : {0, 1}) {
      const json one =
          json::parse(files::contents(folder_ / "run/ranks" / fmt::format("trace-{}.json", rank)));
      EXPECT_EQ(one["distributedInfo"], (json{{"rank", rank}, {"world_size", 2}}));
    }
  }

  static std::vector<double> losses(const Output& output) {
    EXPECT_EQ(output.code, 0) << output.err;
    std::vector<double> found;
    constexpr std::string_view kLoss = "  loss ";
    for (size_t at = 0; (at = output.out.find(kLoss, at)) != std::string::npos;) {
      at += kLoss.size();
      found.push_back(std::stod(output.out.substr(at)));
    }
    return found;
  }
};

// The printed losses have four digits.
void expect_same(const std::vector<double>& want, const std::vector<double>& got) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], 1.1e-4) << "step " << i;
}

TEST_F(RanksTest, TrainWhatOneProcessTrains) {
  const std::vector<double> one = losses(train(1, 4, {"--steps", "6"}));
  ASSERT_EQ(one.size(), 6u);
  expect_same(one, losses(train(2, 2, {"--steps", "6"})));
  expect_same(one, losses(train(4, 1, {"--steps", "6"})));
}

TEST_F(RanksTest, TrainTheSameWithMicroBatchesClippingAndLevels) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--micro-batches", "2", "--clip", "0.5"}, {"--level", "baseline", "--clip", "0.5"}}) {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--steps", "4"});
    expect_same(losses(train(1, 2, words)), losses(train(2, 1, words)));
  }
}

// At this level no GEMM is chosen by timing.
TEST_F(RanksTest, GiveTheSameBitsInEveryRun) {
  for (const char* name : {"first", "second"})
    losses(train(2, 1, {"--steps", "3", "--level", "kernels", "--save", name}));
  const std::string first = files::contents(folder_ / "first" / "model.safetensors");
  EXPECT_FALSE(first.empty());
  EXPECT_TRUE(first == files::contents(folder_ / "second" / "model.safetensors"));
}

// 16-bit gradients are added in fp32 and rounded once.
TEST_F(RanksTest, Train16BitFloats) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const std::vector<double> one = losses(train(1, 2, {"--steps", "4", "--dtype", dtype})),
                              two = losses(train(2, 1, {"--steps", "4", "--dtype", dtype}));
    ASSERT_EQ(one.size(), two.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 2e-3) << dtype;
  }
}

TEST_F(RanksTest, ShareOutTheirStates) {
  const std::vector<std::string> words = {"--steps", "10", "--micro-batches", "2", "--clip", "0.5"};
  const std::vector<double> one = losses(train(1, 6, words));
  for (const auto& [stage, ranks] : {std::pair("1", 2), std::pair("2", 3), std::pair("3", 2)}) {
    std::vector<std::string> more = words;
    more.insert(more.end(), {"--zero", stage});
    expect_same(one, losses(train(ranks, 6 / ranks, more)));
  }
  EXPECT_EQ(train(1, 2, {"--zero", "1"}).code, 2);
}

TEST_F(RanksTest, GiveTheSameBitsInEveryRunOfAStage) {
  for (const char* name : {"first", "second"})
    losses(train(2, 1, {"--steps", "3", "--level", "kernels", "--zero", "3", "--save", name}));
  const std::string first = files::contents(folder_ / "first" / "model.safetensors");
  EXPECT_FALSE(first.empty());
  EXPECT_TRUE(first == files::contents(folder_ / "second" / "model.safetensors"));
}

TEST_F(RanksTest, ShareOutStatesOf16BitFloats) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const std::vector<double> one = losses(train(1, 2, {"--steps", "4", "--dtype", dtype}));
    for (const char* stage : {"1", "3"}) {
      const std::vector<double> two =
          losses(train(2, 1, {"--steps", "4", "--dtype", dtype, "--zero", stage}));
      ASSERT_EQ(one.size(), two.size());
      for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 2e-3) << dtype;
    }
  }
}

TEST_F(RanksTest, ReportTheExchange) {
  const Output output = train(2, 1, {"--steps", "4", "--profile"});
  ASSERT_EQ(output.code, 0) << output.err;
  EXPECT_NE(output.out.find("all_reduce"), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("on 2 ranks"), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("the ranks exchanged by Open MPI "), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("communication"), std::string::npos) << output.out;
}

TEST_F(RanksTest, WriteOneReportAndOneModel) {
  const Output output = train(2, 1, {"--steps", "4", "--out", "run", "--save", "model"});
  ASSERT_EQ(output.code, 0) << output.err;
  EXPECT_NE(files::contents(folder_ / "run" / "performance_summary.json")
                .find("\"exchange\": \"Open MPI "),
            std::string::npos);
  const std::string kernels = files::contents(folder_ / "run" / "kernels.json");
  EXPECT_NE(kernels.find("all_reduce"), std::string::npos);
  EXPECT_EQ(run({"logits", "model", "--ids", "1,2"}).code, 0);
  expect_both_ranks();
  const Output explained = run({"explain", "run"});
  EXPECT_NE(explained.out.find("bus bandwidth"), std::string::npos) << explained.out;
}

TEST_F(RanksTest, ContradictionsAreUsageErrors) {
  std::vector<std::pair<std::string, std::string>> three = {{"OMPI_COMM_WORLD_RANK", "0"},
                                                            {"OMPI_COMM_WORLD_SIZE", "3"},
                                                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
  const Output other = run(training(2), {.environment = three});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("expected 3, the number of processes that mpirun started, got 2"),
            std::string::npos)
      << other.err;
  EXPECT_EQ(run(training(-1)).code, 2);
  // So many processes would keep the machine from all else.
  const Output many = run(training(4096));
  EXPECT_EQ(many.code, 2);
  EXPECT_NE(many.err.find("16 for each core"), std::string::npos) << many.err;
  const Output torchrun = run(training(2), {.environment = {{"RANK", "0"},
                                                            {"WORLD_SIZE", "2"},
                                                            {"LOCAL_RANK", "0"},
                                                            {"LOCAL_WORLD_SIZE", "2"},
                                                            {"MASTER_ADDR", "127.0.0.1"},
                                                            {"MASTER_PORT", "29500"}}});
  EXPECT_EQ(torchrun.code, 2);
  EXPECT_NE(torchrun.err.find("or mpirun for ranks on CPUs"), std::string::npos) << torchrun.err;
}

}  // namespace
}  // namespace ridge::apps
