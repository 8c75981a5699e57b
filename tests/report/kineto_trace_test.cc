// SPDX-License-Identifier: Apache-2.0
// The trace file: valid JSON in Kineto's shape that keeps the viewers' rules, and a size within its
// cap.
#include "report/kineto_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "files/json.h"
#include "record/rank_times.h"
#include "report/exchange_text.h"
#include "report/kernels_json.h"
#include "report/lab_fixture.h"
#include "report/output_files.h"
#include "report/rank_files.h"
#include "report/trace_rules.h"
#include "test_paths.h"

namespace ridge::report {
namespace {

using nlohmann::json;

const std::vector<std::string> kNone;

json trace_of(const record::LabRecord& lab) {
  return json::parse(kineto_trace(lab, lab.runs[1], "trace.json").text);
}

std::vector<json> slices(const json& trace, const std::string& category) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == category) found.push_back(event);
  return found;
}

// The same run on a device that works while the host goes on: each launch takes 200 ns.
record::LabRecord device_lab(bool replays) {
  record::LabRecord lab = lab_record();
  record::RunRecord& run = lab.runs[1];
  run.setting.device = "cuda";
  for (record::TimelineRun& each : run.step.timeline) {
    double at = 0;
    for (record::Span& span : each.run.spans) {
      span.begin_ns += 1000;
      span.end_ns += 1000;
      if (!replays) each.run.enqueues.push_back({span.node, at, at + 200});
      at += 200;
    }
    if (replays) each.run.enqueues = {{-1, 0, 900}};
    each.run.wall_ns += 1000;
  }
  double begin = 500;
  for (record::TimelineRun& each : run.step.timeline) {
    each.begin_ns = begin;
    begin += each.run.wall_ns + 300;
  }
  run.step.timeline_wall_ns = begin + 50;
  return lab;
}

TEST(KinetoTrace, KeepsTheRulesOfViewersAndTools) {
  for (const record::LabRecord& lab : {lab_record(), device_lab(false), device_lab(true)})
    EXPECT_EQ(TraceRules(trace_of(lab)).broken(), kNone);
}

// An imported collective that all other kernels run beside takes no time from them.
TEST(KinetoTrace, KernelsThatRunAtOnceLastAsLongAsTheyDid) {
  record::LabRecord lab = lab_record();
  double shortest_ns = 1e9;
  for (record::TimelineRun& each : lab.runs[1].step.timeline) {
    each.run.spans[0].end_ns = each.run.spans.back().end_ns;
    for (const record::Span& span : each.run.spans)
      shortest_ns = std::min(shortest_ns, span.end_ns - span.begin_ns);
  }
  const json trace = trace_of(lab);
  EXPECT_EQ(TraceRules(trace).broken(), kNone);
  for (const json& kernel : slices(trace, "kernel"))
    EXPECT_GT(1000 * kernel["dur"].get<double>(), shortest_ns - 2);
}

// A node that runs several kernels has its counts once.
TEST(KinetoTrace, CountsOfKernelsAddUp) {
  record::LabRecord lab = lab_record();
  record::RunRecord& run = lab.runs[1];
  int64_t expected = 0;
  for (record::NodeRecord& node : run.step.nodes) expected += node.work.flops = 1001;
  for (record::TimelineRun& each : run.step.timeline)
    each.run.spans.push_back({1, each.run.wall_ns - 4, each.run.wall_ns - 2});
  int64_t sum = 0;
  for (const json& kernel : slices(trace_of(lab), "kernel"))
    sum += kernel["args"]["flops"].get<int64_t>();
  EXPECT_EQ(sum, expected);
}

// TensorBoard's plugin for PyTorch's profiler knows calls as "runtime", and memory by moments.
TEST(KinetoTrace, NamesCallsAndMemoryForTensorBoard) {
  const record::LabRecord lab = lab_record();
  const json trace = json::parse(
      kineto_trace(lab, lab.runs[1], "a.pt.trace.json", kTraceCapBytes, TraceReader::kTensorBoard)
          .text);
  EXPECT_TRUE(slices(trace, "cuda_runtime").empty());
  EXPECT_EQ(slices(trace, "runtime").size(), slices(trace, "kernel").size());
  int64_t live = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] != "[memory]") continue;
    live += event["args"]["Bytes"].get<int64_t>();
    EXPECT_EQ(event["args"]["Total Allocated"], live);
    EXPECT_EQ(event["args"]["Total Reserved"], 50000);
  }
  EXPECT_GT(live, 0);
}

