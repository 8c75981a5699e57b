// SPDX-License-Identifier: Apache-2.0
// Traces of kernels alone: the times and places of the fixtures, which tests/data/traces describes,
// and the errors of damaged ones.
#include "record/import/trace_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "files/mapped_file.h"
#include "files/scratch.h"
#include "record/import/imported_run.h"
#include "test_paths.h"

namespace ridge::record {
namespace {

RunRecord imported(const ForeignTrace& trace) {
  return imported_run(trace, imported_steps(trace), nullptr);
}
RunRecord import_fixture(const std::string& name) {
  return imported(read_trace(test_data("traces/" + name)));
}

// Kernel time of one step by op, in ns.
std::map<std::string, int64_t> times(const RunRecord& run) {
  std::map<std::string, int64_t> sums;
  for (const NodeRecord& node : run.step.nodes) sums[node.op] += node.time_ns;
  return sums;
}

constexpr const char* kOwn = "void my_own_kernel<float>(float*, int)";

// Two kernels overlap for 8 us; the copy is the last of a step.
TEST(KernelTrace, NsightHasStepsScopesAndTimes) {
  const ForeignTrace trace = read_nsight_export(test_data("traces/nsys.sqlite"));
  EXPECT_EQ(trace.device, "NVIDIA A100");
  EXPECT_TRUE(trace.is_of_kernels);
  const RunRecord run = imported(trace);
  EXPECT_EQ(run.plain_wall_ns.size(), 2u);
  EXPECT_EQ(times(run), (std::map<std::string, int64_t>{{"embedding", 2'000},
                                                        {"matmul", 36'000},
                                                        {"flash_attention", 10'000},
                                                        {kOwn, 8'000},
                                                        {"copy", 500}}));
  EXPECT_EQ(run.step.kernel_ns, 56'500);
  EXPECT_EQ(run.step.overlapped_ns, 8'000);
  EXPECT_EQ(run.step.wall_ns, 60'500) << "from the range's begin to the end of the copy";
  for (const NodeRecord& node : run.step.nodes) {
    const bool is_inside = node.op == "flash_attention" ||
                           node.inputs.find("ampere_sgemm_128x64_tn") != std::string::npos;
    EXPECT_EQ(node.scope, is_inside ? "attention" : "") << node.op;
    EXPECT_EQ(node.work, Work());
  }
  EXPECT_EQ(run.setting.model, "nsys");
  EXPECT_EQ(run.setting.level, "trace");
  EXPECT_EQ(run.executed.flops, 0);
}

// No steps are recorded, so both are one.
TEST(KernelTrace, RocprofsFilesAgree) {
  const RunRecord json = import_fixture("rocprof.json");
  std::map<std::string, int64_t> expected{
      {"embedding", 4'000}, {"matmul", 72'000}, {"flash_attention", 20'000}, {kOwn, 16'000}};
  EXPECT_EQ(times(import_fixture("rocprof_kernel_trace.csv")), expected);
  EXPECT_EQ(times(import_fixture("rocprof_kern.db")), expected);
  expected["copy"] = 1'000;
  EXPECT_EQ(times(json), expected);
  for (const char* version : {"rocpd.db", "rocpd_4_0.db", "rocpd_4_1.db"})
    EXPECT_EQ(times(import_fixture(version)), expected) << version;
  EXPECT_EQ(read_trace(test_data("traces/rocpd.db")).device, "AMD MI300X");
  EXPECT_EQ(json.plain_wall_ns.size(), 1u);
  EXPECT_EQ(json.step.overlapped_ns, 16'000);
  EXPECT_EQ(read_trace(test_data("traces/rocprof.json")).device, "AMD Instinct MI300X");
}

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadFile) << error.what();
    return error.what();
  }
  return "";
}

std::string csv_refusal(const std::string& text) {
  return refusal([&] {
    files::BlockReader reader(text, "t.csv");
    read_rocprof_csv(reader);
  });
}

// Tables of rocprof before version 3, and of `nsys stats`.
TEST(KernelTrace, ReadsTablesOfOtherPrograms) {
  auto read = [](const std::string& text) {
    files::BlockReader reader(text, "trace.csv");
    return imported(read_rocprof_csv(reader));
  };
  const std::map<std::string, int64_t> expected{{"matmul", 20}, {kOwn, 5}};
  EXPECT_EQ(times(read("\"Index\",\"KernelName\",\"gpu-id\",\"BeginNs\",\"EndNs\"\n"
                       "0,\"Cijk_Ailk_Bljk\",1,100,120\n1,\"" +
                       std::string(kOwn) + "\",1,130,135\n")),
            expected);
  EXPECT_EQ(times(read("Start (ns),Duration (ns),CorrId,Strm,Name\n100,20,7,14,ampere_sgemm\n"
                       "130,5,8,14,\"" +
                       std::string(kOwn) + "\"\n")),
            expected);
  EXPECT_THROW(read("Start (ns),Duration (ns),Name\n9223372036854775807,20,a\n"), Error);
}

TEST(KernelTrace, CsvNamesWhatIsWrong) {
  const std::string header = "Kernel_Name,Start_Timestamp,End_Timestamp\n";
  EXPECT_EQ(csv_refusal(header + "\"a \"\"b\"\", c\",1,2\n"), "");
  for (const auto& [text, part] : std::map<std::string, std::string>{
           {"", "expected rows"},
           {"a,b\n", "found no Kernel_Name"},
           {header, "expected kernels, found none"},
           {header + "a,1\n", "expected 3 fields in each row, found 2"},
           {header + "a,1,2,3\n", "found 4"},
           {header + "a,x,2\n",
            "expected a whole number in each row's Start_Timestamp, found \"x\""},
           {header + "a,1,2.5\n", "End_Timestamp, found \"2.5\""},
           {header + "a,1,99999999999999999999\n", "End_Timestamp"},
           {header + "a,5,4\n", "found 5 to 4"},
           {header + "a,-9000000000000000000,4\n", "within 2^61 ns"},
           {header + "\"a,1,2\n", "expected a closing quote"}})
    EXPECT_NE(csv_refusal(text).find(part), std::string::npos) << text << csv_refusal(text);
  EXPECT_NE(csv_refusal(std::string(600, ',')).find("at most 500 fields"), std::string::npos);
}

std::string json_refusal(const nlohmann::json& process) {
  return refusal([&] {
    const nlohmann::json document = {{"rocprofiler-sdk-tool", {process}}};
    files::BlockReader reader(document.dump(), "t.json");
    read_rocprof_json(reader);
  });
}

TEST(KernelTrace, JsonNamesWhatIsWrong) {
  nlohmann::json good = nlohmann::json::parse(
      files::contents(test_data("traces/rocprof.json")))["rocprofiler-sdk-tool"][0];
  EXPECT_EQ(json_refusal(good), "");
  for (const char* key : {"kernel_symbols", "buffer_records"}) {
    nlohmann::json bad = good;
    bad.erase(key);
    EXPECT_NE(json_refusal(bad).find(key), std::string::npos) << json_refusal(bad);
  }
  nlohmann::json bad = good;
  bad["buffer_records"]["kernel_dispatch"][0]["dispatch_info"]["kernel_id"] = 99;
  EXPECT_NE(json_refusal(bad).find("one of the kernel_symbols, found 99"), std::string::npos)
      << json_refusal(bad);
  bad = good;
  bad["buffer_records"]["kernel_dispatch"][0]["end_timestamp"] = 1e300;
  EXPECT_NE(json_refusal(bad).find("end_timestamp"), std::string::npos) << json_refusal(bad);
  bad = good;
  bad["buffer_records"]["kernel_dispatch"] = nlohmann::json::array();
  bad["buffer_records"]["memory_copy"] = nlohmann::json::array();
  EXPECT_NE(json_refusal(bad).find("expected kernels, found none"), std::string::npos);
}

TEST(KernelTrace, PerfettosFormatIsRefusedWithACommand) {
  const files::ScratchFolder folder;
  for (const auto& [name, bytes] : std::map<std::string, std::string>{
           {"t.pftrace", "anything"}, {"t.proto", std::string("\x0a\x10\x40\x00\x50\x01", 6)}}) {
    files::write_plain(folder / name, bytes);
    EXPECT_NE(refusal([&] { read_trace(folder / name); }).find("--output-format"),
              std::string::npos)
        << name;
  }
}

// A database is refused or read, whichever of its bytes is changed or missing.
TEST(KernelTrace, DamagedDatabasesAreRefusedOrRead) {
  const files::ScratchFolder folder;
  const std::string path = folder / "t.sqlite";
  const auto try_it = [&](const std::string& bytes) {
    files::write_plain(path, bytes);
    return refusal([&] {
      const ForeignTrace trace = read_database(path);
      imported(trace);
    });
  };
  for (const char* name : {"nsys.sqlite", "rocpd_4_0.db", "rocprof_kern.db"}) {
    const std::string good = files::contents(test_data(std::string("traces/") + name));
    EXPECT_EQ(try_it(good), "") << name;
    for (size_t size = 16; size < good.size(); size += 509)
      EXPECT_NE(try_it(good.substr(0, size)), "") << name << " " << size;
    for (size_t at = 16; at < good.size(); at += 31) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (at % 2 == 0 ? 0xFF : 0x40));
      try_it(bad);
      try_it(good.substr(0, at) + std::string(36, '\xFF') +
             good.substr(std::min(at + 36, good.size())));
    }
  }
}

}  // namespace
}  // namespace ridge::record
