// SPDX-License-Identifier: Apache-2.0
// Measures kernel times with CUPTI. On a stream, kernels are identified by their order: each launch
// is captured once to count its kernels, so that CUPTI needs to record nothing but kernels and
// copies. In a graph they are identified by graph nodes: one callback notes which graph nodes each
// binding added during capture, another maps the clones that instantiation creates to them. The
// traced graph is separate from the one that plain runs replay.
#include <cupti.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <span>
#include <unordered_map>

#include "backends/cuda/device_error.h"
#include "backends/cuda/device_kernels.h"
#include "backends/cuda/kernel_clock.h"
#include "backends/cuda/kernels/probes/hold.h"
#include "backends/cuda/recording.h"
#include "backends/cuda/shared_library.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

struct Cupti {
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiUnsubscribe) unsubscribe;
  decltype(&cuptiEnableCallback) enable_callback;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped;
  decltype(&cuptiGetGraphNodeId) graph_node_id;
  decltype(&cuptiGetTimestamp) timestamp;
  decltype(&cuptiFinalize) finalize;
  decltype(&cuptiGetResultString) words;
};

// The opened library; `failure` is empty if all functions were found.
struct Opened {
  Cupti cupti{};
  std::string failure;
};

Opened open() {
  static constexpr const char* kNames[] = {"libcupti.so.13"};
  SharedLibrary library(kNames);
  Opened opened;
  if (!library.is_open()) {
    opened.failure = "CUPTI cannot be opened: " + library.failure();
    return opened;
  }
  auto find = [&](auto& function, const char* symbol) {
    if (!library.find(function, symbol))
      opened.failure = fmt::format("this CUPTI does not have {}", symbol);
  };
  Cupti& c = opened.cupti;
  find(c.subscribe, "cuptiSubscribe");
  find(c.unsubscribe, "cuptiUnsubscribe");
  find(c.enable_callback, "cuptiEnableCallback");
  find(c.register_callbacks, "cuptiActivityRegisterCallbacks");
  find(c.enable, "cuptiActivityEnable");
  find(c.disable, "cuptiActivityDisable");
  find(c.flush, "cuptiActivityFlushAll");
  find(c.next_record, "cuptiActivityGetNextRecord");
  find(c.dropped, "cuptiActivityGetNumDroppedRecords");
  find(c.graph_node_id, "cuptiGetGraphNodeId");
  find(c.timestamp, "cuptiGetTimestamp");
  find(c.finalize, "cuptiFinalize");
  find(c.words, "cuptiGetResultString");
  return opened;
}

const Opened& opened() {
  static const Opened once = open();
  return once;
}

// One kernel, memset or copy as CUPTI records it.
struct Record {
  uint64_t begin_ns, end_ns;
  uint64_t graph_node;  // 0: on a stream
  int32_t kernel;       // index into the kernels of the run
};

class CuptiClock;
// The attached clock: CUPTI's buffer callbacks carry no user pointer.
CuptiClock* attached = nullptr;

class CuptiClock final : public Instrument {
 public:
  explicit CuptiClock(Device& device) : device_(device) {
    void* word = nullptr;
    check(cudaHostAlloc(&word, sizeof(int32_t), cudaHostAllocMapped), "allocating pinned memory");
    gate_ = static_cast<int32_t*>(word);
  }
  ~CuptiClock() override {
    cudaFreeHost(gate_);
    detach();
  }

