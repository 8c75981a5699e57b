// SPDX-License-Identifier: Apache-2.0
// Tests how the program ends on Ctrl-C and other signals.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"
#include "files/scratch.h"

namespace ridge::apps {
namespace {

class InterruptedProgram : public ProgramTest {
 protected:
  // For runs that print nothing that shows their progress: interrupts them later and later, until
  // one has got far enough to write `file`.
  Output interrupted(const std::vector<std::string>& line, const char* file) const {
    Output output;
    for (int wait_ms = 500; wait_ms < 20'000 && !std::filesystem::exists(folder_ / file);
         wait_ms *= 2) {
      const pid_t child = start(line);
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      ::kill(child, SIGINT);
      output = finish(child);
    }
    return output;
  }
};

class InterruptedTraining : public InterruptedProgram {
 protected:
  // Far more steps than the test waits for.
  pid_t train(std::vector<std::string> more, const RunLimits& limits = {}) const {
    more.insert(more.begin(), {"train", "--steps", "1000000"});
    return start(tiny(std::move(more)), limits);
  }
  void await_measured_steps() const { await("step    2"); }
};

TEST_F(InterruptedTraining, WritesWhatItHas) {
  const pid_t child = train({"--save", "model", "--out", "run"});
  await_measured_steps();
  ::kill(child, SIGINT);
  const Output output = finish(child);
  EXPECT_EQ(output.code, 128 + SIGINT);
  EXPECT_NE(output.out.find("mean loss"), std::string::npos);
  EXPECT_NE(output.err.find("ends after this step"), std::string::npos);
  EXPECT_EQ(run({"logits", "model", "--ids", "1,2"}).code, 0);
  EXPECT_EQ(run({"explain", "run"}).code, 0);
}

TEST_F(InterruptedTraining, PrintsItsJson) {
  const Output output = interrupted({"train", "--preset", "tiny", "--threads", "1", "--warmup", "0",
                                     "--steps", "1000000", "--json", "--out", "run"},
                                    "run/performance_summary.json");
  EXPECT_EQ(output.code, 128 + SIGINT);
  ASSERT_FALSE(output.out.empty()) << output.err;
  const nlohmann::json run = nlohmann::json::parse(output.out)["runs"][0];
  EXPECT_GT(run.at("loss").at("mean"), 0);
}

TEST_F(InterruptedTraining, SavesTheModelOfTheWarmUp) {
  const Output output = interrupted({"train", "--preset", "tiny", "--threads", "1", "--warmup",
                                     "1000000", "--save", "model", "--out", "run"},
                                    "model/model.safetensors");
  EXPECT_EQ(output.code, 128 + SIGINT);
  EXPECT_NE(output.err.find("Too few steps"), std::string::npos) << output.err;
  EXPECT_EQ(output.out, "");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "model" / "model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(InterruptedTraining, EndsAtOnceTheSecondTime) {
  // The steps are long enough for the second signal to come within one.
  const pid_t child = start({"train", "--preset", "tiny", "--threads", "1", "--warmup", "0",
                             "--batch-size", "32", "--steps", "1000", "--save", "model"});
  await("step    0");
  ::kill(child, SIGINT);
  await("ends after this step");
  ::kill(child, SIGINT);
  EXPECT_EQ(finish(child).code, 128 + SIGINT);
  EXPECT_EQ(folder_.count(), 0u) << "the model, or a part of it";
}

TEST_F(InterruptedTraining, SigtermEndsAtOnce) {
  const pid_t child = train({"--save", "model"});
  await_measured_steps();
  ::kill(child, SIGTERM);
  EXPECT_EQ(finish(child).code, 128 + SIGTERM);
  EXPECT_EQ(folder_.count(), 0u);
}

TEST_F(InterruptedTraining, ContinuesUnderNohup) {
  const pid_t child = train({}, {.ignores_hangup = true});
  await_measured_steps();
  ::kill(child, SIGHUP);
  await("step   10");
  ::kill(child, SIGINT);
  EXPECT_EQ(finish(child).code, 128 + SIGINT);
}

TEST_F(InterruptedProgram, ASweepKeepsWhatWasMeasured) {
  // Measures this machine's ceilings if they are not known, which a Ctrl-C would end at once.
  ASSERT_EQ(
      run({"bench", "op", "add", "--shape", "n=8", "--threads", "1", "--seconds", "0.01"}).code, 0);
  const Output output = interrupted({"bench", "op", "add", "--sweep", "n=1:9000", "--threads", "1",
                                     "--seconds", "0.05", "--json", "--out", "sweep"},
                                    "sweep/bench.json");
  EXPECT_EQ(output.code, 128 + SIGINT);
  const nlohmann::json bench = nlohmann::json::parse(output.out);
  EXPECT_TRUE(bench["interrupted"]);
  ASSERT_FALSE(bench["cases"].empty());
  EXPECT_LT(bench["cases"].size(), 9000u);
  for (const nlohmann::json& each : bench["cases"]) EXPECT_GT(each["median_ns"], 0);
}

class InterruptedLab : public InterruptedProgram {
 protected:
  // Measures this machine's ceilings if they are not known, which a Ctrl-C would end at once.
  void SetUp() override { ASSERT_EQ(run(tiny({"train", "--steps", "2", "--profile"})).code, 0); }

