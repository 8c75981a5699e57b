// SPDX-License-Identifier: Apache-2.0
// The op of a kernel of which only the name is known ("ampere_sgemm_128x64_tn").
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "record/import/foreign_trace.h"

namespace ridge::record {

// By the words in the name, in order of the table; empty if there is none that it knows.
std::string_view kernel_op(std::string_view kernel);

// The ops of the kernels of a trace, each name looked at once.
class KernelOps {
 public:
  explicit KernelOps(const NameTable& names) : names_(names), ops_(names.size()) {}

  std::string_view of(uint32_t name) {
    if (!ops_[name]) ops_[name] = kernel_op(names_[name]);
    return *ops_[name];
  }

 private:
  const NameTable& names_;
  std::vector<std::optional<std::string_view>> ops_;
};

}  // namespace ridge::record
