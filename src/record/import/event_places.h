// SPDX-License-Identifier: Apache-2.0
// The events of a trace as the finders of steps and operations see them: nested, with the meaning
// of their names and the place of each.
#pragma once

#include <cstdint>
#include <vector>

#include "record/import/host_tree.h"
#include "record/import/imported_steps.h"

namespace ridge::record {

// A name marks the events inside.
enum class Mark : uint8_t { kNone, kStep, kServerStep, kBackward, kOptimizer, kCompiled };

// The meaning of a name.
struct Name {
  const TorchOperation* row = nullptr;
  Mark mark = Mark::kNone;
};

// The place of an event, as far as it is known. Events inherit it from their parent.
struct Place {
  uint32_t scope = 0;
  uint32_t optimizer = 0;  // number of the optimizer, from 1; 0 outside of one
  int32_t operation = -1;  // the event is it, or lies in it
  int32_t batch = -1;      // index into batches, or -1
  Phase phase = Phase::kForward;
  uint8_t depth = 0;       // annotations in annotations
  bool is_marked = false;  // the phase follows from a mark
};

// The events of a trace by their numbers.
struct Events {
  const ForeignTrace& trace_;
  const HostTree& tree_;
  const std::vector<Name>& names_;

  const ForeignEvent& event(uint32_t i) const { return trace_.events[i]; }
  Mark mark(uint32_t i) const { return names_[event(i).name].mark; }
  Role role(uint32_t i) const { return names_[event(i).name].row->role; }
  int32_t parent(uint32_t i) const { return tree_.parents[i]; }
};

std::vector<Name> described(const NameTable& table);

// Finds the steps and batches, and the scope and phase of each event.
std::vector<Place> find_places(const Events& events, ImportedSteps& result);

// The step during which something starts on the host, or -1.
int32_t step_at(const std::vector<ImportedStep>& steps, int64_t begin_ns);

// Find the operations of the steps, and when each ran, on the host or on a device.
void find_host_times(const Events& events, std::vector<Place> places, ImportedSteps& result);
void find_kernel_times(const Events& events, std::vector<Place> places, ImportedSteps& result);

// The captured graph with as many nodes, and if there are several, that for as many tokens (-1:
// unknown). Null: none.
const CapturedGraph* captured_graph(const ForeignTrace& trace, size_t nodes, int64_t tokens);

}  // namespace ridge::record
