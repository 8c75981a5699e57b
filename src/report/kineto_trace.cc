// SPDX-License-Identifier: Apache-2.0
// Places a run's slices on tracks.
#include "report/kineto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/units.h"
#include "ops/registry.h"
#include "report/json_text.h"
#include "report/trace_events.h"
#include "report/trace_layout.h"

namespace ridge::report {
namespace {

// Streams are threads of the device.
constexpr int kScopes = 1, kPhases = 2;

// Where a run stands in a trace. A run alone is two processes, a rank of several is one.
struct Place {
  int64_t rank = 0, ranks = 1;
  int64_t begin_ns = 0;

  bool is_alone() const { return ranks == 1; }
  int device() const { return static_cast<int>(rank); }
  Track host() const { return is_alone() ? Track{1, 1} : Track{device(), 0}; }
  int64_t launches_before() const { return rank << 24; }
};

// The operands "f32[8,16], f32[16,32]" as the profiler of PyTorch lists them.
void add_operands(const std::string& inputs, Json& args) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"f32", "float"}, {"bf16", "c10::BFloat16"}, {"f16", "c10::Half"}, {"i32", "int"}};
  Json shapes = Json::array(), types = Json::array();
  for (size_t at = 0; at < inputs.size();) {
    const size_t open = std::min(inputs.find('[', at), inputs.size());
    const size_t close = std::min(inputs.find(']', open), inputs.size());
    const std::string type = inputs.substr(at, open - at);
    auto known = kNames.find(type);
    types.push_back(known == kNames.end() ? type : known->second);
    const Json shape =
        Json::parse(inputs.substr(open, close + 1 - open), nullptr, /*allow_exceptions=*/false);
    shapes.push_back(shape.is_array() ? shape : Json::array());
    at = close + std::string_view("], ").size();
  }
  args["Input Dims"] = std::move(shapes);
  args["Input type"] = std::move(types);
}

void add_launch_geometry(const record::DeviceKernel& kernel, Json& args) {
  if (kernel.kind != record::DeviceKernel::Kind::kCompute) {
    args["bytes"] = kernel.copied_bytes;
    return;
  }
  if (kernel.block[0] == 0) return;  // a CPU's kernel has a name alone
  args["grid"] = kernel.grid;
  args["block"] = kernel.block;
  args["registers per thread"] = kernel.registers;
  args["shared memory"] = kernel.static_shared_bytes + kernel.dynamic_shared_bytes;
  args["est. achieved occupancy %"] = std::lround(100 * kernel.occupancy);
}

bool is_exchange(const record::NodeRecord& node) {
  const Op* op = ops::table().find(node.op);
  return op != nullptr && op->category == OpCategory::kCollective;
}

const char* category(const record::DeviceKernel* kernel) {
  using enum record::DeviceKernel::Kind;
  if (kernel == nullptr || kernel->kind == kCompute) return "kernel";
  return kernel->kind == kMemset ? "gpu_memset" : "gpu_memcpy";
}

class RunWriter {
 public:
  RunWriter(const record::RunRecord& run,
            const Place& place,
            TraceReader reader,
            TraceEvents& events)
      : run_(run),
        place_(place),
        reader_(reader),
        events_(events),
        layout_(lay_out(run, place.launches_before(), place.begin_ns)) {
    for (const record::MemoryPoint& point : run.memory.timeline)
      memory_[{point.graph, point.node}] = &point.live;
    for (const KernelSlice& each : layout_.kernels) ++slices_[place_of(each)].count;
  }

  void write() {
    if (layout_.step.end_ns == 0) return;
    write_names();
    events_.slice("user_annotation", fmt::format("ProfilerStep#{}", run_.step.timeline_step),
                  place_.host(), layout_.step, {{"External id", 0}});
    auto host = layout_.host.begin();
    for (const KernelSlice& kernel : layout_.kernels) {
      for (; host != layout_.host.end() && host->at.begin_ns <= kernel.at.begin_ns; ++host)
        write_host(*host);
      write_kernel(kernel);
    }
    for (; host != layout_.host.end(); ++host) write_host(*host);
    close(kScopes, scope_);
    close(kPhases, phase_);
  }

 private:
  // How many slices the kernels of a node have, and how many are written.
  struct NodeSlices {
    int64_t count = 0, written = 0;
  };
  // A slice that grows while the next kernel continues it.
  struct OpenSlice {
    std::string name;
    Slice at;
  };

