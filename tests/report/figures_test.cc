// SPDX-License-Identifier: Apache-2.0
// The list of figures: a row for each, with the unit of its key, and choices from it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "files/scratch.h"
#include "record/bench_figures.h"
#include "record/plan_figures.h"
#include "report/operators_csv.h"
#include "test_paths.h"

namespace ridge::report {
namespace {

template <class R>
void expect_rows(const R& record) {
  std::set<std::string_view> keys;
  const auto see = [&](const record::Figure& figure, const auto&, auto...) {
    EXPECT_TRUE(keys.insert(figure.key).second) << figure.key << " has two rows";
    if (figure.says.empty()) return;
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

// The page shows what the list says about its columns.
TEST(Figures, ThePageExplainsThemAlike) {
  const std::string page = files::contents(source_file("src/report/page/operations.js"));
  const std::set<std::string_view> shown = {"time_ns", "share", "read_bytes", "bound"};
  const auto see = [&](const record::Figure& figure, const auto&, auto...) {
    const bool is_said = page.find(fmt::format("help: '{}'", figure.says)) != page.npos;
    EXPECT_TRUE(is_said || !shown.contains(figure.key)) << figure.key;
  };
  figures(see, record::OperationRow());
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
