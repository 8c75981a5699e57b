// SPDX-License-Identifier: Apache-2.0
// Turns each complete event ("ph": "X") of a known category into a ForeignEvent.
#include "record/import/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/json_stream.h"
#include "record/run_figures.h"

namespace ridge::record {
namespace {

using nlohmann::json;

constexpr double kMostMicroseconds = 4e15;     // as nanoseconds below 2^62
constexpr double kLongestMicroseconds = 1e12;  // eleven days
constexpr size_t kLongestName = 1000;
constexpr std::string_view kModulePrefix = "nn.Module: ";

struct Category {
  std::string_view name;
  EventKind kind;
};
constexpr Category kCategories[] = {
    {"cpu_op", EventKind::kOperation},
    {"user_annotation", EventKind::kAnnotation},
    {"python_function", EventKind::kModule},
    {"cuda_runtime", EventKind::kRuntime},
    {"cuda_driver", EventKind::kRuntime},
    {"xpu_runtime", EventKind::kRuntime},
    {"kernel", EventKind::kKernel},
    {"gpu_memcpy", EventKind::kKernel},
    {"gpu_memset", EventKind::kKernel},
    {"gpu_user_annotation", EventKind::kDeviceRange},
    // Before PyTorch 1.12.
    {"Operator", EventKind::kOperation},
    {"Runtime", EventKind::kRuntime},
    {"Kernel", EventKind::kKernel},
    {"Memcpy", EventKind::kKernel},
    {"Memset", EventKind::kKernel},
};

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string_view text_of(const json& object, const char* key) {
  const json* value = member(object, key);
  return value != nullptr && value->is_string()
             ? std::string_view(value->get_ref<const std::string&>())
             : std::string_view();
}

int64_t integer_of(const json& object, const char* key) {
  const json* value = member(object, key);
  if (value == nullptr || !value->is_number_integer()) return -1;
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) return -1;
  return value->get<int64_t>();
}

// The setting of a run of Ridge, if it wrote the trace.
std::optional<Setting> setting_of(const json& other) {
  const json* setting = member(other, "setting");
  if (setting == nullptr || !setting->is_object() ||
      !text_of(other, "program").starts_with("ridge "))
    return std::nullopt;
  Setting made;
  const auto see = [&](const Figure& figure, auto&& value, Unknown = Unknown::kWritten) {
    const std::string key(figure.key);
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::string>)
      value = text_of(*setting, key.c_str()).substr(0, kLongestName);
    else
      value = static_cast<std::remove_cvref_t<decltype(value)>>(
          std::clamp<int64_t>(integer_of(*setting, key.c_str()), 0, 1'000'000'000));
  };
  figures(see, made);
  return made;
}

class Reader {
 public:
  explicit Reader(files::BlockReader& reader) : reader_(reader) {
    trace_.source = reader.source();
    trace_.framework = "PyTorch";
  }

  ForeignTrace read() {
    const json others =
        files::stream_json(reader_, "traceEvents", [this](json& event) { add(event); });
    if (const json* devices = member(others, "deviceProperties");
        devices != nullptr && devices->is_array() && !devices->empty())
      read_device(devices->front());
    if (const json* ranks = member(others, "distributedInfo"); ranks != nullptr)
      trace_.rank = std::max<int64_t>(integer_of(*ranks, "rank"), 0);
    if (const json* other = member(others, "otherData"); other != nullptr) {
      trace_.setting = setting_of(*other);
      if (trace_.setting) trace_.framework = "Ridge";
    }
    if (trace_.events.empty())
      throw file_error(
          "[{}] expected a trace of torch.profiler, found no event of an operation or a kernel",
          trace_.source);
    return std::move(trace_);
  }

 private:
  void read_device(const json& device) {
    trace_.device = text_of(device, "name");
    trace_.multiprocessors = std::max<int64_t>(integer_of(device, "numSms"), 0);
    trace_.device_bytes = std::max<int64_t>(integer_of(device, "totalGlobalMem"), 0);
  }

  void add(const json& event) {
    if (!event.is_object()) throw fault("an event that is an object", event.type_name());
    const std::string_view name = text_of(event, "name");
    if (name == "[memory]") return add_memory(event);
    if (text_of(event, "ph") != "X") return;
    const std::string_view category = text_of(event, "cat");
    const auto* found = std::ranges::find(kCategories, category, &Category::name);
    if (found == std::end(kCategories)) return;
    if (found->kind == EventKind::kModule && !name.starts_with(kModulePrefix)) return;
    static const json kNoArguments = json::object();
    const json* args = member(event, "args");
    if (args == nullptr || !args->is_object()) args = &kNoArguments;
    add(event, found->kind, name, *args);
  }

  void add(const json& source, EventKind kind, std::string_view name, const json& args) {
    ForeignEvent event;
    event.kind = kind;
    if (kind == EventKind::kModule) name.remove_prefix(kModulePrefix.size());
    event.name = trace_.names.number(name.substr(0, kLongestName));
    event.begin_ns = nanoseconds(source, "ts", -kMostMicroseconds, kMostMicroseconds);
    event.length_ns = nanoseconds(source, "dur", 0, kLongestMicroseconds);
    if (__builtin_add_overflow(length_ns_, event.length_ns, &length_ns_))
      throw fault("times that add up to less than 2^63 ns", "more");
    event.track = track(source);
    event.external = integer_of(args, "External id");
    if (event.external < 0) event.external = integer_of(args, "external id");
    event.correlation = integer_of(args, "correlation");
    event.sequence = integer_of(args, "Sequence number");
    if (kind == EventKind::kKernel) {
      event.sequence = integer_of(args, "graph node id");
      event.call = add_own_kernel(args);
    }
    event.is_backward = integer_of(args, "Fwd thread id") > 0;
    if (kind == EventKind::kOperation) event.call = add_call(name, args);
    if (kind == EventKind::kKernel && name.find("tf32") != std::string_view::npos)
      trace_.uses_tf32 = true;
    trace_.events.push_back(event);
  }

  // The counts of a kernel that Ridge itself wrote.
  int32_t add_own_kernel(const json& args) {
    const std::string_view op = text_of(args, "op");
    if (op.empty() || integer_of(args, "macs") < 0) return -1;
    constexpr int64_t kMost = int64_t{1} << 60;
    auto amount = [&](const char* key) {
      return std::clamp<int64_t>(integer_of(args, key), 0, kMost);
    };
    RecordedCounts counts;
    counts.op = trace_.names.number(op.substr(0, kLongestName));
    counts.scope = trace_.names.number(text_of(args, "scope").substr(0, kLongestName));
    counts.output = trace_.names.number(text_of(args, "shape").substr(0, kLongestName));
    const std::string_view phase = text_of(args, "phase");
    for (const Phase each : {Phase::kBackward, Phase::kOptimizer})
      if (phase == name(each)) counts.phase = each;
    counts.work = {amount("macs"), amount("flops"), amount("transcendentals")};
    counts.model_macs = counts.work.macs;
    counts.read_bytes = amount("read_bytes");
    counts.written_bytes = amount("written_bytes");
    counts.are_known = true;
    trace_.calls.push_back(counts);
    return static_cast<int32_t>(trace_.calls.size() - 1);
  }

  int32_t add_call(std::string_view name, const json& args) {
    const TorchOperation& operation = row(name);
    const RecordedCall call = recorded_call(args);
    if (call.operands.empty()) return -1;
    note_batch(name, call);
    if (operation.role == Role::kView) return -1;
    RecordedCounts recorded;
    recorded.inputs = trace_.names.number(call.text());
    if (call.tensor(0) != nullptr) recorded.elements = call.operands[0].elements();
    std::optional<Counts> counts;
    if (operation.count != nullptr) counts = operation.count(call, operation.arithmetic);
    if (counts) {
      recorded.work = counts->work;
      recorded.model_macs = counts->model_macs;
      recorded.read_bytes = counts->read_bytes;
      recorded.written_bytes = counts->written_bytes;
      recorded.output_type = counts->output_type;
      recorded.output = trace_.names.number(type_text(counts->output_type, counts->output));
      recorded.macs_per_pair = counts->macs_per_pair;
      recorded.bytes_per_key = counts->bytes_per_key;
      recorded.are_known = counts->macs_per_pair == 0;
    }
    trace_.calls.push_back(recorded);
    return static_cast<int32_t>(trace_.calls.size() - 1);
  }

  // Token ids are the matrix by which rows of the largest table are looked up, or the first matrix
  // of integers that compiled code takes.
  void note_batch(std::string_view name, const RecordedCall& call) {
    if (name == "aten::embedding") {
      const Operand *table = call.tensor(0), *ids = call.tensor(1);
      if (table == nullptr || ids == nullptr || table->extents().size() != 2 ||
          ids->extents().size() != 2 || table->extents()[0] <= most_rows_)
        return;
      most_rows_ = table->extents()[0];
      note_ids(*ids);
    } else if (name == "CompiledFunction" && trace_.batch_size == 0) {
      for (const Operand& operand : call.operands)
        if (operand.is_tensor() && operand.dtype == DType::kI64 && operand.extents().size() == 2)
          return note_ids(operand);
    }
  }

  void note_ids(const Operand& ids) {
    trace_.batch_size = ids.extents()[0];
    trace_.sequence = ids.extents()[1];
  }

  void add_memory(const json& event) {
    const json* args = member(event, "args");
    if (args == nullptr) return;
    int64_t& peak =
        integer_of(*args, "Device Type") == 0 ? trace_.peak_host_bytes : trace_.peak_device_bytes;
    peak = std::max(peak, integer_of(*args, "Total Allocated"));
  }

  const TorchOperation& row(std::string_view name) {
    const uint32_t number = trace_.names.number(name.substr(0, kLongestName));
    if (rows_.size() <= number) rows_.resize(number + 1, nullptr);
    if (rows_[number] == nullptr) rows_[number] = &torch_operation(name);
    return *rows_[number];
  }

  uint32_t track(const json& event) {
    auto part = [&](const char* key) {
      const json* value = member(event, key);
      return value == nullptr ? std::string()
                              : value->dump(-1, ' ', false, json::error_handler_t::replace);
    };
    const std::string key = part("pid") + "\n" + part("tid");
    return tracks_.number(key);
  }

  int64_t nanoseconds(const json& event, const char* key, double least, double most) const {
    const json* value = member(event, key);
    if (value == nullptr || !value->is_number())
      throw fault(fmt::format("a number {} in each event", printable(key)),
                  value == nullptr ? "none" : value->type_name());
    const double number = value->get<double>();
    if (!(number >= least && number <= most))
      throw fault(fmt::format("{} from {:g} to {:g} microseconds", printable(key), least, most),
                  fmt::format("{:g}", number));
    return static_cast<int64_t>(std::llround(number * 1000));
  }

  Error fault(const std::string& expected, const std::string& found) const {
    return file_error("[{}] expected {}, found {}, before byte {}", trace_.source, expected, found,
                      reader_.position());
  }

  files::BlockReader& reader_;
  ForeignTrace trace_;
  NameTable tracks_;
  int64_t length_ns_ = 0;  // the sum over all events
  int64_t most_rows_ = 0;  // the largest table that embeddings look up has so many
  std::vector<const TorchOperation*> rows_;  // by the number of the name
};

}  // namespace

ForeignTrace read_torch_trace(files::BlockReader& reader) { return Reader(reader).read(); }

}  // namespace ridge::record