  // Returns an empty string on success, otherwise the reason for the failure.
  std::string attach() {
    if (!opened().failure.empty()) return opened().failure;
    if (attached != nullptr) return "another backend of this process is being timed";
    CUptiResult status = cupti().subscribe(&subscriber_, &CuptiClock::notice, this);
    if (status == CUPTI_SUCCESS)
      status = cupti().register_callbacks(&CuptiClock::lend, &CuptiClock::take);
    for (auto id : {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
      if (status == CUPTI_SUCCESS)
        status = cupti().enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE,
                                         static_cast<CUpti_CallbackId>(id));
    if (status != CUPTI_SUCCESS) return "CUPTI cannot be started: " + words(status);
    attached = this;
    return "";
  }

  void detach() {
    if (subscriber_ == nullptr) return;
    cupti().unsubscribe(subscriber_);
    cupti().finalize();
    subscriber_ = nullptr;
    attached = nullptr;
  }

  Observed observe(std::span<const NodeLaunch> launches, bool replays) override {
    expect_attached();
    Observed observed;
    if (replays)
      observed.recording = record_graph(device_, launches, this);
    else
      for (const NodeLaunch& each : launches)
        observed.kernels.insert(observed.kernels.end(), count_kernels(device_, each.launch),
                                each.node);
    return observed;
  }

  // Tracing makes the launch of a graph about 0.1 ms longer on the host, and the first launch much
  // longer; between the graph's kernels it adds almost nothing. So the graph is launched while a
  // kernel holds the stream. On a stream, which the host must feed, tracing adds about 1 us to each
  // launch.
  bool start(const Observed& launches) override {
    const bool replays = launches.recording != nullptr;
    streamed_ = replays ? nullptr : &launches.kernels;
    expect_attached();
    for (CUpti_ActivityKind kind : kKinds) expect(cupti().enable(kind), "starting to record");
    // Before a run on a stream, this kernel runs without waiting: it absorbs the time that the
    // first launch after attaching takes, up to 2 ms, which does not belong to the run.
    std::atomic_ref(*gate_).store(replays ? 0 : 1);
    check(launch_hold(gate_, device_.stream()), "holding the stream");
    if (!replays) device_.synchronize();
    expect(cupti().timestamp(&origin_ns_), "reading the clock");
    return replays;
  }

  void release() override {
    expect(cupti().timestamp(&origin_ns_), "reading the clock");
    std::atomic_ref(*gate_).store(1);
  }

  void mark(NodeId node) override { current_ = node; }

  void stop(record::ProfiledRun& run) override {
    mark(kNoNode);
    expect(cupti().flush(0), "collecting records");
    for (CUpti_ActivityKind kind : kKinds) expect(cupti().disable(kind), "ending the recording");
    expect(cupti().flush(0), "collecting records");
    // Kernels that ran before the start do not belong to the run.
    std::erase_if(records_, [&](const Record& record) { return record.begin_ns < origin_ns_; });
    std::sort(records_.begin(), records_.end(),
              [](const Record& a, const Record& b) { return a.begin_ns < b.begin_ns; });
    run.spans = streamed_ == nullptr ? spans_by_graph_node() : spans_by_order();
    run.kernels = kernels_.take();
    run.dropped += dropped_;
    dropped_ = 0;
    records_.clear();
  }

  // While CUPTI is attached, launches take longer: 12% on a stream, 3 to 7% of a 1 ms step in a
  // graph. From the ninth traced replay of a graph on, replays of other graphs stay 4% slower for
  // good, for an unknown reason; so a graph is traced at most kMostRuns times.
  void rest() override { detach(); }

 private:
  // Fewer kinds make launches and the gaps between the kernels of a replay shorter. 1000 launches
  // of 2.6 us each take 3.9 us each while kernels are recorded, and 4.2 us if API calls and
  // external correlation ids are recorded too; once warm, 3.4 and 3.8 us. Requesting buffers early
  // makes no difference.
  static constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                  CUPTI_ACTIVITY_KIND_MEMSET,
                                                  CUPTI_ACTIVITY_KIND_MEMCPY};
  static constexpr size_t kBufferBytes = size_t{4} << 20;
  static constexpr size_t kBufferAlignment = 8;

  static const Cupti& cupti() { return opened().cupti; }

  void expect_attached() {
    if (subscriber_ != nullptr) return;
    if (std::string failure = attach(); !failure.empty())
      throw Error("[cuda] " + failure, ExitCode::kDevice);
  }

  static std::string words(CUptiResult status) {
    const char* text = nullptr;
    cupti().words(status, &text);
    return text == nullptr ? "another status" : text;
  }

  static void expect(CUptiResult status, const char* what) {
    if (status == CUPTI_SUCCESS) return;
    throw Error(fmt::format("[cuda] CUPTI, {}: {}", what, words(status)), ExitCode::kDevice);
  }