// Recorded on an H100; the step is one captured graph.
TEST(KinetoTrace, KeepsThemOnAGpu) {
  const json trace = files::read_json(test_data("runs/h100/trace.json"));
  EXPECT_EQ(TraceRules(trace).broken(), kNone);
  const std::vector<json> kernels = slices(trace, "kernel");
  const json run = files::read_json(test_data("runs/h100/kernels.json")).at("runs").at(0);
  EXPECT_EQ(kernels.size(), run.at("spans").size());
  for (const json& kernel : kernels) {
    const json& args = kernel["args"];
    EXPECT_EQ(args["device"], 0);
    EXPECT_GT(args["stream"], 0);
    EXPECT_GT(args["correlation"], 0);
    for (const char* size : {"grid", "block"}) EXPECT_EQ(args[size].size(), 3u) << kernel["name"];
    EXPECT_GT(args["registers per thread"], 0);
    EXPECT_LE(args["est. achieved occupancy %"], 100);
  }
  EXPECT_EQ(slices(trace, "cuda_runtime").size(), 2u);
}

// Clock readings that touch, repeat, are empty or run backwards.
TEST(KinetoTrace, KeepsThemWithADisorderlyClock) {
  for (double length : {0.3, 0.0, 45.0, -12.0})
    for (const record::LabRecord& fine : {lab_record(), device_lab(false), device_lab(true)}) {
      record::LabRecord lab = fine;
      for (record::TimelineRun& run : lab.runs[1].step.timeline)
        for (record::Span& span : run.run.spans)
          span = {span.node, 1100.9 - span.node * 30.0, 1100.9 - span.node * 30.0 + length};
      EXPECT_EQ(TraceRules(trace_of(lab)).broken(), kNone) << length;
    }
}

// Two ranks, of which the second begins 700 ns later.
struct LabOfRanks {
  record::LabRecord lab = lab_record();
  record::ExchangeRecord exchange;

  LabOfRanks() {
    lab.runs = {lab.runs[1]};
    lab.detailed = {0};
    record::RunRecord& run = lab.runs[0];
    run.setting.exchange = "Open MPI 4.1.4";
    run.step.nodes[4].op = "all_reduce", run.step.nodes[4].sent_bytes = 640;
    for (const int64_t rank : {0, 1}) {
      record::RankLane lane = record::rank_lane(run.step, rank, 700 * rank);
      write_lane(run, 2, 700 * rank, lane);
      exchange.lanes.push_back(std::move(lane));
      exchange.ranks.push_back({.rank = rank, .steps = 1, .step_ns = 5000, .host = kHostile});
    }
    exchange.collectives.push_back({.op = kHostile,
                                    .group = "data",
                                    .ranks = 2,
                                    .calls = 3,
                                    .bytes = 1280,
                                    .sent_bytes = 640,
                                    .transfer_ns = 320});
  }
};

