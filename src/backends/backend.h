// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of a backend besides perf::Target: memory, binding of nodes to kernels, waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "perf/target.h"

namespace ridge::backends {

// An operand with its pointer fixed: element i lies at data + (sum of i[axis] * strides[axis]) elements.
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
  const Attrs& attrs() const { return node.attrs; }
  Call call() const { return types.call(); }
  CallTypes types;
};

// Everything is decided when it is made: a run does no look-up, no allocation, no branch on type.
using Launch = std::function<void()>;

// Memory of the backend's device.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

class Backend : public perf::Target {
 public:
  // Zero-filled. Throws an out-of-memory Error that names `what`.
  virtual std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) = 0;
  virtual void copy_in(std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void copy_out(void* to, const std::byte* from, int64_t bytes) = 0;
  virtual void synchronize() = 0;

  virtual Launch bind(const BindCall& call) = 0;
};

}  // namespace ridge::backends
