// SPDX-License-Identifier: Apache-2.0
// Reads rocprofv3's JSON, whose kernels refer to a list of symbols, and its CSV, whose rows hold
// their names (RFC 4180). Both as in the documentation of ROCprofiler-SDK.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "base/demangled.h"
#include "base/printable.h"
#include "files/json_field.h"
#include "files/json_stream.h"
#include "record/import/event_list.h"
#include "record/import/trace_file.h"

namespace ridge::record {
namespace {

using files::JsonField;
using nlohmann::json;

constexpr const char* kTool = "rocprofiler-sdk-tool";
constexpr const char* kFramework = "rocprofv3";

class JsonReader {
 public:
  explicit JsonReader(files::BlockReader& reader)
      : reader_(reader), list_(reader.source(), kFramework) {}

  ForeignTrace read() {
    // One element is a whole process.
    const files::JsonStreamLimits limits{
        .element = {.max_depth = 32, .max_values = int64_t{1} << 24},
        .max_element_bytes = int64_t{256} << 20,
        .max_elements = 1000};
    const json others = files::stream_json(
        reader_, kTool, [this](json& process) { add(process); }, limits);
    if (const auto one = others.find(kTool); one != others.end()) add(*one);
    return list_.take();
  }

 private:
  void add(const json& process) {
    const JsonField root(process, reader_.source());
    std::unordered_map<int64_t, uint32_t> names;
    for (const JsonField& symbol : root.at("kernel_symbols").items())
      names[symbol.at("kernel_id").integer()] = symbol_name(symbol);
    if (list_.trace().device.empty() && root.has("agents")) read_device(root.at("agents"));
    const JsonField records = root.at("buffer_records");
    for (const JsonField& each : records.at("kernel_dispatch").items()) {
      const JsonField info = each.at("dispatch_info");
      const JsonField id = info.at("kernel_id");
      const auto found = names.find(id.integer());
      if (found == names.end()) throw id.fault("the kernel_id of one of the kernel_symbols");
      add(each, found->second,
          fmt::format("queue {} {}", info.at("agent_id").at("handle").integer(),
                      info.at("queue_id").at("handle").integer()));
    }
    if (!records.has("memory_copy")) return;
    for (const JsonField& each : records.at("memory_copy").items())
      add(each, list_.name("Memcpy"), "copies");
  }

  void add(const JsonField& record, uint32_t name, const std::string& track) {
    list_.add(EventKind::kKernel, name, track,
              {record.at("start_timestamp").integer(), record.at("end_timestamp").integer()},
              record.at("correlation_id").at("internal").integer());
  }

  uint32_t symbol_name(const JsonField& symbol) {
    for (const char* key : {"formatted_kernel_name", "demangled_kernel_name", "kernel_name"})
      if (symbol.has(key)) return list_.name(demangled(symbol.at(key).text()));
    throw symbol.fault("a kernel_name");
  }

  // The first GPU; its type is 2.
  void read_device(const JsonField& agents) {
    for (const JsonField& agent : agents.items())
      if (agent.has("type") && agent.has("product_name") && agent.at("type").integer() == 2) {
        list_.trace().device = agent.at("product_name").text();
        return;
      }
  }

  files::BlockReader& reader_;
  EventList list_;
};

// Records of a CSV text, one at a time.
class CsvReader {
 public:
  explicit CsvReader(files::BlockReader& reader) : reader_(reader) {}

  // False at the end. Skips empty lines.
  bool next(std::vector<std::string>& fields) {
    constexpr int64_t kLongestRecord = 1 << 20;
    reader_.limit_item(kLongestRecord);
    while (!reader_.at_end() && (reader_.current() == '\n' || reader_.current() == '\r'))
      reader_.advance();
    if (reader_.at_end()) return false;
    fields.clear();
    bool is_last = false;
    while (!is_last) {
      if (fields.size() == kMostFields)
        throw file_error("[{}] expected at most {} fields in a row, before byte {}",
                         reader_.source(), kMostFields, reader_.position());
      fields.emplace_back();
      is_last = read_field(fields.back());
    }
    return true;
  }

 private:
  static constexpr size_t kMostFields = 500;

