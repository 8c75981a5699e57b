// SPDX-License-Identifier: Apache-2.0
// A training of milliseconds with checkpoints, and what it needs to be compared with an unbroken
// one.
#pragma once

#include <fstream>
#include <set>
#include <sstream>

#include "apps/program_run.h"
#include "base/split.h"
#include "files/failing_calls.h"
#include "test_paths.h"

namespace ridge::apps {

class CheckpointCase : public ProgramTest {
 protected:
  // "t", a data set; "c0", the checkpoints after steps 2 and 4; "whole", those of an unbroken run
  // of 6 steps.
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += fmt::format("Line {} tells of {}.\n", i, i * i);
    files::write_plain(folder_ / "a.txt", text);
    files::write_plain(folder_ / "config.json", R"({"model_type": "llama", "vocab_size": 701,
      "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
      "intermediate_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "rope_theta": 10000, "tie_word_embeddings": false, "hidden_act": "silu"})");
    succeed({"data", "tokenize", "a.txt", "--tokenizer", test_data("models/tokenizers/gpt2"),
             "--out", "t"});
    succeed(line("c0", 4));
    succeed(line("whole", 6));
  }
  void succeed(std::vector<std::string> arguments) const {
    const Output output = run(std::move(arguments));
    ASSERT_EQ(output.code, 0) << output.err;
  }
  std::vector<std::string> line(const std::string& checkpoints,
                                int64_t steps,
                                std::vector<std::string> more = {}) const {
    std::vector<std::string> all =
        split(fmt::format(
                  "train --config config.json --pass -tune_gemm --device cpu --threads 1 --data t "
                  "--seq-len 8 --batch-size 1 --save-every 2 --keep 2 --quiet --checkpoints {} "
                  "--steps {}",
                  checkpoints, steps),
              ' ');
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void copy_checkpoints() const {
    std::filesystem::remove_all(folder_ / "c");
    std::filesystem::copy(folder_ / "c0", folder_ / "c", std::filesystem::copy_options::recursive);
  }
  Output resume(const RunLimits& limits = {}) const {
    return run(line("c", 6, {"--resume"}), limits);
  }
  // The system calls that change the folder "c" are counted; the n-th fails (0: none).
  RunLimits calls(const std::string& log, int n = 0, const std::string& how = "") const {
    return {.environment = {{"LD_PRELOAD", failing_calls_library()},
                            {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                            {"RIDGE_CALLS_FOLDER", (folder_ / "c").string()},
                            {"RIDGE_CALLS_LOG", log.empty() ? "" : (folder_ / log).string()},
                            {"RIDGE_CALLS_FAIL", std::to_string(n)},
                            {"RIDGE_CALLS_HOW", how}}};
  }
  std::vector<std::vector<std::string>> logged(const std::string& log) const {
    std::vector<std::vector<std::string>> calls;
    std::istringstream lines(files::contents(folder_ / log));
    for (std::string each; std::getline(lines, each);) {
      std::istringstream words(each);
      calls.emplace_back(std::istream_iterator<std::string>(words),
                         std::istream_iterator<std::string>());
    }
    return calls;
  }
  // Resumes without failures; all of the last checkpoint must be that of the unbroken run, and
  // nothing else may be left.
  void expect_whole(const std::string& what) const {
    const Output output = resume();
    ASSERT_EQ(output.code, 0) << what << "\n" << output.err;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "whole/step-00000006")) {
      const std::string name = entry.path().filename();
      EXPECT_EQ(
          files::contents(folder_ / "c/step-00000006" / name) == files::contents(entry.path()),
          true)
          << what << ": " << name;
    }
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "c"))
      names.insert(entry.path().filename());
    names.erase(
        "step-00000002");  // it may be there until the next save, if it could not be removed
    EXPECT_EQ(names, (std::set<std::string>{"step-00000004", "step-00000006"})) << what;
  }
  // The n-th call of a save fails in this way, and nothing is lost.
  void expect_survives(int n, const std::string& how) const {
    const std::string what = fmt::format("{} at call {}", how, n);
    copy_checkpoints();
    const Output output = resume(calls("", n, how));
    if (how == "KILL")
      EXPECT_EQ(output.code, 128 + SIGKILL) << what << "\n" << output.err;
    else
      EXPECT_TRUE(output.code == 0 || output.code == 1) << what << "\n" << output.err;
    if (output.code == 1) {
      EXPECT_NE(output.err.find(how == "ENOSPC" ? "No space left on device" : "Input/output error"),
                std::string::npos)
          << what << "\n"
          << output.err;
    }
    expect_whole(what);
  }
};

}  // namespace ridge::apps
