// SPDX-License-Identifier: Apache-2.0
// The library, its callbacks and its buffers of records.
#include "backends/cuda/cupti_records.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/cuda/shared_library.h"
#include "base/error.h"

#define RIDGE_CUPTI(FUNCTION)                                  \
  FUNCTION(subscribe, cuptiSubscribe)                          \
  FUNCTION(unsubscribe, cuptiUnsubscribe)                      \
  FUNCTION(enable_callback, cuptiEnableCallback)               \
  FUNCTION(register_callbacks, cuptiActivityRegisterCallbacks) \
  FUNCTION(enable, cuptiActivityEnable)                        \
  FUNCTION(disable, cuptiActivityDisable)                      \
  FUNCTION(flush, cuptiActivityFlushAll)                       \
  FUNCTION(next_record, cuptiActivityGetNextRecord)            \
  FUNCTION(dropped, cuptiActivityGetNumDroppedRecords)         \
  FUNCTION(graph_node_id, cuptiGetGraphNodeId)                 \
  FUNCTION(timestamp, cuptiGetTimestamp)                       \
  FUNCTION(finalize, cuptiFinalize)                            \
  FUNCTION(words, cuptiGetResultString)

namespace ridge::backends::cuda {
namespace {

struct Cupti {
  RIDGE_CUPTI(RIDGE_LIBRARY_MEMBER)
};

// The opened library; `failure` is empty if all functions were found.
struct Opened {
  Cupti functions{};
  std::string failure;
};

Opened open() {
  SharedLibrary library("libcupti.so.13");
  if (!library.is_open()) return {{}, "CUPTI cannot be opened: " + library.failure()};
  Cupti functions{};
  RIDGE_CUPTI(RIDGE_LIBRARY_FIND)
  if (!library.missing().empty()) return {{}, "this CUPTI does not have " + library.missing()};
  return {functions, ""};
}

const Opened& opened() {
  static const Opened once = open();
  return once;
}

// Fewer kinds make launches and the gaps between the kernels of a replay shorter. 1000 launches
// of 2.6 us each take 3.9 us each while kernels are recorded, and 4.2 us if API calls and
// external correlation ids are recorded too; once warm, 3.4 and 3.8 us. Requesting buffers early
// makes no difference.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY};
constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr size_t kBufferAlignment = 8;

const Cupti& cupti() { return opened().functions; }

std::string words(CUptiResult status) {
  const char* text = nullptr;
  cupti().words(status, &text);
  return text == nullptr ? "another status" : text;
}

void expect(CUptiResult status, const char* what) {
  if (status == CUPTI_SUCCESS) return;
  throw Error(fmt::format("[cuda] CUPTI, {}: {}", what, words(status)), ExitCode::kDevice);
}

// The attached records: CUPTI's buffer callbacks carry no user pointer.
CuptiRecords* attached = nullptr;

void CUPTIAPI lend(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

}  // namespace

std::string CuptiRecords::attach() {
  if (!opened().failure.empty()) return opened().failure;
  if (attached != nullptr) return "another backend of this process is being timed";
  CUptiResult status = cupti().subscribe(&subscriber_, &CuptiRecords::notice, this);
  if (status == CUPTI_SUCCESS) status = cupti().register_callbacks(&lend, &CuptiRecords::take);
  for (auto id : {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
    if (status == CUPTI_SUCCESS)
      status = cupti().enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE,
                                       static_cast<CUpti_CallbackId>(id));
  if (status != CUPTI_SUCCESS) return "CUPTI cannot be started: " + words(status);
  attached = this;
  return "";
}

void CuptiRecords::expect_attached() {
  if (subscriber_ != nullptr) return;
  if (std::string failure = attach(); !failure.empty())
    throw Error("[cuda] " + failure, ExitCode::kDevice);
}

void CuptiRecords::detach() {
  if (subscriber_ == nullptr) return;
  cupti().unsubscribe(subscriber_);
  cupti().finalize();
  subscriber_ = nullptr;
  attached = nullptr;
}

void CuptiRecords::begin() {
  expect_attached();
  for (CUpti_ActivityKind kind : kKinds) expect(cupti().enable(kind), "starting to record");
}

CuptiRecords::Recorded CuptiRecords::end() {
  expect(cupti().flush(0), "collecting records");
  for (CUpti_ActivityKind kind : kKinds) expect(cupti().disable(kind), "ending the recording");
  expect(cupti().flush(0), "collecting records");
  std::sort(records_.begin(), records_.end(),
            [](const Record& a, const Record& b) { return a.begin_ns < b.begin_ns; });
  return {std::exchange(records_, {}), kernels_.take(), std::exchange(dropped_, 0)};
}

uint64_t CuptiRecords::now_ns() {
  uint64_t now = 0;
  expect(cupti().timestamp(&now), "reading the clock");
  return now;
}

NodeId CuptiRecords::node_of(const Record& record) const {
  auto found = node_of_graph_node_.find(record.graph_node);
  return found == node_of_graph_node_.end() ? kNoNode : found->second;
}

void CuptiRecords::notice(void* self,
                          CUpti_CallbackDomain domain,
                          CUpti_CallbackId id,
                          const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
  static_cast<CuptiRecords*>(self)->notice_graph_node(id, *graph);
}

void CuptiRecords::notice_graph_node(CUpti_CallbackId id, const CUpti_GraphData& graph) {
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

void CuptiRecords::take(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  if (attached != nullptr) attached->read(context, stream, buffer, valid);
  std::free(buffer);
}

// Runs on a CUPTI thread, or on the calling thread during a flush.
void CuptiRecords::read(CUcontext context, uint32_t stream, uint8_t* buffer, size_t valid) {
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

}  // namespace ridge::backends::cuda