  void write_names() {
    const bool on_gpu = run_.setting.device == "cuda";
    const int device = place_.device();
    const Track host = place_.host();
    events_.process(host.pid, fmt::format("rank {}: {}", place_.rank, run_.setting.str()),
                    place_.is_alone() || !on_gpu ? "CPU" : "GPU", static_cast<int>(place_.rank));
    events_.thread(host.pid, host.tid, "host");
    if (place_.is_alone())
      events_.process(device, "kernels (" + run_.setting.device + ")", on_gpu ? "GPU 0" : "CPU", 1);
    events_.thread(device, kScopes, "scopes");
    events_.thread(device, kPhases, "phases");
    int last = kFirstStream;
    for (const KernelSlice& kernel : layout_.kernels) last = std::max(last, kernel.stream);
    for (int stream = kFirstStream; stream <= last; ++stream)
      events_.thread(device, stream,
                     fmt::format("stream {} {}", stream,
                                 stream == kFirstStream ? "kernels" : "overlapping kernels"));
  }

  void write_host(const HostSlice& slice) {
    Json args = {{"External id", slice.id}};
    const char* category = "user_annotation";
    if (slice.kind == HostSlice::Kind::kOperation) {
      category = "cpu_op";
      if (slice.node != nullptr) {
        add_operands(slice.node->inputs, args);
        args["scope"] = slice.node->scope;
      }
    } else if (slice.kind == HostSlice::Kind::kCall) {
      category = reader_ == TraceReader::kTensorBoard ? "runtime" : "cuda_runtime";
      args["correlation"] = slice.correlation;
    }
    const Track host = place_.host();
    events_.slice(category, slice.name, host, slice.at, std::move(args));
    if (slice.correlation > 0)
      events_.flow("s", host.pid, host.tid, slice.at.begin_ns, slice.correlation);
  }

  void write_kernel(const KernelSlice& kernel) {
    const record::NodeRecord& node = *kernel.node;
    const int device = place_.device();
    events_.slice(category(kernel.kernel), name_of(kernel), {device, kernel.stream}, kernel.at,
                  kernel_args(kernel));
    if (kernel.correlation > 0)
      events_.flow("f", device, kernel.stream, kernel.at.begin_ns, kernel.correlation);
    extend(kScopes, scope_, node.scope, kernel.at);
    extend(kPhases, phase_, node.phase, kernel.at);
    auto live = memory_.find({node.graph, node.node});
    if (live == memory_.end()) return;
    events_.counter("memory (bytes)", device, kernel.at.begin_ns, value_json(live->second->bytes));
    if (reader_ == TraceReader::kTensorBoard) write_memory(live->second->total(), kernel);
  }

  // Tools find communication by the names of NCCL's kernels.
  std::string name_of(const KernelSlice& kernel) const {
    const record::NodeRecord& node = *kernel.node;
    const bool is_nccls =
        kernel.kernel != nullptr && kernel.name().find("nccl") != std::string::npos;
    if (place_.is_alone() || is_nccls || !is_exchange(node)) return kernel.name();
    return fmt::format("ncclKernel_{} ({})", node.op, run_.setting.exchange);
  }

  // The change of live memory as an allocation or a release.
  void write_memory(int64_t live_bytes, const KernelSlice& kernel) {
    const int64_t change = live_bytes - live_bytes_;
    if (change == 0) return;
    live_bytes_ = live_bytes;
    const bool on_gpu = run_.setting.device == "cuda";
    events_.instant("[memory]", place_.host(), kernel.at.begin_ns,
                    {{"Device Type", on_gpu ? 1 : 0},
                     {"Device Id", on_gpu ? 0 : -1},
                     {"Addr", kernel.id},
                     {"Bytes", change},
                     {"Total Allocated", live_bytes},
                     {"Total Reserved", run_.memory.owned_bytes}});
  }

  static std::pair<std::string, NodeId> place_of(const KernelSlice& kernel) {
    return {kernel.node->graph, kernel.node->node};
  }

  // The counts of a node are divided among its kernels, so that they add up.
  Json kernel_args(const KernelSlice& kernel) {
    const record::NodeRecord& node = *kernel.node;
    NodeSlices& slices = slices_.at(place_of(kernel));
    const int64_t number = slices.written++;
    auto part = [&](int64_t amount) {
      return amount / slices.count + (number < amount % slices.count ? 1 : 0);
    };
    Json args = {{"External id", kernel.id},
                 {"device", place_.device()},
                 {"context", 1},
                 {"stream", kernel.stream},
                 {"correlation", kernel.correlation},
                 {"op", node.op},
                 {"graph", node.graph},
                 {"node", node.node},
                 {"shape", node.shape},
                 {"scope", node.scope},
                 {"phase", node.phase},
                 {"flops", part(node.work.flops)},
                 {"macs", part(node.work.macs)},
                 {"transcendentals", part(node.work.transcendentals)},
                 {"read_bytes", part(node.read_bytes)},
                 {"written_bytes", part(node.written_bytes)},
                 {"bound", cost::name(node.bound)},
                 {"predicted_us", node.predicted_ns / 1000 / static_cast<double>(slices.count)}};
    if (!place_.is_alone() && is_exchange(node)) {
      args["Collective name"] = node.op;
      args["sent_bytes"] = node.sent_bytes / std::max<int64_t>(node.calls, 1);
    }
    if (kernel.kernel != nullptr) add_launch_geometry(*kernel.kernel, args);
    return args;
  }

