// SPDX-License-Identifier: Apache-2.0
// Describes a backend's kernel for an op: the layouts and types it supports, the resources it
// needs, and how a node is bound to it. Most descriptions are made in backends/bind/.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"

namespace ridge::backends {

using Bind = std::function<Launch(const BindCall&)>;

struct Kernel {
  std::string_view op;  // empty: serves all pointwise primitives
  Bind bind;
  // Layouts besides dense ones that the kernel takes; null: none.
  bool (*takes_input)(const Call&, int input, const Layout&) = nullptr;
  bool (*takes_output)(const Call&, int output, const Layout&) = nullptr;
  int64_t vector_bytes = 1;  // operands must start at a multiple of this
  bool in_place = false;     // every output may overwrite any input of its type
  std::function<int64_t(const Call&)> workspace_bytes = {};  // null: none
  // Returns an empty string if the kernel supports the call's types and attributes, otherwise what
  // it does not support; null: supports all.
  std::function<std::string(const Call&)> unsupported = {};
  bool takes_quantized =
      false;                  // takes weights and tables as files store them: quantized blocks, f16
  bool computes_f16 = false;  // as it computes on f32 and bf16
  bool takes_quant_cache = false;                 // takes KV caches of quants in 8 bits
  std::function<int(const Call&)> launches = {};  // null: one
  // Dependent memory round trips: to the operands, then to what they point to, then to partial sums
  // of other blocks. Counted only for GPUs.
  int rounds = 1;
  int (*rounds_of)(const Call&) = nullptr;  // where they depend on the call; null: `rounds`

  bool (*calls_library)(const Call&) = nullptr;  // one of its launches is a library's; null: none

  // Threads share the kernel's work if these bytes are enough, or, if null or empty, the bytes of
  // its operands.
  std::function<std::optional<int64_t>(const Call&)> shared_bytes = {};

  // Copies of the kernel with one property that only one backend sets.
  Kernel in_rounds(int count) const {
    Kernel kernel = *this;
    kernel.rounds = count;
    return kernel;
  }
  Kernel in_rounds(int (*of)(const Call&)) const {
    Kernel kernel = *this;
    kernel.rounds_of = of;
    return kernel;
  }
  Kernel in_launches(std::function<int(const Call&)> count) const {
    Kernel kernel = *this;
    kernel.launches = std::move(count);
    return kernel;
  }
  Kernel sharing(std::function<std::optional<int64_t>(const Call&)> bytes) const {
    Kernel kernel = *this;
    kernel.shared_bytes = std::move(bytes);
    return kernel;
  }
  Kernel refusing(std::string (*reason)(const Call&)) const {
    Kernel kernel = *this;
    kernel.unsupported = reason;
    return kernel;
  }
};

// All kernels of a backend, one per op.
class KernelTable {
 public:
  explicit KernelTable(std::vector<Kernel> kernels) : kernels_(std::move(kernels)) {}
  // Null if there is none.
  const Kernel* find(std::string_view op) const;

 private:
  std::vector<Kernel> kernels_;
};

}  // namespace ridge::backends
