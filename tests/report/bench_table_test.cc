// SPDX-License-Identifier: Apache-2.0
// The records of benches as JSON, alone, in a list and in the files of a folder.
#include "report/bench_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ridge::report {
namespace {

record::BenchRecord some_bench(const char* name) {
  record::BenchRecord bench;
  bench.kind = "op";
  bench.name = name;
  bench.points.resize(1);
  bench.points[0].form = "only";
  return bench;
}

TEST(BenchTable, PrintsJsonAsTheFilesHaveIt) {
  const record::BenchRecord bench = some_bench("softmax");
  const std::string text = bench_text(bench, "json", {});
  EXPECT_EQ(text, json_text(bench_json(bench)));
  const std::vector<OutputFile> files = bench_files({}, bench);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "bench.json");
  const Json made = Json::parse(files[0].text);
  EXPECT_EQ(made["kind"], "op");
  EXPECT_EQ(made["result"].dump(), Json::parse(text).dump());
  EXPECT_EQ(Json::parse(bench_files({}, record::ModelBenchRecord())[0].text)["kind"], "model");
}

TEST(BenchTable, ListsBenches) {
  const std::vector<record::BenchRecord> benches{some_bench("a"), some_bench("b")};
  const Json list = Json::parse(benches_json(benches));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].dump(), bench_json(benches[0]).dump());
  EXPECT_NE(list[0].dump(), list[1].dump());
  EXPECT_EQ(benches_json({}), "[]\n");
}

}  // namespace
}  // namespace ridge::report
