// SPDX-License-Identifier: Apache-2.0
// Reads the database that rocprofv3 writes by default (rocpd, versions 3 and 4), and that of older
// versions of rocprof. Each run's tables have a suffix of their own, by which they belong together.
#include <fmt/format.h>

#include <array>
#include <string>
#include <unordered_map>

#include "base/demangled.h"
#include "files/sqlite_file.h"
#include "record/import/event_list.h"
#include "record/import/trace_file.h"

namespace ridge::record {
namespace {

constexpr const char *kDispatches = "rocpd_kernel_dispatch", *kSymbols = "rocpd_info_kernel_symbol",
                     *kCopies = "rocpd_memory_copy", *kAgents = "rocpd_info_agent",
                     *kTracks = "rocpd_track", *kTimes = "rocpd_timestamp";
constexpr const char* kOldKernels = "KERN";  // rocprof had it before version 3

using Numbers = std::unordered_map<int64_t, int64_t>;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : file_(path), list_(file_.source(), "rocprofv3") {}

  ForeignTrace read() {
    for (const std::string& table : file_.tables(kDispatches)) {
      const std::string suffix = table.substr(std::string_view(kDispatches).size());
      read_run(table, suffix);
      if (file_.has_table(kAgents + suffix)) read_device(kAgents + suffix);
    }
    return list_.take();
  }

  // The one table that rocprof wrote before version 3.
  ForeignTrace read_old() {
    constexpr std::array kColumns = {"KernelName", "BeginNs", "EndNs", "gpu-id", "queue-id"};
    list_.trace().framework = "rocprof";
    file_.read(kOldKernels, kColumns, [this](const files::SqliteRow& row) {
      list_.add(EventKind::kKernel, list_.name(demangled(row.text(0))),
                fmt::format("agent {} queue {}", row.integer(3), row.integer(4)),
                {row.integer(1), row.integer(2)});
    });
    return list_.take();
  }

 private:
  void read_run(const std::string& table, const std::string& suffix) {
    std::unordered_map<int64_t, uint32_t> names;
    constexpr std::array kNames = {"id", "display_name", "kernel_name"};
    file_.read(kSymbols + suffix, kNames, [&](const files::SqliteRow& row) {
      names[row.integer(0)] = list_.name(demangled(row.text(row.is_null(1) ? 2 : 1)));
    });
    const Numbers times = read_times(suffix);
    const std::string& copies = kCopies + suffix;
    read_spans(table, times, "kernel_id", [&](const files::SqliteRow& row) {
      const auto name = names.find(row.integer(3));
      if (name == names.end())
        throw file_error("[{}] expected a kernel of the id {} in {}, found none", file_.source(),
                         row.integer(3), kSymbols + suffix);
      return name->second;
    });
    if (file_.has_table(copies))
      read_spans(copies, times, "id",
                 [&](const files::SqliteRow&) { return list_.name("Memcpy"); });
  }

  // Version 4.0 keeps all times in a table of their own.
  Numbers read_times(const std::string& suffix) {
    Numbers times;
    constexpr std::array kColumns = {"id", "value"};
    if (file_.has_table(kTimes + suffix))
      file_.read(kTimes + suffix, kColumns,
                 [&](const files::SqliteRow& row) { times[row.integer(0)] = row.integer(1); });
    return times;
  }

  // Spans of a table that has their begin and end, or the ids of these among the times. Since
  // version 4 the agent and the queue are those of a track.
  template <typename NameOf>
  void read_spans(const std::string& table,
                  const Numbers& times,
                  const char* id,
                  const NameOf& name_of) {
    const bool has_ids = !file_.has_column(table, "start");
    const bool has_track = file_.has_column(table, "track_id");
    const char* queue = has_track                             ? "track_id"
                        : file_.has_column(table, "queue_id") ? "queue_id"
                                                              : id;
    const std::array columns = {has_ids ? "start_id" : "start", has_ids ? "end_id" : "end", queue,
                                id};
    file_.read(table, columns, [&](const files::SqliteRow& row) {
      list_.add(EventKind::kKernel, name_of(row),
                fmt::format("{} {}", has_track ? kTracks : "queue",
                            row.is_null(2) || queue == id ? 0 : row.integer(2)),
                {time(row, 0, has_ids, times), time(row, 1, has_ids, times)});
    });
  }

  int64_t time(const files::SqliteRow& row, int column, bool is_id, const Numbers& times) const {
    if (!is_id) return row.integer(column);
    const auto found = times.find(row.integer(column));
    if (found == times.end())
      throw file_error("[{}] expected a time of the id {} in {}, found none", file_.source(),
                       row.integer(column), kTimes);
    return found->second;
  }

  void read_device(const std::string& table) {
    constexpr std::array kColumns = {"type", "product_name"};
    file_.read(table, kColumns, [this](const files::SqliteRow& row) {
      if (list_.trace().device.empty() && row.text(0) == "GPU" && !row.is_null(1))
        list_.trace().device = std::string(row.text(1));
    });
  }

  files::SqliteFile file_;
  EventList list_;
};

}  // namespace

ForeignTrace read_rocprof_database(const std::filesystem::path& path) {
  return Reader(path).read();
}

ForeignTrace read_database(const std::filesystem::path& path) {
  const files::SqliteFile file(path);
  if (!file.tables(kDispatches).empty()) return read_rocprof_database(path);
  return file.has_table(kOldKernels) ? Reader(path).read_old() : read_nsight_export(path);
}

}  // namespace ridge::record