  // Interrupts `infer-lab` when it announces a part.
  Output interrupted_study(const std::string& part) const {
    const pid_t child =
        start({"infer-lab", test_data("models/llama_fp32").string(), "--threads", "1", "--seq-len",
               "16", "--batch-size", "1", "--seconds", "60", "--out", "study"});
    await(part);
    ::kill(child, SIGINT);
    return finish(child);
  }

  // The folder is whole, and what reads such folders reads it.
  nlohmann::json expect_written(const char* name, const Output& output) const {
    EXPECT_EQ(output.code, 128 + SIGINT);
    EXPECT_NE(output.err.find("the lab ends after this step"), std::string::npos) << output.err;
    EXPECT_NE(output.out.find("Ctrl-C ended this lab early"), std::string::npos) << output.out;
    EXPECT_EQ(run({"explain", name}).code, 0);
    EXPECT_EQ(run({"diff", name, name}).code, 0);
    const std::string report = files::contents(folder_ / name / "report.md");
    EXPECT_NE(report.find("Ctrl-C ended this lab early"), std::string::npos);
    EXPECT_EQ(report.find("Advice"), std::string::npos) << "none was looked for";
    return nlohmann::json::parse(
        files::contents(folder_ / name / "performance_summary.json"))["runs"];
  }
};

TEST_F(InterruptedLab, WritesTheRunsThatItHas) {
  const Output output = interrupted(
      {"lab", "--preset", "tiny", "--threads", "1", "--warmup", "0", "--level", "baseline,compiled",
       "--batch-size", "1,2", "--steps", "1000000", "--out", "levels"},
      "levels/performance_summary.json");
  const nlohmann::json runs = expect_written("levels", output);
  ASSERT_FALSE(runs.empty());
  EXPECT_LE(runs.size(), 2u) << "of the first batch size";
  for (const nlohmann::json& run : runs) EXPECT_GT(run.at("loss").at("mean"), 0);
}

TEST_F(InterruptedLab, WritesNothingBeforeItHasARun) {
  const pid_t child = start({"lab", "--preset", "tiny", "--threads", "1", "--warmup", "1000000"});
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::kill(child, SIGINT);
  const Output output = finish(child);
  EXPECT_EQ(output.code, 128 + SIGINT);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(folder_.count(), 0u);
}

TEST_F(InterruptedLab, WritesThePartsOfInferenceThatItHas) {
  const Output output = interrupted_study("prefill and decode, kernels");
  const nlohmann::json runs = expect_written("study", output);
  ASSERT_GE(runs.size(), 4u) << "prefill and decode of baseline and fused";
  for (const nlohmann::json& run : runs) EXPECT_GT(run.at("modules").at(0).at("time_ns"), 0);
  const nlohmann::json study =
      nlohmann::json::parse(files::contents(folder_ / "study" / "infer_summary.json"));
  EXPECT_TRUE(study["attention"].empty());
  EXPECT_NE(study["left_out"].dump().find("attention, head size 64, length 256: Ctrl-C"),
            std::string::npos);
}

TEST_F(InterruptedLab, WritesNothingBeforeInferenceHasAPart) {
  const Output output = interrupted_study("prefill and decode, baseline");
  EXPECT_EQ(output.code, 128 + SIGINT);
  EXPECT_NE(output.err.find("Too little was measured"), std::string::npos) << output.err;
  EXPECT_EQ(folder_.count(), 0u);
}

}  // namespace
}  // namespace ridge::apps
