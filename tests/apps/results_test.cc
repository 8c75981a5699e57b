// SPDX-License-Identifier: Apache-2.0
// Successful runs: their output and files. Also their files after a failed write.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "apps/program_run.h"
#include "report/trace_rules.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using ResultTest = ProgramTest;

const std::vector<std::string> kSmallest = {"--batch-size", "1", "--seq-len", "16"};

std::vector<std::string> train(std::vector<std::string> more) {
  std::vector<std::string> all = tiny({"train"});
  all.insert(all.end(), kSmallest.begin(), kSmallest.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

const std::set<std::string> kFiles = {"performance_summary.json",
                                      "flops_profile.json",
                                      "computational_intensity.json",
                                      "operators.csv",
                                      "memory.json",
                                      "kernels.json",
                                      "trace.json",
                                      "report.md",
                                      "report.html"};

TEST_F(ResultTest, OneSampleHasNoInterval) {
  const Output plain = run(train({"--steps", "1"}));
  EXPECT_NE(plain.out.find("(one step)"), std::string::npos) << plain.out;
  EXPECT_EQ(plain.out.find("interval"), std::string::npos) << plain.out;
  const Output model = run({"bench", "model", test_data("models/llama_fp32").string(), "-p", "0",
                            "-n", "2", "-r", "1", "-t", "1", "--format", "md"});
  EXPECT_TRUE(std::regex_search(model.out, std::regex("\\| tg2 \\| *[0-9.]+ \\| *- \\|")))
      << model.out;
}

TEST_F(ResultTest, AnOpHasNoShareOver100Percent) {
  const Output text = run({"bench", "op", "fill", "--threads", "1"});
  ASSERT_EQ(text.code, 0) << text.err;
  const std::regex share_of("([0-9]+)%");
  for (std::sregex_iterator each(text.out.begin(), text.out.end(), share_of), end; each != end;
       ++each)
    EXPECT_LE(std::stoi((*each)[1]), 100) << text.out;
  const json measured = json::parse(run({"bench", "op", "fill", "--threads", "1", "--json"}).out);
  for (const json& each : measured.at("cases")) {
    const json& share = each.at("share_of_limit");
    EXPECT_TRUE(share.is_null() || share <= 1) << each;
    EXPECT_EQ(share.is_null(), each.at("limit_ns") > each.at("median_ns")) << each;
  }
}

TEST_F(ResultTest, PrintsItsVersion) { EXPECT_TRUE(run({"--version"}).out.starts_with("ridge ")); }

// A run folder may have come from anybody; who names a file means what it links to.
TEST_F(ResultTest, APageLeavesWhatALinkInARunFolderLinksTo) {
  std::filesystem::copy(test_data("runs/version_1"), folder_ / "run");
  files::write_plain(folder_ / "theirs", "theirs");
  std::filesystem::create_symlink(folder_ / "theirs", folder_ / "run/report.html");
  ASSERT_EQ(run({"report", "run"}).code, 0);
  EXPECT_EQ(files::contents(folder_ / "theirs"), "theirs");
  EXPECT_TRUE(std::filesystem::is_regular_file(
      std::filesystem::symlink_status(folder_ / "run/report.html")));
  std::filesystem::create_symlink(folder_ / "theirs", folder_ / "mine");
  ASSERT_EQ(run({"report", "run", "-o", "mine"}).code, 0);
  EXPECT_NE(files::contents(folder_ / "theirs"), "theirs");
}

TEST_F(ResultTest, TrainingPrintsALineAStepAndTheMean) {
  Output output = run(train({"--steps", "3", "--level", "baseline"}));
  ASSERT_EQ(output.code, 0) << output.err;
  EXPECT_TRUE(output.err.empty()) << output.err;  // no progress bar if stderr is not a terminal
  EXPECT_EQ(output.out.find('\x1b'), std::string::npos);
  for (const char* part :
       {"step    0  loss ", "step    2  loss ", "samples/s", "mean loss ", "owned"})
    EXPECT_NE(output.out.find(part), std::string::npos) << part << "\n" << output.out;
  EXPECT_EQ(folder_.count(), 0u);
}

TEST_F(ResultTest, OneObjectOnStdout) {
  Output output = run(train({"--steps", "4", "--json", "--pass", "-fuse_glu"}));
  ASSERT_EQ(output.code, 0) << output.err;
  json summary = json::parse(output.out);
  const json& run = summary["runs"][0];
  EXPECT_EQ(run["setting"]["pass"], "-fuse_glu");
  EXPECT_EQ(run["setting"]["seq_len"], 16);
  EXPECT_EQ(run["loss"]["all"].size(), 4u);
  EXPECT_EQ(run["step"]["samples"], 4);
  EXPECT_EQ(run["memory"]["owned_bytes"], run["memory"]["allocated_bytes"]);
}

// The same steps, instrumented or not, at two levels, must have the same losses.
TEST_F(ResultTest, MeasuringChangesNoLoss) {
  auto losses = [&](std::vector<std::string> more) {
    std::vector<std::string> all = train({"--steps", "5", "--json"});
    all.insert(all.end(), more.begin(), more.end());
    Output output = run(all);
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out)["runs"][0]["loss"]["all"].get<std::vector<double>>();
  };
  std::vector<double> plain = losses({});
  EXPECT_EQ(losses({"--profile"}), plain);
  std::vector<double> baseline = losses({"--level", "baseline"});
  ASSERT_EQ(baseline.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(baseline[i], plain[i], 5e-5);
}

TEST_F(ResultTest, ALogHasALineAndAnEventAStep) {
  Output output = run(train({"--steps", "3", "--json", "--log-dir", "logs/first"}));
  ASSERT_EQ(output.code, 0) << output.err;
  const json run_of = json::parse(output.out)["runs"][0];
  const double flops =
      run_of["model_flops_per_s"].get<double>() * run_of["step"]["median_ns"].get<double>() / 1e9;
  std::istringstream lines(files::contents(folder_ / "logs/first/metrics.jsonl"));
  int64_t steps = 0;
  for (std::string text; std::getline(lines, text); ++steps) {
    const json line = json::parse(text);
    EXPECT_EQ(line["step"], steps);
    EXPECT_EQ(line["loss"], run_of["loss"]["all"][static_cast<size_t>(steps)]);
    const double step_s = line["step_ns"].get<double>() / 1e9;
    EXPECT_NEAR(line["tokens_per_s"].get<double>() * step_s, 16, 1e-6);
    EXPECT_NEAR(line["model_flops_per_s"].get<double>() * step_s, flops, 1e-6 * flops);
    EXPECT_GT(line["mfu"].get<double>(), 0);
  }
  EXPECT_EQ(steps, 3);
  std::set<std::string> names = names_in(folder_ / "logs/first");
  ASSERT_EQ(names.size(), 2u);
  const std::string& name = *names.begin();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;
  const std::string events = files::contents(folder_ / "logs/first" / name);
  size_t losses = 0;
  for (size_t at = 0; (at = events.find("train/loss", at)) != std::string::npos; ++at) ++losses;
  EXPECT_EQ(losses, 3u);
  expect_refused(train({"--steps", "1", "--log-dir", "logs/first"}), 2, "without a log");
}

TEST_F(ResultTest, AnOutputFolderIsWholeAndReadBack) {
  Output first = run(train({"--steps", "2", "--out", "a", "--level", "baseline"}));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(names_in(folder_ / "a"), kFiles);
  // A second run fails without --force and succeeds with it; foreign files stay.
  files::write_plain(folder_ / "a" / "notes.txt", "mine");
  expect_refused(train({"--steps", "2", "--out", "a"}), 2, "--force");
  Output again = run(train({"--steps", "2", "--out", "a", "--force"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(files::contents(folder_ / "a" / "notes.txt"), "mine");
  ASSERT_EQ(run(train({"--steps", "2", "--out", "b"})).code, 0);

  Output explained = run({"explain", "a"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_NE(explained.out.find("matmul"), std::string::npos) << explained.out;
  const json results = json::parse(run({"explain", "a", "--json"}).out);
  const json summary = json::parse(files::contents(folder_ / "a" / "performance_summary.json"));
  ASSERT_EQ(results["runs"].size(), 1u);
  for (const char* key : {"program", "command", "finished_at", "warnings"})
    EXPECT_EQ(results[key], summary[key]) << key;
  for (const char* key : {"step", "predicted_step_ns", "kernel_calls", "tokens_per_s", "mfu"})
    EXPECT_EQ(results["runs"][0][key], summary["runs"][0][key]) << key;
  const json& ops = summary["runs"][0]["operations"]["by_op"];
  ASSERT_EQ(results["runs"][0]["by_op"].size(), ops.size());
  for (size_t i = 0; i < ops.size(); ++i)
    for (const char* key : {"key", "calls", "time_ns", "exclusive_ns", "share", "bound"})
      EXPECT_EQ(results["runs"][0]["by_op"][i][key], ops[i][key]) << key;
  Output difference = run({"diff", "a", "b"});
  EXPECT_EQ(difference.code, 0) << difference.err;
  EXPECT_NE(difference.out.find("matmul"), std::string::npos);
  json changes = json::parse(run({"diff", "a", "b", "--json"}).out);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0]["step"]["key"], "step");
  // A run compared with itself has no differences.
  json itself = json::parse(run({"diff", "a", "a", "--json"}).out);
  ASSERT_FALSE(itself[0]["by_op"].empty());
  for (const json& op : itself[0]["by_op"]) EXPECT_EQ(op["verdict"], "noise");
}

// The whole chain: a measured step in a trace that keeps the viewers' rules.
TEST_F(ResultTest, TracesOfRealStepsKeepTheRules) {
  ASSERT_EQ(run(train({"--steps", "4", "--micro-batches", "2", "--out", "a"})).code, 0);
  const json trace = json::parse(files::contents(folder_ / "a" / "trace.json"));
  EXPECT_EQ(report::TraceRules(trace).broken(), std::vector<std::string>{});
  std::map<std::string, int> names;
  for (const json& event : trace["traceEvents"])
    if (event.value("cat", "") == "user_annotation") ++names[event["name"]];
  EXPECT_EQ(names["data"], 1);
  EXPECT_EQ(names["read-back and data"], 2) << "two micro-batches and the update";
  // The step's slice is one of the measured steps.
  const json& step = trace["traceEvents"];
  const auto found = std::find_if(step.begin(), step.end(), [](const json& event) {
    return event["name"].get<std::string>().starts_with("ProfilerStep#");
  });
  ASSERT_NE(found, step.end());
  EXPECT_LT(std::stoi((*found)["name"].get<std::string>().substr(13)), 4);
}

TEST_F(ResultTest, TracesMayBePacked) {
  ASSERT_EQ(run(train({"--steps", "2", "--out", "a", "--gzip"})).code, 0);
  std::set<std::string> names = kFiles;
  names.erase("trace.json");
  names.insert("trace.json.gz");
  EXPECT_EQ(names_in(folder_ / "a"), names);
  EXPECT_EQ(files::contents(folder_ / "a" / "trace.json.gz").substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(run({"report", "a"}).code, 0);
  expect_refused(train({"--steps", "2", "--gzip"}), 2, "--gzip");
}

TEST_F(ResultTest, EveryPointOfASweepMayBeProfiled) {
  const Output lab =
      run(tiny({"lab", "--level", "baseline,compiled", "--batch-size", "1,2", "--seq-len", "16",
                "--steps", "2", "--no-advice", "--profile-points", "all", "--out", "a"}));
  ASSERT_EQ(lab.code, 0) << lab.err;
  const json runs =
      json::parse(files::contents(folder_ / "a" / "performance_summary.json"))["runs"];
  ASSERT_EQ(runs.size(), 4u);
  for (const json& each : runs)
    EXPECT_EQ(each.contains("operations"), each["setting"]["level"] == "compiled");
  const json memory = json::parse(files::contents(folder_ / "a" / "memory.json"))["runs"];
  ASSERT_EQ(memory.size(), 4u);
  for (const json& each : memory) {
    EXPECT_FALSE(each["timeline"].empty());
    EXPECT_FALSE(each["tensors_at_peak"].empty());
  }
  EXPECT_TRUE(names_in(folder_ / "a").contains("trace-2.json"));
  EXPECT_FALSE(names_in(folder_ / "a").contains("trace-3.json"));
  expect_refused(tiny({"lab", "--profile-points", "some"}), 2, "[profile-points]");
}

TEST_F(ResultTest, AFullDiskLeavesNothing) {
  for (int64_t bytes : {int64_t{0}, int64_t{20'000}}) {
    Output output = run(train({"--steps", "2", "--out", "a"}), {.file_bytes = bytes});
    EXPECT_EQ(output.code, 1);
    EXPECT_EQ(folder_.count(), 0u) << "at " << bytes;
  }
  // A failed write over old results leaves them unchanged.
  ASSERT_EQ(run(train({"--steps", "2", "--out", "a"})).code, 0);
  std::string before = files::contents(folder_ / "a" / "performance_summary.json");
  EXPECT_EQ(run(train({"--steps", "2", "--out", "a", "--force"}), {.file_bytes = 20'000}).code, 1);
  EXPECT_EQ(names_in(folder_ / "a"), kFiles);
  EXPECT_EQ(files::contents(folder_ / "a" / "performance_summary.json"), before);
}

TEST_F(ResultTest, AFullStdoutIsAFailure) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  for (const auto& arguments : {train({"--steps", "2", "--json"}), train({"--steps", "2"})}) {
    const Output output = run(arguments, {.out = "/dev/full"});
    EXPECT_EQ(output.code, 1);
    EXPECT_NE(output.err.find("[stdout] cannot write the output: No space left"), std::string::npos)
        << output.err;
  }
}

TEST_F(ResultTest, TheLabMeasuresProfilesAdvisesAndTries) {
  Output output = run(tiny({"lab", "--level", "baseline,compiled", "--batch-size", "1,2",
                            "--seq-len", "16", "--steps", "4", "--out", "lab", "--verbose"}));
  ASSERT_EQ(output.code, 0) << output.err;
  for (const char* part : {"speed-up", "MFU", "Sweep", "by op", "by scope", "by phase", "roofline",
                           "Advice", "profiling overhead"})
    EXPECT_NE(output.out.find(part), std::string::npos) << part;
  EXPECT_EQ(names_in(folder_ / "lab"), kFiles);
  json summary = json::parse(files::contents(folder_ / "lab" / "performance_summary.json"));
  ASSERT_EQ(summary["runs"].size(), 4u);
  for (const json& run : summary["runs"]) {
    EXPECT_TRUE(run["loss"]["agrees"].get<bool>());
    EXPECT_EQ(run["attribution"]["dropped_records"], 0);
    double wall = run["attribution"]["wall_ns"], busy = run["attribution"]["kernel_ns"];
    double idle = run["attribution"]["idle_ns"], host = run["attribution"]["host_ns"];
    EXPECT_EQ(busy + idle + host, wall);
    EXPECT_EQ(run["memory"]["owned_bytes"], run["memory"]["allocated_bytes"]);
  }
  // Only the last level of the first size is detailed.
  EXPECT_FALSE(summary["runs"][0].contains("operations"));
  EXPECT_TRUE(summary["runs"][1].contains("operations"));
  EXPECT_LT(summary["runs"][1]["kernel_calls"], summary["runs"][0]["kernel_calls"]);
  EXPECT_LE(summary["advice"].size(), 3u);
  EXPECT_EQ(summary["trials"].size(), summary["advice"].empty() ? 0u : 1u);
}

TEST_F(ResultTest, TheLabFindsAFolderWhenItIsToldNone) {
  std::vector<std::string> lab = tiny({"lab", "--level", "compiled", "--batch-size", "1",
                                       "--seq-len", "8", "--steps", "2", "--no-advice", "--json"});
  ASSERT_EQ(run(lab).code, 0);
  Output second = run(lab);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(names_in(folder_.path()), (std::set<std::string>{"lab-out", "lab-out-2"}));
  EXPECT_EQ(json::parse(second.out)["runs"].size(), 1u);
}

TEST_F(ResultTest, ExplainListsAllPasses) {
  Output text = run({"explain", "--passes"}), list = run({"explain", "--passes", "--json"});
  ASSERT_EQ(text.code, 0) << text.err;
  ASSERT_EQ(list.code, 0) << list.err;
  std::set<std::string> backends;
  for (const json& pass : json::parse(list.out)) {
    backends.insert(pass["backend"]);
    EXPECT_NE(text.out.find(pass["pass"].get<std::string>()), std::string::npos) << pass;
    EXPECT_NE(pass["summary"], "") << pass;
    EXPECT_TRUE(pass["level"].is_null() || pass["level"].is_string()) << pass;
  }
  EXPECT_EQ(backends, (std::set<std::string>{"all", "cpu", "cuda"}));
  for (size_t at = 0; at < text.out.size(); at = text.out.find('\n', at) + 1)
    EXPECT_LE(text.out.find('\n', at) - at, 100u) << text.out.substr(at, 120);
}

TEST_F(ResultTest, ExplainShowsPassesGraphAndNodes) {
  Output passes =
      run({"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1", "--json"});
  ASSERT_EQ(passes.code, 0) << passes.err;
  json rungs = json::parse(passes.out);
  ASSERT_GT(rungs.size(), 3u);
  for (const json& rung : rungs) EXPECT_EQ(rung["model_flops"], rungs[0]["model_flops"]);
  EXPECT_LT(rungs.back()["kernel_calls"], rungs[0]["kernel_calls"]);
  Output graph = run({"explain", "--preset", "tiny", "--level", "baseline", "--graph", "--plain"});
  EXPECT_EQ(graph.code, 0);
  EXPECT_NE(graph.out.find("= matmul("), std::string::npos);
  Output op =
      run({"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1", "--op", "matmul"});
  EXPECT_NE(op.out.find("formula: MACs"), std::string::npos) << op.out << op.err;
  // A value id from the text of the graph: "  %12 : f32[...] = matmul(...)".
  size_t at = graph.out.find("= matmul(");
  size_t value = graph.out.rfind('%', graph.out.rfind(" : ", at));
  std::string name = graph.out.substr(value, graph.out.find(' ', value) - value);
  Output node = run({"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1", "--level",
                     "baseline", "--node", name});
  EXPECT_EQ(node.code, 0) << name << node.err;
  EXPECT_NE(node.out.find("matmul is a primitive"), std::string::npos) << node.out;
  // No node produces a parameter; its readers are shown.
  Output parameter =
      run({"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1", "--node", "%0"});
  EXPECT_EQ(parameter.code, 0) << parameter.err;
  EXPECT_NE(parameter.out.find("%0 is from outside the graph: "), std::string::npos);
  EXPECT_NE(parameter.out.find("(%0"), std::string::npos) << parameter.out;
  expect_refused(
      {"explain", "--preset", "tiny", "--device", "cpu", "--threads", "1", "--node", "%99999"}, 2,
      "[node] expected a value from %0 to %");
}

// With micro-batches, the update is a separate graph.
TEST_F(ResultTest, ExplainLooksIntoEveryGraph) {
  const std::vector<std::string> explain = {"explain", "--preset",  "tiny",    "--device",
                                            "cpu",     "--threads", "1",       "--micro-batches",
                                            "2",       "--level",   "baseline"};
  auto asked = [&](std::vector<std::string> more) {
    more.insert(more.begin(), explain.begin(), explain.end());
    Output output = run(more);
    EXPECT_EQ(output.code, 0) << output.err;
    return output.out;
  };
  std::string op = asked({"--op", "adamw"});
  EXPECT_NE(op.find("# update: 1 run(s) per step"), std::string::npos) << op;
  EXPECT_NE(op.find("optimizer"), std::string::npos) << op;
  // The id of a value that the update computes, from the text.
  std::string graph = asked({"--graph", "--plain"});
  size_t at = graph.find("= adamw(");
  size_t value = graph.rfind('\n', at) + 1;
  value = graph.find('%', value);
  std::string node =
      asked({"--node", graph.substr(value, graph.find_first_of(" ,", value) - value)});
  EXPECT_NE(node.find("adamw is"), std::string::npos) << node;
}

TEST_F(ResultTest, BenchTimesEveryCase) {
  Output output = run({"bench", "op", "softmax", "--device", "cpu", "--threads", "1", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  json bench = json::parse(output.out);
  ASSERT_GT(bench["cases"].size(), 1u);
  bool has_preset = false;
  for (const json& each : bench["cases"]) {
    EXPECT_EQ(each["refused"], "") << each;
    EXPECT_GT(each["median_ns"], 0);
    EXPECT_LE(each["low_ns"], each["median_ns"]);
    EXPECT_GE(each["high_ns"], each["median_ns"]);
    has_preset = has_preset || each["name"] == "tiny";
  }
  EXPECT_TRUE(has_preset);
}

// Extents beyond 32 bits are counted, and refused only where they would be multiplied.
TEST_F(ResultTest, BenchCountsProductsOfAnyExtent) {
  for (const char* shape :
       {"n=4294967296,k=8,m=8", "n=8,k=4294967296,m=8", "n=8,k=8,m=4294967296"}) {
    SCOPED_TRACE(shape);
    const Output output = run({"bench", "op", "matmul", "--shape", shape, "--plan", "--device",
                               "cpu", "--threads", "1", "--json"});
    ASSERT_EQ(output.code, 0) << output.err;
    EXPECT_EQ(json::parse(output.out)["cases"][0]["macs"], int64_t{64} << 32);
  }
}

TEST_F(ResultTest, BenchSweepsAnOpInEveryFormat) {
  const std::vector<std::string> sweep{"bench",         "op",        "matmul", "--sweep",
                                       "n=k=m=16:64*2", "--seconds", "0.01",   "--device",
                                       "cpu",           "--threads", "1",      "--fit"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sweep.begin(), sweep.end());
    const Output output = run(more);
    EXPECT_EQ(output.code, 0) << output.err;
    return output.out;
  };
  const json result = json::parse(with({"--json", "--out", "sweep"}));
  ASSERT_EQ(result["cases"].size(), 3u);
  for (const json& each : result["cases"]) {
    const int64_t n = each["shape"]["n"];
    EXPECT_EQ(each["macs"], n * n * n);
    EXPECT_EQ(each["bytes"], 3 * 4 * n * n);
    EXPECT_EQ(each["caches"], "warm");
    EXPECT_GT(each["limit_ns"], 0);
  }
  EXPECT_EQ(result["fits"][0]["letter"], "n");
  const json written = json::parse(files::contents(folder_ / "sweep" / "bench.json"));
  EXPECT_EQ(written["result"]["swept"], "n");
  EXPECT_NE(files::contents(folder_ / "sweep" / "report.html").find("drawSweep"),
            std::string::npos);
  const std::string csv = with({"--format", "csv"});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_NE(csv.find("\"n=32,k=32,m=32\""), std::string::npos) << csv;
  // -o is the older name of --format.
  EXPECT_NE(with({"-o", "md"}).find("| n=64,k=64,m=64 |"), std::string::npos);
}

TEST_F(ResultTest, BenchPredictsForOtherMachines) {
  const Output output = run({"bench", "op", "matmul", "--shape", "n=k=m=4096", "--dtype", "bf16",
                             "--hardware", "h100", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  const json point = json::parse(output.out)["cases"][0];
  EXPECT_EQ(point["samples"], 0);
  EXPECT_EQ(point["flops"], 2ll * 4096 * 4096 * 4096);
  // 989 TFLOP/s at the assumed 80%, in whole waves of tiles.
  EXPECT_NEAR(point["limit_ns"], 2.0 * 4096 * 4096 * 4096 / (0.8 * 989.5e3), 2e3);
}

TEST_F(ResultTest, BenchCountsInFull) {
  RunLimits fresh;
  fresh.cache = folder_ / "cache";  // counts need no ceilings, which would take minutes to measure
  const Output op =
      run({"bench", "op", "matmul", "--shape", "n=512,k=256,m=512", "--device", "cpu", "--counts"},
          fresh);
  ASSERT_EQ(op.code, 0) << op.err;
  for (const char* figure : {"134,217,728", "67,108,864", "2,097,152", "64.00"})
    EXPECT_NE(op.out.find(figure), std::string::npos) << op.out;
  for (const char* column : {"predicted", "rate", "time", "limit"})
    EXPECT_EQ(op.out.find(column), std::string::npos) << op.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache" / "ridge"));
  const Output forms =
      run({"bench", "attention", "--seq-len", "512", "--device", "cpu", "--counts"}, fresh);
  ASSERT_EQ(forms.code, 0) << forms.err;
  EXPECT_EQ(forms.out.find("fastest"), std::string::npos) << forms.out;
  const Output sheet = run(
      {"bench", "op", "matmul", "--shape", "n=303,k=303,m=303", "--hardware", "a6000", "--counts"});
  EXPECT_NE(sheet.out.find("f32 38.7 TFLOP/s, 50.39 FLOP/B"), std::string::npos) << sheet.out;
  expect_refused({"bench", "op", "matmul", "--counts"}, 2, "with --counts");
  expect_refused({"bench", "op", "matmul", "--shape", "n=1", "--counts", "--json"}, 2, "[counts]");
  expect_refused({"bench", "op", "matmul", "--shape", "n=1", "--counts", "--plan"}, 2,
                 "--plan has no effect with --counts");
  expect_refused({"bench", "op", "matmul", "--shape", "n=1", "--counts", "--seconds", "1"}, 2,
                 "--seconds has no effect");
}

TEST_F(ResultTest, ReportDrawsPictures) {
  ASSERT_EQ(run({"bench", "op", "matmul", "--sweep", "n=k=m=64:256*2", "--hardware", "a6000",
                 "--out", "gemms"})
                .code,
            0);
  const Output drawn =
      run({"report", "gemms", "--chart", "times.svg", "--roofline", "roofline.svg"});
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  for (const char* file : {"times.svg", "roofline.svg"})
    EXPECT_TRUE(files::contents(folder_ / file).starts_with("<svg")) << file;
  std::filesystem::copy(test_data("runs/h100"), folder_ / "trained");
  std::filesystem::copy(test_data("runs/version_1"), folder_ / "old");
  const Output ops = run({"report", "trained", "--roofline", "ops.svg"});
  ASSERT_EQ(ops.code, 0) << ops.err;
  EXPECT_NE(files::contents(folder_ / "ops.svg").find(" matmul<"), std::string::npos);
  // The roofs of older folders are those that their machine names.
  EXPECT_EQ(run({"report", "old", "--roofline", "old.svg"}).code, 0);
  expect_refused({"report", "trained", "--chart", "a.svg"}, 2, "expected a folder of ridge bench");
  expect_refused({"report", "gemms", "gemms", "--chart", "a.svg"}, 2, "expects one folder");
  expect_refused({"report", "gemms", "--chart", "a.svg", "--losses", "b.svg"}, 2, "with --losses");
  expect_refused({"report", "gemms", "--roofline", "a.svg", "--open"}, 2, "with --roofline");
  expect_refused({"report", "nowhere", "--chart", "a.svg"}, 3, "[report]");
}

TEST_F(ResultTest, BenchGraphReadsAPersonsGraph) {
  files::write_plain(folder_ / "mlp.txt",
                     "%0 = input f32[4,8] \"x\"\n%1 = parameter f32[6,8] \"weight\"\n"
                     "%2 : f32[4,6] = matmul(%0, %1) {einsum=\"nd,fd->nf\"} #forward\n"
                     "%3 : f32[4,6] = gelu_tanh(%2) #forward\nreturn %3\n");
  const Output output =
      run({"bench", "graph", "mlp.txt", "--backward", "--level", "baseline", "--pass",
           "+split_activations", "--threads", "1", "--seconds", "0.01", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  const json cases = json::parse(output.out)["cases"];
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0]["kernel_calls"], 9) << "a GEMM and the eight of a GELU";
  EXPECT_EQ(cases[0]["flops"], 2 * 4 * 6 * 8 + 8 * 4 * 6);
  EXPECT_EQ(cases[1]["macs"], 3 * 4 * 6 * 8);
  files::write_plain(
      folder_ / "bad.txt",
      "%0 = input f32[4,8] \"x\"\n%1 : f32[4,9] = gelu_tanh(%0) #forward\nreturn %1\n");
  expect_refused({"bench", "graph", "bad.txt"}, 3, "expected f32[4,8] as output 0");
  files::write_plain(folder_ / "empty.txt", "return");
  expect_refused({"bench", "graph", "empty.txt"}, 3, "has no node");
  expect_refused({"bench", "graph", "none.txt"}, 3, "none.txt");
}

// The matrix of scores is really asked for, and is not there.
TEST_F(ResultTest, BenchAttentionGoesOnWhereTheStandardFormFails) {
  const Output limited =
      run({"bench", "op", "attention", "--shape", "t=8192,h=8,k=8", "--implementation", "standard",
           "--memory-limit", "64MiB", "--seconds", "0.001", "--json", "--threads", "1"});
  EXPECT_EQ(limited.code, 4);
  const json refused = json::parse(limited.out)["cases"][0]["refused"];
  EXPECT_NE(refused, "") << limited.out;
  const Output output =
      run({"bench", "attention", "--heads", "32", "--kv-heads", "32", "--seq-len", "64,4194304",
           "--form", "standard,flash", "--threads", "1", "--seconds", "0.01", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  const json cases = json::parse(output.out)["cases"];
  for (const json& each : cases) {
    const bool is_long = each["shape"]["t"] > 64;
    EXPECT_EQ(each["refused"] == "", !is_long) << each;
    if (is_long && each["form"] == "standard") {
      EXPECT_NE(std::string(each["refused"]).find("fails to allocate"), std::string::npos) << each;
    }
  }
}

}  // namespace
}  // namespace ridge::apps
