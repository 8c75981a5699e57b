// SPDX-License-Identifier: Apache-2.0
// The events of another program's trace, in a compact form: 64 bytes an event, names once each.
// Readers fill it (trace_file.h); imported_steps.h makes steps of it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "record/import/torch_operations.h"
#include "record/run_record.h"

namespace ridge::record {

// Texts by number, each once.
class NameTable {
 public:
  NameTable() { number(""); }
  uint32_t number(std::string_view text) {
    if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
    texts_.emplace_back(text);
    return numbers_[texts_.back()] = static_cast<uint32_t>(texts_.size() - 1);
  }
  const std::string& operator[](uint32_t number) const { return texts_[number]; }
  size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // addresses stay
  std::unordered_map<std::string_view, uint32_t> numbers_;
};

enum class EventKind : uint8_t {
  kOperation,    // the framework's, on the host
  kAnnotation,   // by the user or the framework
  kModule,       // the model's
  kRuntime,      // a call that launches device work
  kKernel,       // on the device, copies included
  kDeviceRange,  // an annotation, over the kernels that it launched
};

// The counts that follow from the arguments of an operation.
struct RecordedCounts {
  Work work;
  int64_t model_macs = 0;
  int64_t read_bytes = 0, written_bytes = 0;
  // Attention whose keys, and pairs of a query and a key, the step knows.
  int64_t macs_per_pair = 0, bytes_per_key = 0;
  int64_t elements = 0;  // the first operand's
  DType output_type = DType::kF32;
  uint32_t inputs = 0;  // NameTable: "f32[8,128], f32[128,64]"
  uint32_t output = 0;  // NameTable: "f32[8,64]"
  // A kernel of a trace of Ridge knows its op (NameTable; 0: it does not), scope and phase.
  uint32_t op = 0, scope = 0;
  Phase phase = Phase::kForward;
  bool are_known = false;  // work and bytes
};

struct ForeignEvent {
  int64_t begin_ns = 0, length_ns = 0;
  int64_t external = -1;     // an operation and the kernels that it launches share it
  int64_t correlation = -1;  // a runtime call and its kernels share it
  int64_t sequence = -1;  // an operation and its gradient share it; of a kernel: its graph's node
  uint32_t name = 0;      // NameTable
  uint32_t track = 0;     // a thread of a process, or a stream of a device
  int32_t call = -1;      // index into calls, or -1
  EventKind kind = EventKind::kOperation;
  bool is_backward = false;  // in a backward pass; `sequence` is the forward's

  int64_t end_ns() const { return begin_ns + length_ns; }
};

// The operations that launched the nodes of a captured graph, from the trace of its capture.
struct CapturedNode {
  uint32_t name = 0;  // NameTable: the operation's; 0 if there is none
  int32_t call = -1;  // index into calls, or -1
  int32_t group = 0;  // nodes of one operation share it
};
struct CapturedGraph {
  int64_t tokens = -1;              // in its batch, if the annotation of the capture tells
  std::vector<CapturedNode> nodes;  // in order of their launches
};

struct ForeignTrace {
  std::string source;     // the file
  std::string framework;  // "PyTorch", "Nsight Systems"
  std::string device;     // it ran the kernels; empty if unknown
  int64_t rank = 0;
  bool uses_tf32 = false;                         // kernels that round fp32 to TF32
  int64_t multiprocessors = 0, device_bytes = 0;  // the device's; 0: unknown
  bool is_of_kernels = false;  // operations, their types, the model and its batch are unknown
  NameTable names;
  std::vector<ForeignEvent> events;
  std::vector<RecordedCounts> calls;
  std::vector<CapturedGraph> captured;
  std::optional<Setting> setting;        // a trace of Ridge has all of it
  int64_t batch_size = 0, sequence = 0;  // the first batch of token ids; 0: not recorded
  int64_t peak_host_bytes = 0, peak_device_bytes = 0;  // the most in use at once

  std::string_view name(const ForeignEvent& event) const { return names[event.name]; }
};

}  // namespace ridge::record
