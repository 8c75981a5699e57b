// SPDX-License-Identifier: Apache-2.0
// The list of figures: a row for each, with the unit of its key, and choices from it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "base/error.h"
#include "files/scratch.h"
#include "record/bench_figures.h"
#include "record/plan_figures.h"
#include "report/figure_list.h"
#include "report/operators_csv.h"
#include "test_paths.h"

namespace ridge::report {
namespace {

template <class R>
void expect_rows(const R& record) {
  std::set<std::string_view> keys;
  const auto see = [&](const record::Figure& figure, const auto&, auto...) {
    EXPECT_TRUE(keys.insert(figure.key).second) << figure.key << " has two rows";
    EXPECT_TRUE(figure.unit == "ns" || !figure.key.ends_with("_ns")) << figure.key;
    EXPECT_TRUE(figure.unit == "B" || !figure.key.ends_with("bytes")) << figure.key;
  };
  figures(see, record);
}

TEST(Figures, HaveOneRowAndTheUnitOfTheirKey) {
  const auto expect_all = [](const auto&... records) { (expect_rows(records), ...); };
  expect_all(record::Setting(), record::OperationRow(), record::NodeRecord(), record::RunRecord(),
             record::StepRecord(), record::BenchPoint(), record::TrainingPlan());
}

TEST(Figures, AreNamedByTheirKey) {
  EXPECT_EQ(record::label("time_ns"), "time");
  EXPECT_EQ(record::label("flops_per_s"), "FLOPs/s");
  EXPECT_EQ(record::label("flops_per_compulsory_byte"), "FLOPs/compulsory byte");
  EXPECT_EQ(record::label("kernel_calls"), "kernel calls");
  EXPECT_EQ(figures_json()["operation"]["time_ns"],
            Json({"time", "ns", std::string(record::kTime.says), 1}));
  EXPECT_EQ(figures_json()["bench"]["bound"][1], "text");
}

// With RIDGE_WRITE_DOCS the test writes the page anew.
TEST(Figures, AreThoseOfTheDocumentation) {
  const std::filesystem::path page = source_file("docs/figures.md");
  if (std::getenv("RIDGE_WRITE_DOCS") != nullptr) files::write_plain(page, figures_page());
  EXPECT_EQ(files::contents(page), figures_page())
      << "run RIDGE_WRITE_DOCS=1 build/tests/report_test --gtest_filter='Figures.*'";
}

// Columns and pairs of the page name figures that their kind of record has.
TEST(Figures, AreKnownToThePage) {
  const Json all = figures_json();
  const std::regex use("(?:columns|pairs)\\(\\s*'(\\w+)',\\s*'([^']+)'");
  int found = 0;
  for (const auto& each : std::filesystem::directory_iterator(source_file("src/report/page"))) {
    const std::string text = files::contents(each.path());
    for (std::sregex_iterator match(text.begin(), text.end(), use), end; match != end; ++match)
      for (const Choice& key : choices((*match)[2].str())) {
        if (key.key.empty()) continue;  // the literal ends in a space
        EXPECT_TRUE(all.at((*match)[1].str()).contains(key.key)) << each.path() << key.key;
        ++found;
      }
  }
  EXPECT_GT(found, 20);
}

TEST(Figures, AreChosenByKeyAndMayHaveAnotherName) {
  EXPECT_EQ(to_json(Summary{6, 2, 1, 3, 0.5}, "high_ns middle=median_ns").dump(),
            R"({"high_ns":3.0,"middle":2.0})");
  EXPECT_THROW(to_json(Summary(), "hihg_ns"), InternalError);
}

TEST(Figures, UnknownOnesAreNullOrLeftOut) {
  EXPECT_FALSE(to_json(record::Setting()).contains("cache_dtype"));
  EXPECT_TRUE(to_json(record::BenchPoint()).at("flops_per_s").is_null());
  EXPECT_EQ(csv_line({{"a", 0.25}, {"b", nullptr}, {"c", "x,y"}}, "c b a:.1f"), "\"x,y\",,0.2");
}

}  // namespace
}  // namespace ridge::report