  // Whether the field is the last of its record.
  bool read_field(std::string& field) {
    bool is_quoted = false;
    for (; !reader_.at_end(); reader_.advance()) {
      const char c = reader_.current();
      if (c == '"') {
        is_quoted = !is_quoted;
        if (is_quoted && !field.empty()) field += c;  // two in a row, or one within a text
      } else if (!is_quoted && (c == ',' || c == '\n')) {
        reader_.advance();
        return c == '\n';
      } else if (is_quoted || c != '\r') {
        field += c;
      }
    }
    if (is_quoted)
      throw file_error("[{}] expected a closing quote, found the end of the file",
                       reader_.source());
    return true;
  }

  files::BlockReader& reader_;
};

// The columns that a kind of table has for the same things. An end may be a length.
struct CsvColumns {
  const char *framework, *name, *begin, *end, *length, *correlation;
  std::array<const char*, 2> track;
};
constexpr CsvColumns kCsvTables[] = {
    {kFramework,
     "Kernel_Name",
     "Start_Timestamp",
     "End_Timestamp",
     nullptr,
     "Correlation_Id",
     {"Agent_Id", "Queue_Id"}},
    {"rocprof", "KernelName", "BeginNs", "EndNs", nullptr, nullptr, {"gpu-id", "queue-id"}},
    {"Nsight Systems",
     "Name",
     "Start (ns)",
     nullptr,
     "Duration (ns)",
     "CorrId",
     {"Device", "Strm"}},
};

class CsvTrace {
 public:
  explicit CsvTrace(files::BlockReader& reader) : reader_(reader), csv_(reader) {}

  ForeignTrace read() {
    std::vector<std::string> fields;
    if (!csv_.next(fields)) throw file_error("[{}] expected rows, found none", reader_.source());
    for (size_t i = 0; i < fields.size(); ++i) columns_[fields[i]] = i;
    choose_columns();
    EventList list(reader_.source(), is_->framework);
    while (csv_.next(fields)) {
      if (fields.size() != columns_.size())
        throw file_error("[{}] expected {} fields in each row, found {} before byte {}",
                         reader_.source(), columns_.size(), fields.size(), reader_.position());
      add(fields, list);
    }
    return list.take();
  }

 private:
  bool has(const char* column) const { return column != nullptr && columns_.contains(column); }

  void choose_columns() {
    for (const CsvColumns& each : kCsvTables)
      if (has(each.name) && has(each.begin) && (has(each.end) || has(each.length))) {
        is_ = &each;
        return;
      }
    const CsvColumns& first = kCsvTables[0];
    for (const char* column : {first.name, first.begin, first.end})
      if (!has(column))
        throw file_error(
            "[{}] expected the columns {}, {} and {} of rocprofv3's kernel trace, found no {}",
            reader_.source(), first.name, first.begin, first.end, column);
  }

  void add(const std::vector<std::string>& fields, EventList& list) {
    constexpr size_t kMostRows = size_t{1} << 25;
    if (list.trace().events.size() >= kMostRows)
      throw file_error("[{}] expected at most {} rows", reader_.source(), kMostRows);
    const std::string& name = fields[columns_.at(is_->name)];
    EventTimes at{integer(fields, is_->begin), 0};
    if (has(is_->end))
      at.end_ns = integer(fields, is_->end);
    else if (__builtin_add_overflow(at.begin_ns, integer(fields, is_->length), &at.end_ns))
      throw file_error("[{}] expected times below 2^63 ns, before byte {}", reader_.source(),
                       reader_.position());
    list.add(EventKind::kKernel, list.name(demangled(name)),
             text(fields, is_->track[0]) + " " + text(fields, is_->track[1]), at,
             has(is_->correlation) ? integer(fields, is_->correlation) : -1);
  }

  std::string text(const std::vector<std::string>& fields, const char* column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? "" : fields[found->second];
  }

  int64_t integer(const std::vector<std::string>& fields, const char* column) const {
    const std::string& field = fields[columns_.at(column)];
    int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size())
      throw file_error("[{}] expected a whole number in each row's {}, found {} before byte {}",
                       reader_.source(), column, printable(field), reader_.position());
    return value;
  }

  files::BlockReader& reader_;
  CsvReader csv_;
  const CsvColumns* is_ = nullptr;
  std::map<std::string, size_t> columns_;
};

}  // namespace

ForeignTrace read_rocprof_json(files::BlockReader& reader) { return JsonReader(reader).read(); }

ForeignTrace read_rocprof_csv(files::BlockReader& reader) { return CsvTrace(reader).read(); }

}  // namespace ridge::record
