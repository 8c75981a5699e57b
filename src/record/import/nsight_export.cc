// SPDX-License-Identifier: Apache-2.0
// Reads the tables of Nsight Systems' SQLite export, by the schema in its documentation (SQLite
// Export Schema Reference). Tables are there only if something was recorded.
#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include "files/sqlite_file.h"
#include "record/import/event_list.h"
#include "record/import/trace_file.h"

namespace ridge::record {
namespace {

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kRuntime = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kRanges = "NVTX_EVENTS";

// CUpti_ActivityMemcpyKind
constexpr std::array kCopies = {"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : file_(path), list_(file_.source(), "Nsight Systems") {}

  ForeignTrace read() {
    if (!file_.has_table(kKernels))
      throw file_error(
          "[{}] expected an export of Nsight Systems with kernels (a table {}), found "
          "none",
          file_.source(), kKernels);
    read_names();
    read_kernels();
    read_copies();
    if (file_.has_table(kRuntime)) read_launches();
    if (file_.has_table(kRanges)) read_ranges();
    read_device();
    return list_.take();
  }

 private:
  void read_names() {
    constexpr std::array kColumns = {"id", "value"};
    file_.read("StringIds", kColumns, [this](const files::SqliteRow& row) {
      names_[row.integer(0)] = list_.name(row.text(1));
    });
  }

  uint32_t name(int64_t id) const {
    const auto found = names_.find(id);
    if (found == names_.end())
      throw file_error("[{}] expected a name in StringIds for id {}, found none", file_.source(),
                       id);
    return found->second;
  }

  // The columns begin with start, end, deviceId, streamId and correlationId.
  void add_kernel(const files::SqliteRow& row, uint32_t name) {
    list_.add(EventKind::kKernel, name,
              fmt::format("device {} stream {}", row.integer(2), row.integer(3)),
              {row.integer(0), row.integer(1)}, row.integer(4));
  }

  void read_kernels() {
    constexpr std::array kColumns = {"start",    "end",           "deviceId",
                                     "streamId", "correlationId", "demangledName"};
    file_.read(kKernels, kColumns,
               [this](const files::SqliteRow& row) { add_kernel(row, name(row.integer(5))); });
  }

  void read_copies() {
    constexpr std::array kCopyColumns = {"start",    "end",           "deviceId",
                                         "streamId", "correlationId", "copyKind"};
    constexpr const char* kCopyTable = "CUPTI_ACTIVITY_KIND_MEMCPY";
    if (file_.has_table(kCopyTable))
      file_.read(kCopyTable, kCopyColumns, [this](const files::SqliteRow& row) {
        const int64_t kind = row.integer(5);
        const bool is_known = kind > 0 && kind < static_cast<int64_t>(kCopies.size());
        const std::string name =
            fmt::format("Memcpy {}", kCopies[is_known ? static_cast<size_t>(kind) : 0]);
        add_kernel(row, list_.name(name));
      });
    constexpr std::array kFillColumns = {"start", "end", "deviceId", "streamId", "correlationId"};
    constexpr const char* kFillTable = "CUPTI_ACTIVITY_KIND_MEMSET";
    if (file_.has_table(kFillTable))
      file_.read(kFillTable, kFillColumns, [this](const files::SqliteRow& row) {
        add_kernel(row, list_.name("Memset (Device)"));
      });
  }

  void read_launches() {
    constexpr std::array kColumns = {"start", "end", "globalTid", "correlationId", "nameId"};
    file_.read(kRuntime, kColumns, [this](const files::SqliteRow& row) {
      list_.add(EventKind::kRuntime, name(row.integer(4)), fmt::format("thread {}", row.integer(2)),
                {row.integer(0), row.integer(1)}, row.integer(3));
    });
  }

  // Ranges have an end, marks have none.
  void read_ranges() {
    constexpr std::array kColumns = {"start", "end", "globalTid", "text", "textId"};
    file_.read(kRanges, kColumns, [this](const files::SqliteRow& row) {
      if (row.is_null(0) || row.is_null(1) || row.is_null(2)) return;
      if (row.is_null(3) && row.is_null(4)) return;
      list_.add(EventKind::kAnnotation,
                row.is_null(3) ? name(row.integer(4)) : list_.name(row.text(3)),
                fmt::format("thread {}", row.integer(2)), {row.integer(0), row.integer(1)});
    });
  }

  void read_device() {
    constexpr std::array kColumns = {"name"};
    constexpr const char* kTable = "TARGET_INFO_GPU";
    if (!file_.has_table(kTable) || !file_.has_column(kTable, kColumns[0])) return;
    file_.read(kTable, kColumns, [this](const files::SqliteRow& row) {
      if (list_.trace().device.empty() && !row.is_null(0))
        list_.trace().device = std::string(row.text(0));
    });
  }

  files::SqliteFile file_;
  EventList list_;
  std::unordered_map<int64_t, uint32_t> names_;
};

}  // namespace

ForeignTrace read_nsight_export(const std::filesystem::path& path) { return Reader(path).read(); }

}  // namespace ridge::record
