// SPDX-License-Identifier: Apache-2.0
// By default the result of each command fits a screen of 45 lines of 100 columns, warnings
// included; with --verbose there is more of it.
#include <algorithm>
#include <regex>
#include <sstream>

#include "apps/program_run.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

constexpr int kLines = 45, kColumns = 100;

class ScreenTest : public ProgramTest {
 protected:
  static int lines(const std::string& text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

  // Returns the command's output. Without a terminal there is no progress bar, and a screen has 100
  // columns. Announcements of what comes ("   1.2 s  prefill ...") are no part of a result, nor is
  // the warning of a machine that was busy when it was measured.
  std::string expect_fits(const std::vector<std::string>& arguments) const {
    const Output output = run(arguments);
    EXPECT_EQ(output.code, 0) << output.err;
    static const std::regex kAnnouncement(
        "( *[0-9.]+ s  [^\\n]*\\n)|(warning: other programs used [^\\n]*\\n[^\\n]*\\n)");
    const std::string all = output.out + std::regex_replace(output.err, kAnnouncement, "");
    EXPECT_LE(lines(all), kLines) << all;
    std::istringstream text(all);
    for (std::string line; std::getline(text, line);) {
      // The two lines of totals stay whole for programs that read them; width_test.cc tests
      // terminals.
      if (arguments[0] == "train" && line.find("kernel calls per step") != std::string::npos)
        continue;
      if (arguments[0] == "train" && line.find(" parameters, step ") != std::string::npos) continue;
      EXPECT_LE(report::display_width(line), kColumns) << arguments[0] << ": " << line;
    }
    EXPECT_FALSE(output.out.empty());
    return output.out;
  }

  void expect_more(std::vector<std::string> arguments,
                   const std::string& brief,
                   const std::vector<std::string>& parts) const {
    const std::string command = arguments[0];
    arguments.emplace_back("--verbose");
    const Output whole = run(arguments);
    EXPECT_EQ(whole.code, 0) << whole.err;
    EXPECT_GT(whole.out.size(), brief.size()) << command;
    for (const std::string& part : parts) {
      EXPECT_NE(whole.out.find(part), std::string::npos) << command << ": " << part;
      EXPECT_EQ(brief.find(part), std::string::npos) << command << ": " << part << "\n" << brief;
    }
  }

  void expect_brief(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& shown,
                    const std::vector<std::string>& more) const {
    const std::string brief = expect_fits(arguments);
    for (const std::string& part : shown)
      EXPECT_NE(brief.find(part), std::string::npos) << part << "\n" << brief;
    if (!more.empty()) expect_more(arguments, brief, more);
  }

  static std::string trace(const std::string& name) { return test_data("traces/" + name).string(); }
};

TEST_F(ScreenTest, Lab) {
  expect_brief(tiny({"lab", "--steps", "8", "--batch-size", "1", "--seq-len", "16", "--out", "lab",
                     "--force"}),
               {"step, median", "speed-up", "losses agree", "idle and host", "matmul",
                "Roofline: ", "advice", "confidence", "Report: lab/report.html"},
               {"by scope", "share of roof", "at the peak", "MFU: PaLM"});
  expect_brief({"explain", "lab"}, {"speed-up", "matmul", "advice: "}, {});
  expect_brief({"diff", "lab", "lab"}, {"B / A", "noise", "B - A"}, {"interval of A"});
  expect_fits({"report", "lab"});
}

TEST_F(ScreenTest, ASweepOfManyPoints) {
  const std::vector<std::string> lab =
      tiny({"lab", "--steps", "2", "--batch-size", "1,2,3,4", "--seq-len", "8,16", "--no-advice",
            "--out", "lab", "--force"});
  expect_brief(lab, {"batch", "20 more runs before these (--verbose)", "Roofline: "}, {"Sweep"});
  expect_fits({"explain", "lab"});
  expect_fits({"diff", "lab", "lab"});
}

TEST_F(ScreenTest, Training) {
  const std::vector<std::string> train =
      tiny({"train", "--steps", "8", "--batch-size", "1", "--seq-len", "16", "--quiet"});
  expect_fits(train);
  std::vector<std::string> profile = train;
  profile.emplace_back("--profile");
  expect_brief(profile, {"mean loss", "matmul", "idle and host", "Roofline: "},
               {"by scope", "at the peak"});
  expect_refused({"train", "--verbose"}, 2, "--verbose has no effect without --profile");
}

TEST_F(ScreenTest, Inference) {
  const std::string model = test_data("models/llama_fp32").string();
  std::filesystem::create_symlink(model, folder_ / "model");
  expect_brief({"infer-lab", "model", "--device", "cpu", "--threads", "1", "--seconds", "3",
                "--out", "study", "--force"},
               {"TTFT / TPOT", "prefill", "decode", "Report: study/report.html"},
               {"Attention module and MLP", "by scope"});
  expect_brief(
      {"bench", "model", "model", "-p", "4,8", "-n", "2", "-r", "2", "--device", "cpu", "-t", "1"},
      {"tokens/s", "Multiply-only"}, {});
  expect_fits({"perplexity", "model", "--ids", "1,2,3,4,5"});
  expect_brief({"plan", "--model", "model", "--device", "cpu", "--threads", "1"},
               {"TTFT", "owned memory", "largest batch"}, {"kv_cache"});
}

TEST_F(ScreenTest, Predictions) {
  const std::vector<std::string> cpu{"--preset", "tiny", "--device", "cpu", "--threads", "1"};
  auto with = [&](std::vector<std::string> command) {
    command.insert(command.end(), cpu.begin(), cpu.end());
    return command;
  };
  expect_brief(with({"plan"}), {"predicted time", "largest batch"}, {"predictions use"});
  expect_brief(with({"plan", "--inference"}), {"TTFT", "owned memory"}, {"kv_cache"});
  expect_fits({"plan", "--preset", "large", "--hardware", "h100"});
  expect_fits({"plan", "--preset", "large", "--hardware", "l4", "--devices", "64", "--price", "1",
               "--recompute", "attention", "--zero", "0", "--dtype", "bf16"});
  expect_fits(
      {"plan", "--parameters", "70e9", "--devices", "1024", "--hardware", "h100", "--price", "2"});
  const std::string all =
      "a6000,a10,a100-40,a100,rtx4090,l4,l40s,h100,h200,b200,mi210,mi250,mi300x,mi355x";
  expect_fits({"plan", "--parameters", "7e9", "--hardware", all, "--devices", "4", "--price", "2"});
  expect_fits({"plan", "--config", "llama-2-7b", "--hardware", "a100,h100,h200,mi300x", "--devices",
               "8", "--price", "2", "--dtype", "bf16"});
  expect_brief(with({"explain"}), {"flash_attention", "Passes that are off", "recompute"},
               {"passes on: "});
  expect_brief({"machine", "--device", "cpu", "--threads", "1"},
               {"memory", "multiply-only", "ridge point", "A kernel call takes"},
               {"stored weight", "1000^3"});
}

TEST_F(ScreenTest, ImportedTraces) {
  int number = 0;
  for (const char* name : {"fused.json.gz", "unfused.json.gz", "generate.json.gz", "nsys.sqlite",
                           "rocprof.json", "rocprof_kernel_trace.csv"})
    expect_fits({"import", trace(name), "--out", fmt::format("run{}", ++number)});
  expect_brief({"import", trace("unfused.json.gz"), "--out", "run1", "--force"},
               {"matmul", "Attributed: ", "Report: run1/report.html"}, {"MACs"});
  expect_brief({"diff", "run1", "run2"}, {"B - A", "B takes "}, {});
}

}  // namespace
}  // namespace ridge::apps
