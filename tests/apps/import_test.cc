// SPDX-License-Identifier: Apache-2.0
// ridge import: its folder, what other commands make of it, and traces that it refuses.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using ImportTest = ProgramTest;

std::string trace(const std::string& name) {
  return test_data("traces/" + name + ".json.gz").string();
}

TEST_F(ImportTest, OtherCommandsReadTheFolder) {
  const Output made = run({"import", trace("fused"), "--out", "torch"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("flash_attention_backward"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("Attributed: 9"), std::string::npos) << made.out;
  const json import = json::parse(files::contents(folder_ / "torch/import.json"));
  EXPECT_GT(import.at("attributed_share"), 0.95);
  EXPECT_EQ(run({"report", "torch"}).code, 0);
  const Output explained = run({"explain", "torch"});
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_NE(explained.out.find("fused eager 4x128"), std::string::npos) << explained.out;
}

TEST_F(ImportTest, DiffLinesUpKindsWithARunOfRidge) {
  ASSERT_EQ(run({"import", trace("fused"), "--out", "torch"}).code, 0);
  ASSERT_EQ(run(tiny({"train", "--steps", "2", "--batch-size", "1", "--seq-len", "16", "--profile",
                      "--level", "baseline", "--out", "ridge"}))
                .code,
            0);
  const Output text = run({"diff", "torch", "ridge"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("\nkind "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("B takes "), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("outside of operations"), std::string::npos) << text.out;
  const json rows = json::parse(run({"diff", "torch", "ridge", "--json"}).out)[0]["by_kind"];
  for (const char* kind : {"matmul", "optimizer", "elementwise and norms", "softmax and loss"}) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const json& each) { return each["key"] == kind; });
    ASSERT_NE(row, rows.end()) << kind;
    EXPECT_GT((*row)["a"]["median_ns"], 0) << kind;
    EXPECT_GT((*row)["b"]["median_ns"], 0) << kind;
  }
}

// An imported run has a model and a level of its own.
TEST_F(ImportTest, DiffComparesItWithEachRunOfTheSameWork) {
  ASSERT_EQ(run({"import", trace("fused"), "--out", "torch"}).code, 0);
  ASSERT_EQ(run(tiny({"lab", "--steps", "2", "--batch-size", "4", "--seq-len", "128", "--level",
                      "baseline,fused", "--no-advice", "--out", "same"}))
                .code,
            0);
  EXPECT_EQ(json::parse(run({"diff", "torch", "same", "--json"}).out).size(), 2u);
  EXPECT_EQ(json::parse(run({"diff", "same", "torch", "--json"}).out).size(), 2u);
  ASSERT_EQ(run(tiny({"lab", "--steps", "2", "--batch-size", "1", "--seq-len", "16", "--level",
                      "baseline,fused", "--no-advice", "--out", "other"}))
                .code,
            0);
  expect_refused({"diff", "torch", "other"}, 2, "have no run with the same model");
}

// A trace that Ridge wrote comes back with the same operations, phases, scopes and counts.
TEST_F(ImportTest, RidgesOwnTraceHasTheSameFigures) {
  ASSERT_EQ(run(tiny({"train", "--steps", "3", "--batch-size", "2", "--seq-len", "16", "--profile",
                      "--level", "fused", "--out", "own"}))
                .code,
            0);
  const Output made = run({"import", (folder_ / "own/trace.json").string(), "--out", "back"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("Attributed: 100.0%"), std::string::npos) << made.out;
  auto summary = [&](const char* folder) {
    return json::parse(files::contents(folder_ / folder / "performance_summary.json"))["runs"][0];
  };
  const json own = summary("own"), back = summary("back");
  EXPECT_EQ(back["setting"], own["setting"]);
  std::map<std::string, json> rows;
  for (const json& row : back["operations"]["by_op"]) rows[row["key"]] = row;
  ASSERT_EQ(rows.size(), own["operations"]["by_op"].size());
  for (const json& row : own["operations"]["by_op"])
    for (const char* figure :
         {"calls", "flops", "macs", "transcendentals", "read_bytes", "written_bytes"})
      EXPECT_EQ(rows[row["key"]][figure], row[figure]) << row["key"] << " " << figure;
}

TEST_F(ImportTest, RefusesBadTracesAndLeavesNothing) {
  expect_refused({"import", "missing.json", "--out", "made"}, 3, "missing.json");
  expect_refused({"import", ".", "--out", "made"}, 3, "found a folder");
  files::write_plain(folder_ / "trace.json", R"({"traceEvents": [)");
  expect_refused({"import", "trace.json", "--out", "made"}, 3, "not valid JSON at byte");
  files::write_plain(folder_ / "trace.json", std::string(1 << 20, '['));
  expect_refused({"import", "trace.json", "--out", "made"}, 3, "levels deep");
  const std::string whole = files::contents(trace("compiled"));
  files::write_plain(folder_ / "part.json.gz", whole.substr(0, whole.size() / 2));
  expect_refused({"import", "part.json.gz", "--out", "made"}, 3, "part.json.gz");
  expect_refused({"import", "trace.json"}, 2, "--out");
  files::write_plain(folder_ / "run.nsys-rep", "\x01\x02 of another program");
  expect_refused({"import", "run.nsys-rep", "--out", "made"}, 3,
                 "nsys export --type sqlite --output run.sqlite run.nsys-rep");
  const std::string database = files::contents(test_data("traces/nsys.sqlite"));
  files::write_plain(folder_ / "part.sqlite", database.substr(0, database.size() / 2));
  expect_refused({"import", "part.sqlite", "--out", "made"}, 3, "part.sqlite");
  files::write_plain(folder_ / "rows.csv", "Kernel_Name,Start_Timestamp\n");
  expect_refused({"import", "rows.csv", "--out", "made"}, 3, "found no End_Timestamp");
  files::write_plain(folder_ / "tool.json", R"({"rocprofiler-sdk-tool": [{}]})");
  expect_refused({"import", "tool.json", "--out", "made"}, 3,
                 "the key \"kernel_symbols\" is missing");
}

TEST_F(ImportTest, OtherCommandsReadTracesOfKernels) {
  for (const auto& [name, title] :
       {std::pair{"nsys.sqlite", "nsys trace: "},
        {"rocprof.json", "rocprof trace: "},
        {"rocprof_kernel_trace.csv", "rocprof_kernel_trace trace: "}}) {
    const std::string folder = std::string("of-") + name;
    const Output made =
        run({"import", test_data(std::string("traces/") + name).string(), "--out", folder});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_NE(made.out.find("my_own_kernel"), std::string::npos) << made.out;
    EXPECT_NE(made.out.find(title), std::string::npos) << made.out;
    EXPECT_EQ(run({"report", folder}).code, 0);
    const std::string explained = run({"explain", folder}).out;
    EXPECT_NE(explained.find("flash_attention"), std::string::npos);
    // The line breaks somewhere behind the path of the trace.
    std::string heading = explained.substr(0, explained.find("\n\n"));
    std::replace(heading.begin(), heading.end(), '\n', ' ');
    EXPECT_NE(heading.find(" on an unknown machine, "), std::string::npos) << heading;
    for (const char* unknown : {" 0.0 ", " 0 B ", " 0.0% "})
      EXPECT_EQ(explained.find(unknown), std::string::npos) << explained;
  }
  EXPECT_EQ(run({"diff", "of-nsys.sqlite", "of-rocprof.json"}).code, 0);
}

}  // namespace
}  // namespace ridge::apps