// Each rank is one process, alone in its own trace and beside the other in that of both.
TEST(KinetoTrace, RanksAreProcessesOnOneClock) {
  const LabOfRanks ranks;
  const record::LabRecord& lab = ranks.lab;
  const record::RunRecord& run = lab.runs[0];
  const json both = json::parse(ranks_trace(lab, run, ranks.exchange.lanes, "trace.json", -1).text);
  EXPECT_EQ(TraceRules(both).broken(), kNone);
  EXPECT_EQ(both["distributedInfo"], (json{{"rank", 0}, {"world_size", 2}}));
  const std::vector<json> kernels = slices(both, "kernel");
  const json alone = json::parse(kineto_trace(lab, run, "trace.json").text);
  ASSERT_EQ(kernels.size(), 2 * slices(alone, "kernel").size());
  for (size_t i = 0; i < kernels.size() / 2; ++i) {
    const json &first = kernels[i], &second = kernels[kernels.size() / 2 + i];
    EXPECT_EQ(first["pid"], 0);
    EXPECT_EQ(second["pid"], 1);
    EXPECT_NEAR(second["ts"].get<double>() - first["ts"].get<double>(), 0.7, 1e-6);
  }
  for (const int64_t rank : {0, 1}) {
    const json one =
        json::parse(ranks_trace(lab, run, ranks.exchange.lanes, "ranks/trace.json", rank).text);
    EXPECT_EQ(TraceRules(one).broken(), kNone);
    EXPECT_EQ(one["distributedInfo"], (json{{"rank", rank}, {"world_size", 2}}));
    const std::vector<json> own = slices(one, "kernel");
    EXPECT_EQ(own.size(), kernels.size() / 2);
    int64_t exchanges = 0;
    for (const json& kernel : own) {
      EXPECT_EQ(kernel["pid"], rank);
      if (kernel["args"]["op"] != "all_reduce") continue;
      ++exchanges;
      // HolisticTraceAnalysis: ^nccl.*Kernel
      EXPECT_EQ(kernel["name"], "ncclKernel_all_reduce (Open MPI 4.1.4)");
      EXPECT_EQ(kernel["args"]["sent_bytes"], 640);
    }
    EXPECT_EQ(exchanges, 2);
  }
}

