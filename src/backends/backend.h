// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of a backend besides plan::Target: memory, binding of nodes to kernels,
// waiting. Its own passes are its PassTarget's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/probe.h"
#include "base/process_memory.h"
#include "graph/graph.h"
#include "passes/pass.h"
#include "record/profile.h"

namespace ridge::backends {

// An operand with its pointer fixed: element i lies at
// data + (sum of i[axis] * strides[axis]) elements.
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
  std::byte* workspace = nullptr;  // as large as workspace_bytes said
  int concurrent = 1;              // nodes that may run side by side, this one included
  bool is_background = false;      // others may want the device while it runs
  const Attrs& attrs() const { return node.attrs; }
  Call call() const { return types.call(); }
  CallTypes types;
  // Of the next node of this op, the first after the last: what memory may be asked for early.
  std::vector<Operand> next_inputs = {};
};

// Everything is decided when it is made: a run does no look-up, no allocation, no branch on type.
using Launch = std::function<void()>;

// make(float{}) or make(uint16_t{}): a binding to the kernel of an element type, fp32 or bf16.
template <typename Make>
Launch by_dtype(DType dtype, const Make& make) {
  return dtype == DType::kF32 ? make(float{}) : make(uint16_t{});
}

// A launch and the node that it belongs to.
struct NodeLaunch {
  NodeId node = kNoNode;
  Launch launch;
  std::vector<int> after;      // the launches before it in their list that it must wait for
  bool is_background = false;  // others go first where both could run
};

// Launches recorded once and replayed as one.
class Recording {
 public:
  virtual ~Recording() = default;
  // Returns when the device has been told.
  virtual void replay() = 0;
};

// What an instrument must know of launches before they run.
struct Observed {
  // The one inside which it sees, where they are replayed. Others, which it has not touched, stay
  // as fast as they are.
  std::unique_ptr<Recording> recording;
  std::vector<NodeId> kernels;  // the node of each in order, where they are made one by one
};

// Tells when the kernels of each node ran on a device that works on while the host goes on.
class Instrument {
 public:
  virtual ~Instrument() = default;
  // Of one recording; more may slow the runs behind them.
  static constexpr int64_t kMostRuns = 8;
  // Made once for some launches, kept while they are.
  virtual Observed observe(std::span<const NodeLaunch> launches, bool replays) = 0;
  // From here on the device's work is written down: the launches that were observed, made in their
  // order, or a replay of their recording. It costs time that is not the run's. True: the device
  // waits for `release`, and what is launched before waits with it, so that the host's part of
  // tracing a recording is over when the run begins.
  virtual bool start(const Observed& launches) = 0;
  virtual void release() {}
  // Launches, made or recorded, belong to this node until the next call.
  virtual void mark(NodeId node) = 0;
  // Whether it takes kernels side by side apart; else they must be recorded one after the other.
  virtual bool sees_branches() const { return true; }
  // The device must be idle. The kernels since `start`, in the order
  // they began, on a clock that reads 0 at `start`'s return, or at
  // `release`. `dropped` is raised by the records that were lost.
  virtual std::vector<record::Span> stop(int64_t& dropped) = 0;
  // Until the next `start` nothing of it slows launches.
  virtual void rest() {}
  // What a reader of the times should know; empty for nothing.
  virtual std::string doubt() const { return ""; }
};

// Memory of the backend's device.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// A copy to the host that is under way.
class CopyOut {
 public:
  virtual ~CopyOut() = default;
  // What was copied. Waits for the copy and what was launched before it, not for what came after.
  virtual std::span<const std::byte> wait() = 0;
};

class Backend : public passes::PassTarget {
 public:
  // Zero-filled. Throws an out-of-memory Error that names `what`.
  virtual std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) = 0;
  // Memory that reads bytes of the host where they lie; null where the device needs a copy. The
  // bytes must outlive it.
  virtual std::unique_ptr<Memory> borrow(std::span<const std::byte>) { return nullptr; }
  virtual void copy_in(std::byte* to, const void* from, int64_t bytes) = 0;
  // Waits for what was launched before.
  virtual void copy_out(void* to, const std::byte* from, int64_t bytes) = 0;
  // Returns at once; of 0 bytes it tells when what was launched before is done. Null where nothing
  // is gained over copy_out: the device works while the host waits, or there are too many bytes.
  virtual std::unique_ptr<CopyOut> start_copy_out(const std::byte*, int64_t) { return nullptr; }
  virtual void synchronize() = 0;
  // What could still be allocated; 0 where that is unknown.
  virtual int64_t available_bytes() const { return 0; }
  // What the system says is taken where this backend's memory lies: of the host by this process, of
  // a device by all.
  virtual ProcessMemory taken_memory() const { return read_process_memory(); }

  virtual Launch bind(const BindCall& call) = 0;

  // Whether the node's kernel starts threads of its own, as a library's does: then its stage does
  // not run in `together`.
  virtual bool brings_threads(const BindCall&) const { return false; }
  // Calls `launches`, in which a stage's nodes are launched one after another; what they share may
  // be made ready before.
  virtual void together(const std::function<void()>& launches) { launches(); }

  // Null where launches are best made one by one. What does not wait for each other may run side by
  // side. What the launches refer to must outlive the recording.
  virtual std::unique_ptr<Recording> record(std::span<const NodeLaunch>) { return nullptr; }
  // Null where a launch returns when its work is done: a clock around each tells its time.
  virtual Instrument* instrument() { return nullptr; }

  // Null where a step does not wait for launches that the host makes one by one.
  virtual const EnqueueProbe* enqueue_probe() { return nullptr; }
};

}  // namespace ridge::backends
