// SPDX-License-Identifier: Apache-2.0
// Metrics as a scraper reads them: each family described once, buckets cumulative, labels escaped.
#include "http/metrics.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

namespace ridge::http {
namespace {

TEST(Metrics, AreWellFormed) {
  serve::EngineCounts counts;
  counts.blocks = 100;
  counts.blocks_in_use = 25;
  for (double seconds : {0.0005, 0.02, 0.03, 5000.0}) counts.ttft.observe(seconds);
  counts.cost.model.flops = 12;
  counts.cost.executed_flops = int64_t{1} << 60;
  counts.mbu = 0.5;
  counts.finished[static_cast<size_t>(serve::Finish::kStop)] = 7;
  const std::string text = metrics_text(counts, "a\"b\\c", 3);
  std::set<std::string> described;
  std::istringstream lines(text);
  const std::regex sample(
      R"(([a-z0-9_]+)\{model_name="a\\"b\\\\c"(,[a-z_]+="[^"]+")?\} [-+0-9.e]+)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with("# TYPE ")) {
      const std::string name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(described.insert(name).second) << line;
    } else if (!line.starts_with("# HELP ")) {
      EXPECT_TRUE(std::regex_match(line, match, sample)) << line;
      const std::string name =
          std::regex_replace(match[1].str(), std::regex("_(bucket|sum|count)$"), "");
      EXPECT_TRUE(described.contains(name)) << line;
    }
  }
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has("ridge_kv_cache_usage_perc{model_name=\"a\\\"b\\\\c\"} 0.25\n"));
  EXPECT_TRUE(has("ridge_model_flops_total{model_name=\"a\\\"b\\\\c\"} 12\n"));
  EXPECT_TRUE(has("} 1152921504606846976\n"));  // exact
  EXPECT_TRUE(has("ridge_mbu_ratio{model_name=\"a\\\"b\\\\c\"} 0.5\n"));
  EXPECT_FALSE(has("ridge_mfu_ratio"));  // unknown
  EXPECT_TRUE(has("finished_reason=\"stop\"} 7\n"));
  EXPECT_TRUE(
      has("ridge_time_to_first_token_seconds_bucket{model_name=\"a\\\"b\\\\c\",le=\"0.001\"} 1\n"));
  EXPECT_TRUE(has("le=\"0.02\"} 2\n"));  // a bound belongs to its bucket
  EXPECT_TRUE(has("le=\"2560\"} 3\n"));
  EXPECT_TRUE(
      has("ridge_time_to_first_token_seconds_bucket{model_name=\"a\\\"b\\\\c\",le=\"+Inf\"} 4\n"));
}

TEST(Metrics, EscapeWhatATerminalWouldObey) {
  const std::string text = metrics_text({}, "a\n\x1b[31m\r\u202Eb\u00e9\xff\\", 0);
  EXPECT_NE(
      text.find("ridge_slots{model_name=\"a\\n\\\\x1b[31m\\\\x0d\\\\u202eb\u00e9\uFFFD\\\\\"} 0\n"),
      std::string::npos)
      << text.substr(0, 300);
  for (const char* raw : {"\x1b", "\r", "\u202E", "\xff"})
    EXPECT_EQ(text.find(raw), std::string::npos);
}

}  // namespace
}  // namespace ridge::http
