// SPDX-License-Identifier: Apache-2.0
// Reads the database that rocprofv3 writes by default (rocpd). Each run's tables have a suffix of
// their own, by which they belong together.
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
                     *kCopies = "rocpd_memory_copy", *kAgents = "rocpd_info_agent";

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : file_(path), list_(file_.source(), "rocprofv3") {}

  ForeignTrace read() {
    for (const std::string& table : file_.tables(kDispatches)) {
      const std::string suffix = table.substr(std::string_view(kDispatches).size());
      read_kernels(table, kSymbols + suffix);
      if (file_.has_table(kCopies + suffix)) read_copies(kCopies + suffix);
      if (file_.has_table(kAgents + suffix)) read_device(kAgents + suffix);
    }
    return list_.take();
  }

 private:
  void read_kernels(const std::string& table, const std::string& symbols) {
    std::unordered_map<int64_t, uint32_t> names;
    constexpr std::array kNames = {"id", "display_name", "kernel_name"};
    file_.read(symbols, kNames, [&](const files::SqliteRow& row) {
      names[row.integer(0)] = list_.name(demangled(row.text(row.is_null(1) ? 2 : 1)));
    });
    constexpr std::array kColumns = {"start", "end", "agent_id", "queue_id", "kernel_id"};
    file_.read(table, kColumns, [&](const files::SqliteRow& row) {
      const auto name = names.find(row.integer(4));
      if (name == names.end())
        throw file_error("[{}] expected a kernel of the id {} in {}, found none", file_.source(),
                         row.integer(4), symbols);
      const int64_t queue = row.is_null(3) ? 0 : row.integer(3);
      list_.add(EventKind::kKernel, name->second,
                fmt::format("agent {} queue {}", row.integer(2), queue),
                {row.integer(0), row.integer(1)});
    });
  }

  void read_copies(const std::string& table) {
    constexpr std::array kColumns = {"start", "end"};
    file_.read(table, kColumns, [this](const files::SqliteRow& row) {
      list_.add(EventKind::kKernel, list_.name("Memcpy"), "copies",
                {row.integer(0), row.integer(1)});
    });
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
  return files::SqliteFile(path).tables(kDispatches).empty() ? read_nsight_export(path)
                                                             : read_rocprof_database(path);
}

}  // namespace ridge::record
