// SPDX-License-Identifier: Apache-2.0
// Turns each complete event ("ph": "X") of a known category into a ForeignEvent.
#include "record/import/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/demangled.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/json_stream.h"
#include "record/import/expert_counts.h"
#include "record/import/library_counts.h"
#include "record/import/torch_calls.h"
#include "record/import/torch_event.h"
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
    {"xpu_driver", EventKind::kRuntime},
    {"mtia_runtime", EventKind::kRuntime},
    {"privateuse1_runtime", EventKind::kRuntime},
    {"privateuse1_driver", EventKind::kRuntime},
    {"mtia_ccp_events", EventKind::kKernel},
    {"hpu_op", EventKind::kKernel},
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
    TorchEventParts parts([this](const TorchEvent& event) { add(event); });
    const json others = files::stream_json_parts(reader_, "traceEvents", parts);
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
    trace_.is_of_kernels = std::ranges::none_of(trace_.events, [](const ForeignEvent& each) {
      return each.kind == EventKind::kOperation || each.call >= 0;
    });
    count_experts(trace_);
    count_gradients(trace_);
    return std::move(trace_);
  }

 private:
  void read_device(const json& device) {
    trace_.device = text_of(device, "name");
    trace_.multiprocessors = std::max<int64_t>(integer_of(device, "numSms"), 0);
    trace_.device_bytes = std::max<int64_t>(integer_of(device, "totalGlobalMem"), 0);
  }

  void add(const TorchEvent& event) {
    if (!event.is_object) throw fault("an event that is an object", event.type);
    const std::string_view name = event.text(EventText::kName);
    if (name == "[memory]") return add_memory(event);
    if (event.text(EventText::kKind) != "X") return;
    const std::string_view category = event.text(EventText::kCategory);
    const auto* found = std::ranges::find(kCategories, category, &Category::name);
    if (found == std::end(kCategories)) return;
    if (found->kind == EventKind::kModule && !name.starts_with(kModulePrefix)) return;
    // Before PyTorch 1.9, annotations are operations.
    const bool is_annotation = found->kind == EventKind::kOperation &&
                               (name.starts_with("ProfilerStep") || name.starts_with("Optimizer."));
    add(event, is_annotation ? EventKind::kAnnotation : found->kind, name);
  }

  void add(const TorchEvent& source, EventKind kind, std::string_view name) {
    ForeignEvent event;
    event.kind = kind;
    if (kind == EventKind::kModule) name.remove_prefix(kModulePrefix.size());
    event.name = kind == EventKind::kKernel ? kernel_name(name)
                                            : trace_.names.number(name.substr(0, kLongestName));
    event.begin_ns = nanoseconds(source.begin, "ts", -kMostMicroseconds, kMostMicroseconds);
    event.length_ns = nanoseconds(source.length, "dur", 0, kLongestMicroseconds);
    if (__builtin_add_overflow(length_ns_, event.length_ns, &length_ns_))
      throw fault("times that add up to less than 2^63 ns", "more");
    event.track = track(source);
    event.external = source.number(EventNumber::kExternal);
    if (event.external < 0) event.external = source.number(EventNumber::kOldExternal);
    event.correlation = source.number(EventNumber::kCorrelation);
    event.sequence = source.number(EventNumber::kSequence);
    event.is_backward = source.number(EventNumber::kForwardThread) > 0;
    if (kind == EventKind::kOperation) event.call = calls_.call(event.name, source.call);
    if (kind == EventKind::kKernel) {
      event.sequence = source.number(EventNumber::kGraphNode);
      event.call = add_own_kernel(source);
      if (name.find("tf32") != std::string_view::npos) trace_.uses_tf32 = true;
    }
    trace_.events.push_back(event);
  }

  uint32_t kernel_name(std::string_view name) {
    if (!name.starts_with("_Z")) return trace_.names.number(name.substr(0, kLongestName));
    constexpr size_t kLongestMangled = 4096;
    const auto [shown, is_new] =
        kernel_names_.try_emplace(std::string(name.substr(0, kLongestMangled)), 0);
    if (is_new)
      shown->second = trace_.names.number(demangled(shown->first).substr(0, kLongestName));
    return shown->second;
  }

  // The counts of a kernel that Ridge itself wrote.
  int32_t add_own_kernel(const TorchEvent& event) {
    const std::string_view op = event.text(EventText::kOp);
    if (op.empty() || event.number(EventNumber::kMacs) < 0) return -1;
    constexpr int64_t kMost = int64_t{1} << 60;
    auto amount = [&](EventNumber which) {
      return std::clamp<int64_t>(event.number(which), 0, kMost);
    };
    auto name = [&](EventText which) {
      return trace_.names.number(std::string_view(event.text(which)).substr(0, kLongestName));
    };
    RecordedCounts counts;
    counts.op = name(EventText::kOp);
    counts.scope = name(EventText::kScope);
    counts.output = name(EventText::kShape);
    for (const Phase each : {Phase::kBackward, Phase::kOptimizer})
      if (event.text(EventText::kPhase) == ridge::name(each)) counts.phase = each;
    counts.work = {amount(EventNumber::kMacs), amount(EventNumber::kFlops),
                   amount(EventNumber::kTranscendentals)};
    counts.model_macs = counts.work.macs;
    counts.read_bytes = amount(EventNumber::kReadBytes);
    counts.written_bytes = amount(EventNumber::kWrittenBytes);
    counts.are_known = true;
    trace_.calls.push_back(counts);
    return static_cast<int32_t>(trace_.calls.size() - 1);
  }

  void add_memory(const TorchEvent& event) {
    int64_t& peak = event.number(EventNumber::kDeviceType) == 0 ? trace_.peak_host_bytes
                                                                : trace_.peak_device_bytes;
    peak = std::max(peak, event.number(EventNumber::kAllocated));
  }

  uint32_t track(const TorchEvent& event) {
    track_ = event.process;
    track_ += '\n';
    track_ += event.thread;
    return tracks_.number(track_);
  }

  int64_t nanoseconds(const EventTime& time, const char* key, double least, double most) const {
    if (time.other != nullptr)
      throw fault(fmt::format("a number {} in each event", printable(key)), time.other);
    if (!(time.us >= least && time.us <= most))
      throw fault(fmt::format("{} from {:g} to {:g} microseconds", printable(key), least, most),
                  fmt::format("{:g}", time.us));
    return static_cast<int64_t>(std::llround(time.us * 1000));
  }

  Error fault(const std::string& expected, const std::string& found) const {
    return file_error("[{}] expected {}, found {}, before byte {}", trace_.source, expected, found,
                      reader_.position());
  }

  files::BlockReader& reader_;
  ForeignTrace trace_;
  NameTable tracks_;
  int64_t length_ns_ = 0;  // the sum over all events
  TorchCalls calls_{trace_};
  std::unordered_map<std::string, uint32_t> kernel_names_;  // by the mangled name
  std::string call_key_, track_;                            // used again
};

}  // namespace

ForeignTrace read_torch_trace(files::BlockReader& reader) { return Reader(reader).read(); }

}  // namespace ridge::record
