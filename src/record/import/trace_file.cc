// SPDX-License-Identifier: Apache-2.0
// Looks at the first bytes and calls a reader.
#include "record/import/trace_file.h"

#include <string>
#include <string_view>

#include "base/error.h"
#include "files/block_reader.h"

namespace ridge::record {
namespace {

std::string first_bytes(files::BlockReader reader) {
  constexpr size_t kMost = 4096;
  std::string text;
  for (; !reader.at_end() && text.size() < kMost; reader.advance()) text += reader.current();
  return text;
}

// Perfetto's protocol buffers are messages of field 1, whose key is a line break; unlike text they
// have zeros.
bool is_perfetto(const std::filesystem::path& path, std::string_view first) {
  for (const char* ending : {".pftrace", ".perfetto-trace"})
    if (path.extension() == ending) return true;
  return first.starts_with('\n') && first.find('\0') != std::string_view::npos;
}

}  // namespace

ForeignTrace read_trace(const std::filesystem::path& path) {
  const std::string first = first_bytes(files::BlockReader(path));
  // Reports of Nsight Systems are in a format of its own, which only it reads.
  if (path.extension() == ".nsys-rep" || path.extension() == ".qdrep")
    throw file_error(
        "[trace] {} is a report that only Nsight Systems reads; this makes a file for Ridge: nsys "
        "export --type sqlite --output {} {}",
        path.string(), std::filesystem::path(path).replace_extension(".sqlite").string(),
        path.string());
  if (is_perfetto(path, first))
    throw file_error(
        "[{}] is a trace in Perfetto's own format; rocprofv3 writes one for Ridge with "
        "--output-format json, csv or rocpd",
        path.string());
  if (first.starts_with("SQLite format 3")) return read_database(path);
  files::BlockReader reader(path);
  const size_t text = first.find_first_not_of(" \t\r\n");
  const bool is_json = text == std::string::npos || first[text] == '{' || first[text] == '[';
  if (is_json)
    return first.find("\"rocprofiler-sdk-tool\"") != std::string::npos ? read_rocprof_json(reader)
                                                                       : read_torch_trace(reader);
  return first.substr(0, first.find('\n')).find(',') != std::string::npos
             ? read_rocprof_csv(reader)
             : read_torch_trace(reader);
}

}  // namespace ridge::record