TEST(KinetoTrace, AFolderOfRanksHasATraceOfEachAndTheirLanes) {
  LabOfRanks ranks;
  std::vector<OutputFile> files =
      with_ranks(ranks.lab, ranks.exchange, {}, output_files(ranks.lab));
  std::map<std::string, std::string> by_name;
  for (OutputFile& file : files) by_name[file.name] = std::move(file.text);
  for (const char* name : {"trace.json", "ranks/trace-0.json", "ranks/trace-1.json"})
    EXPECT_TRUE(json::accept(by_name[name])) << name;
  EXPECT_NE(by_name["report.html"].find("\"clock_error_ns\""), std::string::npos);
  const json written = json::parse(by_name["ranks.json"]);
  const record::ExchangeRecord read = read_exchange(files::JsonField(written, "ranks.json"));
  EXPECT_EQ(ranks_json(read), by_name["ranks.json"]);
  ASSERT_EQ(read.lanes.size(), 2u);
  EXPECT_EQ(read.lanes[1].rank, 1);
  EXPECT_EQ(read.lanes[1].slices[0].begin_ns - read.lanes[0].slices[0].begin_ns, 700);
  ASSERT_EQ(read.collectives.size(), 1u);
  EXPECT_DOUBLE_EQ(read.collectives[0].bus_bytes_per_s(), 2e9);
  const std::string text = exchange_text(read, {});
  EXPECT_NE(text.find("2.00 GB/s"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

// A damaged ranks.json is a bad-file Error that names the field.
TEST(KinetoTrace, DamagedRanksAreRefused) {
  const json fine = json::parse(ranks_json(LabOfRanks().exchange));
  const auto expect_refused = [&](const char* at, const json& value) {
    json damaged = fine;
    damaged[json::json_pointer(at)] = value;
    EXPECT_THROW(read_exchange(files::JsonField(damaged, "ranks.json")), Error) << at;
  };
  expect_refused("/version", 2);
  expect_refused("/clock", 3);
  expect_refused("/ranks", 3);
  expect_refused("/ranks/0/step_ns", -1);
  expect_refused("/ranks/0/step_ns", INT64_MAX);
  expect_refused("/collectives/0/bytes", "x");
  expect_refused("/lanes/0/slices/0/0", 1000);
  expect_refused("/lanes/0/slices/0", json::array({0, 1}));
}

TEST(KinetoTrace, TheRulesFindWhatIsWrong) {
  const json fine = trace_of(device_lab(false));
  auto breaks = [&](const std::string& category, const std::function<void(json&)>& change) {
    json trace = fine;
    for (json& event : trace["traceEvents"])
      if (event.value("cat", "") == category) {
        change(event);
        break;
      }
    return !TraceRules(trace).broken().empty();
  };
  EXPECT_TRUE(breaks("kernel", [](json& event) { event["dur"] = 0; }));
  EXPECT_TRUE(breaks("kernel", [](json& event) { event["dur"] = 1e6; }));
  EXPECT_TRUE(
      breaks("kernel", [](json& event) { event["ts"] = event["ts"].get<double>() + 2e-4; }));
  EXPECT_TRUE(breaks("kernel", [](json& event) { event["args"]["stream"] = 0; }));
  EXPECT_TRUE(breaks("kernel", [](json& event) { event["args"]["correlation"] = 999; }));
  EXPECT_TRUE(
      breaks("cuda_runtime", [](json& event) { event["args"]["correlation"] = (1 << 24) + 2; }));
  EXPECT_TRUE(breaks("cpu_op", [](json& event) { event["dur"] = 0.1; }));
  EXPECT_TRUE(breaks("ac2g", [](json& event) { event["ts"] = event["ts"].get<double>() + 1e6; }));
  EXPECT_TRUE(breaks("user_annotation", [](json& event) { event["dur"] = 1; }));
}

TEST(KinetoTrace, KernelsCarryTheirCounts) {
  int found = 0;
  for (const json& event : slices(trace_of(lab_record()), "kernel")) {
    if (event["name"] != "adamw") continue;
    ++found;
    // Counts of a record are per step, which ran the graph twice; a slice is one of the two runs.
    EXPECT_EQ(event["args"]["flops"], 10000 / 2);
    EXPECT_EQ(event["args"]["read_bytes"], 128);
    EXPECT_EQ(event["args"]["scope"], "optimizer");
    EXPECT_EQ(event["args"]["phase"], "optimizer");
    EXPECT_EQ(event["args"]["graph"], "step");
    EXPECT_EQ(event["args"]["stream"], 7);
  }
  EXPECT_EQ(found, 2);
}

TEST(KinetoTrace, TheHostsLaunchesBelongToTheirKernels) {
  // On a CPU the call is the kernel.
  const json on_cpu = trace_of(lab_record());
  const std::vector<json> calls = slices(on_cpu, "cuda_runtime");
  const std::vector<json> kernels = slices(on_cpu, "kernel");
  ASSERT_EQ(calls.size(), 10u);
  ASSERT_EQ(kernels.size(), 10u);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i]["name"], "launch");
    EXPECT_EQ(calls[i]["ts"], kernels[i]["ts"]);
    EXPECT_EQ(calls[i]["dur"], kernels[i]["dur"]);
    EXPECT_EQ(calls[i]["args"]["correlation"], kernels[i]["args"]["correlation"]);
  }
  auto names = [](const json& trace) {
    std::map<std::string, int> counts;
    for (const json& call : slices(trace, "cuda_runtime")) ++counts[call["name"]];
    return counts;
  };
  EXPECT_EQ(names(trace_of(device_lab(false))),
            (std::map<std::string, int>{{"cudaLaunchKernel", 10}, {"cudaStreamSynchronize", 2}}));
  const json replayed = trace_of(device_lab(true));
  EXPECT_EQ(names(replayed),
            (std::map<std::string, int>{{"cudaGraphLaunch", 2}, {"cudaStreamSynchronize", 2}}));
  std::set<int> correlations;
  for (const json& kernel : slices(replayed, "kernel"))
    correlations.insert(kernel["args"]["correlation"].get<int>());
  EXPECT_EQ(correlations.size(), 2u) << "one for each replay";
  const std::vector<json> annotations = slices(replayed, "user_annotation");
  ASSERT_EQ(annotations.size(), 4u);
  EXPECT_EQ(annotations[0]["name"], "ProfilerStep#3");
  EXPECT_EQ(annotations[1]["name"], "data");
  EXPECT_EQ(annotations[1]["dur"], 0.5);
  EXPECT_EQ(annotations[2]["name"], "read-back and data");
  EXPECT_EQ(annotations[3]["name"], "read-back");
}

