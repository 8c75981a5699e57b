// SPDX-License-Identifier: Apache-2.0
// The metrics that the dashboard and the documents name are those of the server.
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "http/metrics.h"
#include "http/served_model_test.h"
#include "test_paths.h"

namespace ridge::http {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(source_file(file));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_FALSE(text.empty()) << file;
  return text;
}

std::set<std::string> names(const std::string& text) {
  const std::regex name("ridge_[a-z0-9_]*[a-z0-9]");
  return {std::sregex_token_iterator(text.begin(), text.end(), name), {}};
}

using DeployTest = ServedModelTest;

TEST_F(DeployTest, DashboardAndDocumentsNameWhatTheServerHas) {
  serve::EngineCounts counts = engine_.counts();
  counts.mfu = counts.mbu = 0.5;  // with ceilings
  std::set<std::string> known = names(metrics_text(counts, "small", 0));
  const json dashboard = json::parse(text_of("deploy/grafana.json"));
  std::set<std::string> drawn;
  for (const json& panel : dashboard.at("panels"))
    for (const json& target : panel.at("targets"))
      for (const std::string& each : names(target.at("expr"))) {
        EXPECT_TRUE(known.contains(each)) << panel.at("title") << " names " << each;
        drawn.insert(std::regex_replace(each, std::regex("_(bucket|sum|count)$"), ""));
      }
  for (const json& each : dashboard.at("templating").at("list"))
    for (const std::string& name : names(each.at("query"))) EXPECT_TRUE(known.contains(name));
  for (const std::string& each : names(text_of("docs/serving.md")))
    EXPECT_TRUE(known.contains(each)) << each;
  // Each family has its place on the dashboard, but for a constant.
  for (const std::string& each : known)
    if (!std::regex_search(each, std::regex("_(bucket|sum|count)$")) &&
        each != "ridge_kv_cache_blocks") {
      EXPECT_TRUE(drawn.contains(each)) << each;
    }
}

TEST_F(DeployTest, ScrapesTheRouteOfTheMetrics) {
  const std::string scrape = text_of("deploy/prometheus.yml");
  const std::regex path("metrics_path: (\\S+)");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(scrape, match, path));
  api_.open(model_);
  EXPECT_EQ(api_.reply({"GET", match[1], "", ""}, [] {}).status, 200);
}

}  // namespace
}  // namespace ridge::http
