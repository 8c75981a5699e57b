// SPDX-License-Identifier: Apache-2.0
// Traces of torch.profiler beside their events: the device, the rank, and the setting of a run of
// Ridge; and the folders of such traces.
#include <gtest/gtest.h>

#include "base/error.h"
#include "files/scratch.h"
#include "record/import/imported_ranks.h"
#include "record/trace_text.h"

namespace ridge::record {
namespace {

using Json = nlohmann::json;

// A trace of one operation with these parts beside it.
ForeignTrace trace_of(const Json& others) {
  Json document = Json::parse(TraceText().event("cpu_op", "aten::mm", 0, 5).str());
  document.update(others);
  const std::string text = document.dump();
  files::BlockReader reader(text, "trace.json");
  return read_torch_trace(reader);
}

TEST(TorchTrace, HasTheFirstDevice) {
  const ForeignTrace trace = trace_of(
      {{"deviceProperties",
        {{{"name", "A GPU"}, {"numSms", 132}, {"totalGlobalMem", 1 << 30}}, {{"name", "B"}}}}});
  EXPECT_EQ(trace.device, "A GPU");
  EXPECT_EQ(trace.multiprocessors, 132);
  EXPECT_EQ(trace.device_bytes, 1 << 30);
  EXPECT_EQ(trace.framework, "PyTorch");
  const ForeignTrace none = trace_of({{"deviceProperties", Json::array()}});
  EXPECT_EQ(none.device, "");
  EXPECT_EQ(none.multiprocessors, 0);
  EXPECT_EQ(none.device_bytes, 0);
  const ForeignTrace strange = trace_of(
      {{"deviceProperties", {{{"name", 7}, {"numSms", -3}, {"totalGlobalMem", UINT64_MAX}}}}});
  EXPECT_EQ(strange.device, "");
  EXPECT_EQ(strange.multiprocessors, 0);
  EXPECT_EQ(strange.device_bytes, 0);
  EXPECT_EQ(trace_of({{"deviceProperties", 5}}).device, "");
}

TEST(TorchTrace, HasItsRank) {
  EXPECT_EQ(trace_of({{"distributedInfo", {{"rank", 3}}}}).rank, 3);
  EXPECT_EQ(trace_of({{"distributedInfo", {{"rank", -3}}}}).rank, 0);
  EXPECT_EQ(trace_of({{"distributedInfo", {{"rank", "3"}}}}).rank, 0);
}

TEST(TorchTrace, HasTheSettingOfARunOfRidge) {
  const Json setting = {{"model", "small"}, {"level", "fused"}, {"dtype", std::string(1200, 'x')},
                        {"batch_size", 8},  {"sequence", -4},   {"threads", 2'000'000'000}};
  const Json own = {{"program", "ridge 1.2"}, {"setting", setting}};
  const ForeignTrace trace = trace_of({{"otherData", own}});
  ASSERT_TRUE(trace.setting);
  EXPECT_EQ(trace.framework, "Ridge");
  EXPECT_EQ(trace.setting->model, "small");
  EXPECT_EQ(trace.setting->level, "fused");
  EXPECT_EQ(trace.setting->dtype, std::string(1000, 'x'));
  EXPECT_EQ(trace.setting->batch_size, 8);
  EXPECT_EQ(trace.setting->sequence, 0);
  EXPECT_EQ(trace.setting->threads, 1'000'000'000);
  EXPECT_EQ(trace.setting->device, "");
}

TEST(TorchTrace, HasNoSettingOfOtherPrograms) {
  const Json setting = {{"model", "small"}};
  for (const Json& other :
       {Json{{"program", "bridge 1.2"}, {"setting", setting}}, Json{{"setting", setting}},
        Json{{"program", "ridge 1.2"}}, Json{{"program", "ridge 1.2"}, {"setting", 7}}, Json(7),
        Json{{"program", 7}, {"setting", setting}}}) {
    const ForeignTrace trace = trace_of({{"otherData", other}});
    EXPECT_FALSE(trace.setting) << other;
    EXPECT_EQ(trace.framework, "PyTorch");
  }
}

TEST(TorchTrace, RefusesOneWithoutEvents) {
  const std::string text = TraceText().event("a category", "aten::mm", 0, 5).str();
  files::BlockReader reader(text, "trace.json");
  files::expect_error([&] { read_torch_trace(reader); }, ExitCode::kBadFile,
                      "[trace.json] expected a trace of torch.profiler, found no event of an "
                      "operation or a kernel");
}

TEST(TorchTrace, IsOfKernelsIfNothingElseIsRecorded) {
  const auto is_of_kernels = [](const TraceText& trace) {
    const std::string text = trace.str();
    files::BlockReader reader(text, "trace.json");
    return read_torch_trace(reader).is_of_kernels;
  };
  EXPECT_TRUE(is_of_kernels(TraceText().event("kernel", "gemm", 0, 5)));
  EXPECT_FALSE(
      is_of_kernels(TraceText().event("kernel", "gemm", 0, 5).event("cpu_op", "aten::mm", 0, 1)));
}

TEST(TraceFiles, AreThoseOfAFolderInOrder) {
  const files::ScratchFolder folder;
  EXPECT_TRUE(trace_files(folder.path()).empty());
  for (const char* name : {"b.json", "a.json.gz", "c.txt", "json", "d.json.zip", "e.json"})
    files::write_plain(folder / name, "");
  EXPECT_EQ(trace_files(folder.path()),
            (std::vector<std::filesystem::path>{folder / "a.json.gz", folder / "b.json",
                                                folder / "e.json"}));
  EXPECT_TRUE(trace_files(folder / "nowhere").empty());
}

}  // namespace
}  // namespace ridge::record
