// SPDX-License-Identifier: Apache-2.0
// One node bound to its kernel as in a model, for timing. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backends/kernel.h"

namespace ridge::backends::cpu {

struct NodeInput {
  Type type;
  std::byte* data = nullptr;  // dense
};

class BoundNode {
 public:
  // `scratch` holds the outputs and the workspace; nodes that run one after the other may share it.
  BoundNode(const KernelTable& kernels,
            std::string_view op,
            const std::vector<NodeInput>& inputs,
            const Attrs& attrs,
            std::span<std::byte> scratch);
  BoundNode(const BoundNode&) = delete;

  // Whether the kernel takes these types and attributes; if not, it must not run.
  bool is_supported() const { return kernel_ != nullptr; }
  const Work& work() const { return work_; }

  // From now on, runs take input `index` from each of these addresses in turn.
  void rotate(size_t index, const std::vector<std::byte*>& addresses);
  // Runs once. Without a division, which would take a share of the shortest runs.
  void run() {
    next_ = next_ + 1 < launches_.size() ? next_ + 1 : 0;
    launches_[next_]();
  }
  // Runs `times` times among threads that are ready, as they are while a model decodes.
  void run(int64_t times);

 private:
  Graph graph_;
  const Kernel* kernel_ = nullptr;  // null: not supported
  std::vector<Operand> inputs_, outputs_;
  std::byte* workspace_ = nullptr;
  Work work_;
  std::vector<Launch> launches_;
  size_t next_ = 0;
};

}  // namespace ridge::backends::cpu
