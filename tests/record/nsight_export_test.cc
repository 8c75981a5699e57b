// SPDX-License-Identifier: Apache-2.0
// Exports of Nsight Systems, made here table by table: what each row becomes, and what is refused.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "files/scratch.h"
#include "record/import/trace_file.h"

namespace ridge::record {
namespace {

const std::string kNames =
    "CREATE TABLE StringIds (id INT, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel'), (3, 'a range');";
const std::string kKernels =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, \"end\" INT, deviceId INT, streamId INT, "
    "correlationId INT, demangledName INT);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 1500, 0, 7, 5, 1);";

class NsightExport : public testing::Test {
 protected:
  ForeignTrace read(const std::string& statements) const {
    const std::string path = folder_ / "t.sqlite";
    std::filesystem::remove(path);
    sqlite3* made = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &made), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(made, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(made);
    sqlite3_close(made);
    return read_nsight_export(path);
  }
  static std::vector<std::string> names(const ForeignTrace& trace, EventKind kind) {
    std::vector<std::string> all;
    for (const ForeignEvent& each : trace.events)
      if (each.kind == kind) all.push_back(trace.names[each.name]);
    std::ranges::sort(all);
    return all;
  }

  files::ScratchFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(NsightExport, NeedsKernels) {
  files::expect_error([&] { read(kNames); }, ExitCode::kBadFile,
                      "expected an export of Nsight Systems with kernels (a table "
                      "CUPTI_ACTIVITY_KIND_KERNEL), found none");
}

TEST_F(NsightExport, HasKernelsWithTheirNames) {
  const ForeignTrace trace = read(kNames + kKernels);
  EXPECT_EQ(names(trace, EventKind::kKernel), Names{"gemm"});
  const ForeignEvent& kernel = trace.events.at(0);
  EXPECT_EQ(kernel.end_ns() - kernel.begin_ns, 500);
  EXPECT_EQ(kernel.correlation, 5);
  EXPECT_EQ(trace.device, "");
}

TEST_F(NsightExport, RefusesANameThatIsNotThere) {
  files::expect_error(
      [&] {
        read(kNames + kKernels +
             "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 2500, 0, 7, 6, 9);");
      },
      ExitCode::kBadFile, "expected a name in StringIds for id 9, found none");
}

TEST_F(NsightExport, NamesCopiesByTheirKinds) {
  std::string copies =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, \"end\" INT, deviceId INT, streamId "
      "INT, correlationId INT, copyKind INT);";
  for (const int kind : {-1, 0, 1, 2, 8, 10, 11})
    copies += "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (2000, 2100, 0, 7, 6, " +
              std::to_string(kind) + ");";
  EXPECT_EQ(names(read(kNames + kKernels + copies), EventKind::kKernel),
            (Names{"Memcpy DtoD", "Memcpy DtoH", "Memcpy HtoD", "Memcpy PtoP", "Memcpy unknown",
                   "Memcpy unknown", "Memcpy unknown", "gemm"}));
}

TEST_F(NsightExport, HasFills) {
  const std::string fills =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, \"end\" INT, deviceId INT, streamId "
      "INT, correlationId INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (2000, 2100, 0, 7, 6);";
  EXPECT_EQ(names(read(kNames + kKernels + fills), EventKind::kKernel),
            (Names{"Memset (Device)", "gemm"}));
}

TEST_F(NsightExport, HasLaunchesAndRanges) {
  const std::string more =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, \"end\" INT, globalTid INT, "
      "correlationId INT, nameId INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 3, 5, 2);"
      "CREATE TABLE NVTX_EVENTS (start INT, \"end\" INT, globalTid INT, text TEXT, textId INT);"
      "INSERT INTO NVTX_EVENTS VALUES (1, 2000, 3, 'by text', NULL), (2, 2000, 3, NULL, 3),"
      "(3, NULL, 3, 'a mark', NULL), (NULL, 9, 3, 'an end', NULL), (4, 2000, NULL, 'lost', NULL),"
      "(5, 2000, 3, NULL, NULL);";
  const ForeignTrace trace = read(kNames + kKernels + more);
  EXPECT_EQ(names(trace, EventKind::kRuntime), Names{"cudaLaunchKernel"});
  EXPECT_EQ(names(trace, EventKind::kAnnotation), (Names{"a range", "by text"}));
  for (const ForeignEvent& each : trace.events)
    if (each.kind == EventKind::kRuntime) {
      EXPECT_EQ(each.correlation, 5);
      EXPECT_EQ(each.length_ns, 50);
    }
}

TEST_F(NsightExport, HasTheFirstDeviceWithAName) {
  const std::string table = "CREATE TABLE TARGET_INFO_GPU (name TEXT);";
  EXPECT_EQ(read(kNames + kKernels + table).device, "");
  EXPECT_EQ(
      read(kNames + kKernels + table + "INSERT INTO TARGET_INFO_GPU VALUES (NULL), ('A'), ('B');")
          .device,
      "A");
  EXPECT_EQ(read(kNames + kKernels + "CREATE TABLE TARGET_INFO_GPU (id INT);").device, "");
}

}  // namespace
}  // namespace ridge::record
