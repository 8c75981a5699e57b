// SPDX-License-Identifier: Apache-2.0
// The trace file: valid JSON, no overlap within a track, and a size within its cap.
#include "report/chrome_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/lab_fixture.h"

namespace ridge::report {
namespace {

using nlohmann::json;

struct Slice {
  int64_t begin_ns, end_ns;
  std::string name;
};

// Slices by (process, track), ordered by time.
std::map<std::pair<int, int>, std::vector<Slice>> slices(const json& trace) {
  std::map<std::pair<int, int>, std::vector<Slice>> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    int64_t begin = std::llround(event["ts"].get<double>() * 1000);
    int64_t end = begin + std::llround(event["dur"].get<double>() * 1000);
    tracks[{event["pid"], event["tid"]}].push_back({begin, end, event["name"]});
  }
  for (auto& [track, list] : tracks)
    std::stable_sort(list.begin(), list.end(),
                     [](const Slice& a, const Slice& b) { return a.begin_ns < b.begin_ns; });
  return tracks;
}

TEST(ChromeTrace, SlicesOfATrackNeverOverlap) {
  auto tracks = slices(json::parse(chrome_trace(lab_record()).text));
  ASSERT_EQ(tracks.size(), 3u);
  for (const auto& [track, list] : tracks)
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      EXPECT_LE(list[i].begin_ns, list[i].end_ns);
      EXPECT_LE(list[i].end_ns, list[i + 1].begin_ns) << "track " << track.second << " at " << i;
    }
}

// Clock readings that touch, repeat or run backwards must not cause overlaps either.
TEST(ChromeTrace, NorDoThoseOfADisorderlyClock) {
  record::LabRecord lab = lab_record();
  for (record::TimelineRun& run : lab.runs[1].step.timeline)
    for (record::Span& span : run.run.spans)
      span = {span.node, 100.9 - span.node * 30.0, 101.2 - span.node * 30.0};
  for (const auto& [track, list] : slices(json::parse(chrome_trace(lab).text)))
    for (size_t i = 0; i + 1 < list.size(); ++i) EXPECT_LE(list[i].end_ns, list[i + 1].begin_ns);
}

TEST(ChromeTrace, KernelsCarryTheirCounts) {
  record::LabRecord lab = lab_record();
  json trace = json::parse(chrome_trace(lab).text);
  int found = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["tid"] != 1 || event["name"] != "adamw") continue;
    ++found;
    // Counts of a record are per step, which ran the graph twice; a slice is one of the two runs.
    EXPECT_EQ(event["args"]["flops"], 10000 / 2);
    EXPECT_EQ(event["args"]["read_bytes"], 128);
    EXPECT_EQ(event["args"]["scope"], "optimizer");
    EXPECT_EQ(event["args"]["phase"], "optimizer");
    EXPECT_EQ(event["args"]["graph"], "step");
  }
  EXPECT_EQ(found, 2);
}

TEST(ChromeTrace, ProcessesAndTracksAreNamed) {
  json trace = json::parse(chrome_trace(lab_record()).text);
  std::set<std::string> named;
  std::string process;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") process = event["args"]["name"];
    if (event["name"] == "thread_name") named.insert(event["args"]["name"]);
  }
  EXPECT_TRUE(process.starts_with("rank 0: ")) << process;
  EXPECT_EQ(named, (std::set<std::string>{"kernels (cpu)", "scopes", "phases"}));
}

TEST(ChromeTrace, PhasesAndScopesMergeNeighbours) {
  auto tracks = slices(json::parse(chrome_trace(lab_record()).text));
  // forward, backward and optimizer in each of the two runs.
  std::vector<std::string> phases;
  for (const Slice& slice : tracks.at({1, 3})) phases.push_back(slice.name);
  EXPECT_EQ(phases, (std::vector<std::string>{"forward", "backward", "optimizer", "forward",
                                              "backward", "optimizer"}));
  EXPECT_EQ(tracks.at({1, 2}).size(), 10u);
}

TEST(ChromeTrace, HostileNamesComeBackWhole) {
  std::string text = chrome_trace(lab_record()).text;
  EXPECT_EQ(std::count_if(text.begin(), text.end(),
                          [](char c) { return c != '\n' && static_cast<unsigned char>(c) < 32; }),
            0);
  json trace = json::parse(text);
  bool found = false;
  for (const json& event : trace["traceEvents"])
    // Only the byte that is not UTF-8 is replaced.
    found =
        found || (event["ph"] == "X" && event["name"] == "e\"v,i\nl|<b>`*\x1b[31m\\ \xEF\xBF\xBD");
  EXPECT_TRUE(found);
}

TEST(ChromeTrace, MemoryIsCountedByClass) {
  json trace = json::parse(chrome_trace(lab_record()).text);
  int counters = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    ++counters;
    EXPECT_EQ(event["args"].size(), 7u);
    EXPECT_TRUE(event["args"].contains("optimizer_state"));
  }
  EXPECT_EQ(counters, 2 * 5);
}

TEST(ChromeTrace, TheCapCutsWholeEventsAndSaysSo) {
  record::LabRecord lab = lab_record();
  Trace whole = chrome_trace(lab);
  EXPECT_EQ(whole.dropped_events, 0);
  EXPECT_TRUE(whole.warning.empty());
  for (int64_t cap : {int64_t{0}, int64_t{1000}, static_cast<int64_t>(whole.text.size()) / 2}) {
    Trace cut = chrome_trace(lab, cap);
    json trace = json::parse(cut.text);
    EXPECT_GT(cut.dropped_events, 0);
    EXPECT_EQ(cut.dropped_events + cut.events, whole.events);
    EXPECT_EQ(trace["traceEvents"].size(), static_cast<size_t>(cut.events));
    EXPECT_EQ(trace["otherData"]["dropped_events"], cut.dropped_events);
    EXPECT_NE(cut.warning.find(std::to_string(cut.dropped_events)), std::string::npos);
    EXPECT_LT(cut.text.size(), static_cast<size_t>(cap) + 6000);
  }
}

TEST(ChromeTrace, NothingMeasuredIsAnEmptyTrace) {
  json trace = json::parse(chrome_trace(record::LabRecord{}).text);
  EXPECT_TRUE(trace["traceEvents"].empty());
}

}  // namespace
}  // namespace ridge::report
