// SPDX-License-Identifier: Apache-2.0
// Nests the events of each thread by their times, and names the scopes of models: an event lies in
// the one during which it starts. Recorded parents are not used, so they cannot form a cycle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/import/foreign_trace.h"

namespace ridge::record {

struct HostTree {
  std::vector<uint32_t> order;   // host events by thread and time; parents come first
  std::vector<int32_t> parents;  // per event; -1: none
};

HostTree host_tree(const ForeignTrace& trace);

// The scope of each module instance ("Block_3"), by the number of its name: "Model/Block.3". A
// module keeps its first parent. N counts the modules of its class in the same parent: one that
// contains modules gets ".N" as layers do, another "_N", and one alone of its class neither.
class ModuleScopes {
 public:
  ModuleScopes(const ForeignTrace& trace, const HostTree& tree);
  // Empty for names of no module.
  const std::string& of(uint32_t name) const;

 private:
  std::vector<std::string> scopes_;
};

// Text as a part of a scope: without slashes and control characters, and not too long.
std::string scope_part(std::string_view text);

}  // namespace ridge::record