  record::Span span_of(NodeId node, const Record& record) const {
    return {node, static_cast<double>(record.begin_ns - origin_ns_),
            static_cast<double>(record.end_ns - origin_ns_), record.kernel};
  }

  std::vector<record::Span> spans_by_graph_node() const {
    std::vector<record::Span> spans;
    for (const Record& record : records_) {
      auto found = node_of_graph_node_.find(record.graph_node);
      // Work that no node launched (a copy from the host, a memset) counts for no node.
      if (found != node_of_graph_node_.end()) spans.push_back(span_of(found->second, record));
    }
    return spans;
  }

  // If records are missing, or foreign ones are among them, all are reported as lost: there is no
  // way to assign them to nodes.
  std::vector<record::Span> spans_by_order() {
    const std::vector<NodeId>& nodes = *streamed_;
    std::vector<record::Span> spans;
    if (records_.size() != nodes.size()) {
      dropped_ = std::max(dropped_, static_cast<int64_t>(nodes.size()));
      return spans;
    }
    for (size_t i = 0; i < nodes.size(); ++i) spans.push_back(span_of(nodes[i], records_[i]));
    return spans;
  }

  static void CUPTIAPI notice(void* self,
                              CUpti_CallbackDomain domain,
                              CUpti_CallbackId id,
                              const void* data) {
    if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
    const auto* resource = static_cast<const CUpti_ResourceData*>(data);
    const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
    static_cast<CuptiClock*>(self)->notice_graph_node(id, *graph);
  }

  void notice_graph_node(CUpti_CallbackId id, const CUpti_GraphData& graph) {
    uint64_t node = 0, original = 0;
    if (cupti().graph_node_id(graph.node, &node) != CUPTI_SUCCESS) return;
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
      if (current_ != kNoNode) node_of_graph_node_[node] = current_;
      return;
    }
    if (cupti().graph_node_id(graph.originalNode, &original) != CUPTI_SUCCESS) return;
    auto found = node_of_graph_node_.find(original);
    if (found != node_of_graph_node_.end()) node_of_graph_node_[node] = NodeId{found->second};
  }

  static void CUPTIAPI lend(uint8_t** buffer, size_t* size, size_t* most_records) {
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
    *size = *buffer == nullptr ? 0 : kBufferBytes;
    *most_records = 0;
  }

  static void CUPTIAPI
  take(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
    if (attached != nullptr) attached->read(context, stream, buffer, valid);
    std::free(buffer);
  }

  // Runs on a CUPTI thread, or on the calling thread during a flush.
  void read(CUcontext context, uint32_t stream, uint8_t* buffer, size_t valid) {
    std::lock_guard lock(mutex_);
    CUpti_Activity* record = nullptr;
    while (cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
          record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        records_.push_back(
            {kernel->start, kernel->end, kernel->graphNodeId, kernels_.index(*kernel)});
      } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const auto* set = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        records_.push_back({set->start, set->end, set->graphNodeId, kernels_.index(*set)});
      } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        records_.push_back({copy->start, copy->end, copy->graphNodeId, kernels_.index(*copy)});
      }
    }
    size_t lost = 0;
    if (cupti().dropped(context, stream, &lost) == CUPTI_SUCCESS)
      dropped_ += static_cast<int64_t>(lost);
  }

  Device& device_;
  int32_t* gate_ = nullptr;  // pinned: 0 holds the stream
  CUpti_SubscriberHandle subscriber_ = nullptr;
  // The node of each kernel of a run on a stream; null in a replay.
  const std::vector<NodeId>* streamed_ = nullptr;
  NodeId current_ = kNoNode;
  uint64_t origin_ns_ = 0;
  std::mutex mutex_;
  std::vector<Record> records_;
  DeviceKernels kernels_;
  std::unordered_map<uint64_t, NodeId> node_of_graph_node_;
  int64_t dropped_ = 0;
};

}  // namespace

std::unique_ptr<Instrument> make_cupti_clock(Device& device, std::string& failure) {
  auto clock = std::make_unique<CuptiClock>(device);
  failure = clock->attach();
  if (!failure.empty()) return nullptr;
  clock->detach();
  return clock;
}

}  // namespace ridge::backends::cuda