// The third kernel begins before the first one has ended.
TEST(KinetoTrace, OverlappingKernelsGetStreams) {
  record::LabRecord lab = device_lab(true);
  for (record::TimelineRun& each : lab.runs[1].step.timeline)
    for (record::Span& span : each.run.spans) span.end_ns += 1000;
  const json trace = trace_of(lab);
  EXPECT_EQ(TraceRules(trace).broken(), kNone);
  std::set<int> streams;
  for (const json& kernel : slices(trace, "kernel")) streams.insert(kernel["tid"].get<int>());
  EXPECT_EQ(streams, (std::set<int>{7, 8, 9}));
}

TEST(KinetoTrace, DeviceRecordsNameTheKernel) {
  record::LabRecord lab = device_lab(true);
  record::ProfiledRun& run = lab.runs[1].step.timeline[0].run;
  run.kernels.resize(2);
  run.kernels[0].name = "gemm<128, 64>(float*)";
  run.kernels[0].grid = {16, 2, 1};
  run.kernels[0].block = {128, 1, 1};
  run.kernels[0].registers = 90;
  run.kernels[0].dynamic_shared_bytes = 1024;
  run.kernels[0].occupancy = 0.25;
  run.kernels[1].kind = record::DeviceKernel::Kind::kMemset;
  run.kernels[1].name = "Memset (Device)";
  run.kernels[1].copied_bytes = 4;
  run.spans[1].kernel = 0;
  run.spans[2].kernel = 1;
  const json listed = json::parse(kernels_json(lab))["runs"][0];
  ASSERT_EQ(listed["device_kernels"].size(), 2u);
  EXPECT_EQ(listed["device_kernels"][0]["row"], 1);
  EXPECT_EQ(listed["device_kernels"][0]["name"], run.kernels[0].name);
  EXPECT_EQ(listed["device_kernels"][0]["registers"], 90);
  EXPECT_EQ(listed["host"][0], json({"data", 0, 500}));
  EXPECT_EQ(listed["host"][1], json({"cudaGraphLaunch", 500, 1400}));
  const json trace = trace_of(lab);
  const json gemm = slices(trace, "kernel")[1];
  EXPECT_EQ(gemm["name"], run.kernels[0].name);
  EXPECT_EQ(gemm["args"]["op"], "matmul");
  EXPECT_EQ(gemm["args"]["grid"], json({16, 2, 1}));
  EXPECT_EQ(gemm["args"]["block"], json({128, 1, 1}));
  EXPECT_EQ(gemm["args"]["registers per thread"], 90);
  EXPECT_EQ(gemm["args"]["shared memory"], 1024);
  EXPECT_EQ(gemm["args"]["est. achieved occupancy %"], 25);
  const std::vector<json> memsets = slices(trace, "gpu_memset");
  ASSERT_EQ(memsets.size(), 1u);
  EXPECT_EQ(memsets[0]["name"], "Memset (Device)");
  EXPECT_EQ(memsets[0]["args"]["bytes"], 4);
}

TEST(KinetoTrace, OperationsListTheirOperands) {
  record::LabRecord lab = lab_record();
  lab.runs[1].step.nodes[0].inputs = "f32[8,16], q4_0[32], i32[]";
  const json first = slices(trace_of(lab), "cpu_op")[0];
  EXPECT_EQ(first["args"]["Input Dims"], json::parse("[[8, 16], [32], []]"));
  EXPECT_EQ(first["args"]["Input type"], json({"float", "q4_0", "int"}));
}

TEST(KinetoTrace, TheHeadNamesTheDeviceAndTheRank) {
  const std::string text = kineto_trace(lab_record(), lab_record().runs[1], "trace.json").text;
  const json trace = json::parse(text);
  EXPECT_EQ(trace["schemaVersion"], 1);
  EXPECT_EQ(trace["distributedInfo"]["world_size"], 1);
  ASSERT_EQ(trace["deviceProperties"].size(), 1u);
  EXPECT_EQ(trace["deviceProperties"][0]["type"], "CPU");
  EXPECT_EQ(trace["deviceProperties"][0]["name"].get<std::string>().substr(0, 4), "CPU ");
  // Tools look for the rank line by line and stop at the first hit.
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line) && line.find("\"rank\"") == std::string::npos) continue;
  EXPECT_EQ(line, "\"rank\": 0,");
}