  // Scopes and phases have one track each: a kernel that overlaps others extends what is open.
  void extend(int track, OpenSlice& open, const std::string& name, Slice at) {
    if (open.name != name) {
      const int64_t free_ns = open.at.end_ns;
      if (at.end_ns <= free_ns) return;
      close(track, open);
      open = {name, {std::max(free_ns, at.begin_ns), at.end_ns}};
    }
    open.at.end_ns = std::max(open.at.end_ns, at.end_ns);
  }

  void close(int track, const OpenSlice& open) {
    if (!open.name.empty())
      events_.slice("gpu_user_annotation", open.name, {place_.device(), track}, open.at,
                    Json::object());
  }

  const record::RunRecord& run_;
  Place place_;
  TraceReader reader_;
  TraceEvents& events_;
  TraceLayout layout_;
  std::map<std::pair<std::string, NodeId>, const plan::MemoryMoment*> memory_;
  std::map<std::pair<std::string, NodeId>, NodeSlices> slices_;
  OpenSlice scope_, phase_;
  int64_t live_bytes_ = 0;  // as last written
};

Json device_properties(const record::LabRecord& lab, const record::RunRecord& run) {
  Json device = {{"id", 0}, {"type", run.setting.device == "cuda" ? "GPU" : "CPU"}};
  if (!lab.ceilings) {
    device["name"] = run.setting.device;
    return device;
  }
  const cost::Machine& machine = lab.ceilings->machine;
  device["name"] = machine.device;
  device["totalGlobalMem"] = machine.memory_bytes;
  device["numSms"] = machine.cores;
  return device;
}

struct TraceFile {
  const std::string& name;
  int64_t cap_bytes;
  int64_t rank = 0, ranks = 1;
};

Trace trace_of(const record::LabRecord& lab,
               const record::RunRecord& run,
               const TraceEvents& events,
               const TraceFile& file) {
  Json other = heading(lab);
  other["setting"] = to_json(run.setting);
  other["dropped_events"] = events.dropped();
  Trace trace{"", events.written(), events.dropped(), ""};
  trace.text =
      events.document(device_properties(lab, run), file.name, other, file.rank, file.ranks);
  if (events.dropped() > 0)
    trace.warning =
        fmt::format("{} holds the first {} events and omits {} more to stay under {}", file.name,
                    events.written(), events.dropped(), format_bytes(file.cap_bytes));
  return trace;
}

}  // namespace

Trace kineto_trace(const record::LabRecord& lab,
                   const record::RunRecord& run,
                   const std::string& file_name,
                   int64_t cap_bytes,
                   TraceReader reader) {
  TraceEvents events(cap_bytes);
  RunWriter(run, {}, reader, events).write();
  return trace_of(lab, run, events, {file_name, cap_bytes});
}

void write_lane(const record::RunRecord& run,
                int64_t ranks,
                int64_t begin_ns,
                record::RankLane& lane) {
  TraceEvents events(kTraceCapBytes / ranks);
  RunWriter(run, {lane.rank, ranks, begin_ns}, TraceReader::kPerfetto, events).write();
  lane.events = events.text();
  lane.written = events.written(), lane.dropped = events.dropped();
}

Trace ranks_trace(const record::LabRecord& lab,
                  const record::RunRecord& run,
                  std::span<const record::RankLane> lanes,
                  const std::string& file_name,
                  int64_t rank) {
  TraceEvents events(kTraceCapBytes);
  for (int64_t i = 0; i < std::ssize(lanes); ++i) {
    const record::RankLane& each = lanes[static_cast<size_t>(i)];
    if (rank < 0 || i == rank) events.add(each.events, each.written, each.dropped);
  }
  return trace_of(lab, run, events,
                  {file_name, kTraceCapBytes, std::max<int64_t>(rank, 0), std::ssize(lanes)});
}

}  // namespace ridge::report
