// SPDX-License-Identifier: Apache-2.0
// Declares what the runtime needs from a backend beyond plan::Target: memory, binding of nodes to
// kernels, and synchronization. A backend's own passes come from PassTarget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/collectives/collective_listener.h"
#include "backends/probe.h"
#include "base/process_memory.h"
#include "graph/graph.h"
#include "passes/pass.h"
#include "record/profile.h"

namespace ridge::backends {

// An operand with a fixed pointer: element i lies at data + (sum of i[axis] * strides[axis])
// elements.
struct Operand {
  std::byte* data = nullptr;
  Type type;
  Strides strides;
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct BindCall {
  const Graph& graph;
  const Node& node;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::byte* workspace = nullptr;  // workspace_bytes gave its size
  int concurrent = 1;              // nodes that may run concurrently, including this one
  bool is_background = false;      // other nodes may need the device while it runs
  const Attrs& attrs() const { return node.attrs; }
  Call call() const { return types.call(); }
  CallTypes types;
  // The inputs of the next node with the same op (the first such node follows the last), so that a
  // kernel can prefetch their memory.
  std::vector<Operand> next_inputs = {};
};

// Everything is decided when the launch is made: running it does no look-up, no allocation and no
// branch on a type.
using Launch = std::function<void()>;

// Throws an InternalError: the kernel that is bound is not compiled for this element type.
[[noreturn]] void refuse_element_type(DType dtype);

// Calls make(float{}) for fp32, make(uint16_t{}) for bf16, to bind the kernel of that type.
template <typename Make>
Launch by_dtype(DType dtype, const Make& make) {
  if (dtype == DType::kF32) return make(float{});
  if (dtype == DType::kBF16) return make(uint16_t{});
  refuse_element_type(dtype);
}

// A launch and the node that it belongs to.
struct NodeLaunch {
  NodeId node = kNoNode;
  Launch launch;
  std::vector<int> after;      // indices of earlier launches that it must wait for
  bool is_background = false;  // runs after other launches where both could run
};

// Launches recorded once and replayed as one.
class Recording {
 public:
  virtual ~Recording() = default;
  // Returns once the work is enqueued on the device.
  virtual void replay() = 0;
};

// An instrument prepares this for a list of launches before they run.
struct Observed {
  // The recording to replay, where launches are replayed: the only one whose kernels the instrument
  // can see. Other recordings are not instrumented and keep their speed.
  std::unique_ptr<Recording> recording;
  std::vector<NodeId> kernels;  // each kernel's node in order, where launches are made one by one
};

// Measures when the kernels of each node ran, on a device that works asynchronously to the host.
class Instrument {
 public:
  virtual ~Instrument() = default;
  // Instrumented runs of one recording; more of them may slow the runs that follow.
  static constexpr int64_t kMostRuns = 8;
  // Called once for a list of launches; the result is kept as long as they are.
  virtual Observed observe(std::span<const NodeLaunch> launches, bool replays) = 0;
  // From here on the device's work is recorded: the observed launches, made in their order, or a
  // replay of their recording. The call takes time that does not belong to the run. Returns true if
  // the device waits for `release`: whatever is launched before then waits too, so that the host's
  // part of tracing a recording is over when the run begins.
  virtual bool start(const Observed& launches) = 0;
  virtual void release() {}
  // Launches that are made or recorded from now on belong to this node, until the next call.
  virtual void mark(NodeId node) = 0;
  // Whether it can tell concurrent kernels apart; if not, the launches must be recorded one after
  // the other.
  virtual bool sees_branches() const { return true; }
  // Sets the run's spans to the kernels since `start` in the order they began, on a clock that is 0
  // when `start` or `release` returns, its kernels to what is known of them, and its caveat.
  // Increases the number of lost records. The device must be idle.
  virtual void stop(record::ProfiledRun& run) = 0;
  // Stops everything that slows launches down, until the next `start`.
  virtual void rest() {}
};

// Memory of the backend's device.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// A copy to the host that is in progress.
class CopyOut {
 public:
  virtual ~CopyOut() = default;
  // Returns the copied bytes. Waits for the copy and what was launched before it, not for later
  // launches.
  virtual std::span<const std::byte> wait() = 0;
};

class Backend : public passes::PassTarget {
 public:
  // Tells it of the collectives that run on this backend; it must outlive the backend.
  virtual void tell(CollectiveListener* listener) { listener_ = listener; }
  CollectiveListener* listener() const { return listener_; }
  // Whether collectives run after the host has launched them, so that the device counts them.
  virtual bool counts_collectives() const { return false; }
  // The launch of a collective that also counts, on the device, that `ended` more of them have
  // ended.
  virtual Launch counted(Launch collective, int /*ended*/) { return collective; }

  // Zero-filled. Throws an out-of-memory Error that names `what`.
  virtual std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) = 0;
  // Memory that reads the host's bytes in place; null where the device needs a copy. The bytes must
  // outlive it.
  virtual std::unique_ptr<Memory> borrow(std::span<const std::byte>) { return nullptr; }
  virtual void copy_in(std::byte* to, const void* from, int64_t bytes) = 0;
  // Waits for all earlier launches.
  virtual void copy_out(void* to, const std::byte* from, int64_t bytes) = 0;
  // Copies within the backend's memory, after all earlier launches.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  // Returns at once. A copy of 0 bytes completes when all earlier launches have. Null where this
  // gains nothing over copy_out: the device works while the host waits, or there are too many
  // bytes.
  virtual std::unique_ptr<CopyOut> start_copy_out(const std::byte*, int64_t) { return nullptr; }
  virtual void synchronize() = 0;
  // The bytes that could still be allocated; 0 if unknown.
  virtual int64_t available_bytes() const { return 0; }
  // The memory in use where this backend allocates, as the system reports it: on the host by this
  // process, on a device by all processes.
  virtual ProcessMemory taken_memory() const { return read_process_memory(); }

  virtual Launch bind(const BindCall& call) = 0;

  // Whether the node's kernel owns its threads, as a library's does: then its stage does not run in
  // one parallel region.
  virtual bool owns_threads(const BindCall&) const { return false; }
  // Calls `launches`, which launches a stage's nodes one after another. A backend may run them all
  // in one parallel region.
  virtual void in_parallel_region(const std::function<void()>& launches) { launches(); }

  // Null where launches are best made one by one. Launches that do not wait for each other may run
  // concurrently. Everything the launches refer to must outlive the recording.
  virtual std::unique_ptr<Recording> record(std::span<const NodeLaunch>) { return nullptr; }
  // Null where a launch returns when its work is done: a clock around each launch then measures its
  // time.
  virtual Instrument* instrument() { return nullptr; }

  // Null where a step does not wait for launches that the host makes one by one.
  virtual const EnqueueProbe* enqueue_probe() { return nullptr; }

 private:
  CollectiveListener* listener_ = nullptr;
};

}  // namespace ridge::backends