TEST(KinetoTrace, ProcessesAndTracksAreNamed) {
  std::set<std::string> threads, processes;
  const json trace = trace_of(lab_record());
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    if (event["name"] == "thread_name") threads.insert(event["args"]["name"]);
  }
  EXPECT_EQ(processes.size(), 2u);
  EXPECT_TRUE(processes.contains("kernels (cpu)"));
  EXPECT_TRUE(processes.rbegin()->starts_with("rank 0: "));
  EXPECT_EQ(threads, (std::set<std::string>{"host", "scopes", "phases", "stream 7 kernels"}));
}

TEST(KinetoTrace, PhasesAndScopesMergeNeighbours) {
  std::vector<std::string> phases;
  int scopes = 0;
  for (const json& slice : slices(trace_of(lab_record()), "gpu_user_annotation"))
    if (slice["tid"] == 2)
      phases.push_back(slice["name"]);
    else
      ++scopes;
  // forward, backward and optimizer in each of the two runs.
  EXPECT_EQ(phases, (std::vector<std::string>{"forward", "backward", "optimizer", "forward",
                                              "backward", "optimizer"}));
  EXPECT_EQ(scopes, 10);
}

TEST(KinetoTrace, HostileNamesComeBackWhole) {
  const std::string text = kineto_trace(lab_record(), lab_record().runs[1], kHostile).text;
  EXPECT_EQ(std::count_if(text.begin(), text.end(),
                          [](char c) { return c != '\n' && static_cast<unsigned char>(c) < 32; }),
            0);
  bool found = false;
  for (const json& event : slices(json::parse(text), "kernel"))
    // Only the byte that is not UTF-8 is replaced.
    found = found || event["name"] == "e\"v,i\nl|<b>`*\x1b[31m\\ \xEF\xBF\xBD";
  EXPECT_TRUE(found);
}

TEST(KinetoTrace, MemoryIsCountedByClass) {
  int counters = 0;
  const json trace = trace_of(lab_record());
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    ++counters;
    EXPECT_EQ(event["args"].size(), 7u);
    EXPECT_TRUE(event["args"].contains("optimizer_state"));
  }
  EXPECT_EQ(counters, 2 * 5);
}

TEST(KinetoTrace, TheCapCutsWholeEventsAndSaysSo) {
  const record::LabRecord lab = lab_record();
  const Trace whole = kineto_trace(lab, lab.runs[1], "t.json");
  EXPECT_EQ(whole.dropped_events, 0);
  EXPECT_TRUE(whole.warning.empty());
  for (int64_t cap : {int64_t{0}, int64_t{1000}, static_cast<int64_t>(whole.text.size()) / 2}) {
    const Trace cut = kineto_trace(lab, lab.runs[1], "t.json", cap);
    json trace = json::parse(cut.text);
    EXPECT_GT(cut.dropped_events, 0);
    EXPECT_EQ(cut.dropped_events + cut.events, whole.events);
    EXPECT_EQ(trace["traceEvents"].size(), static_cast<size_t>(cut.events));
    EXPECT_EQ(trace["otherData"]["dropped_events"], cut.dropped_events);
    EXPECT_NE(cut.warning.find(std::to_string(cut.dropped_events)), std::string::npos);
    EXPECT_TRUE(cut.warning.starts_with("t.json "));
    EXPECT_LT(cut.text.size(), static_cast<size_t>(cap) + 6000);
  }
}

TEST(KinetoTrace, NothingMeasuredIsAnEmptyTrace) {
  json trace = json::parse(kineto_trace({}, {}, "trace.json").text);
  EXPECT_TRUE(trace["traceEvents"].empty());
}

}  // namespace
}  // namespace ridge::report
