// SPDX-License-Identifier: Apache-2.0
// Finds the operations among host events. Their times are found by what derives from it.
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "record/import/event_places.h"

namespace ridge::record {

class OperationFinder : protected Events {
 public:
  OperationFinder(const Events& events, std::vector<Place> places, ImportedSteps& result)
      : Events(events), places_(std::move(places)), result_(result) {
    find_insides();
    find_operations();
  }

 protected:
  const Place& place(uint32_t i) const { return places_[i]; }
  ImportedSteps& result() { return result_; }
  // A new operation for an event.
  int32_t add_operation(std::string_view op, uint32_t i, int32_t step, int32_t call);
  // The operation that a launch belongs to: the one around it, or one for the innermost event of
  // the framework that does more than to pass on. -1: none.
  int32_t operation_of(uint32_t launch);
  // A span of an operation's time.
  void add_span(uint32_t operation, const ForeignEvent& span, bool is_known);
  // Everything after the last backward pass of a step prepares the update, or is it.
  void find_optimizer_phase();

 private:
  void find_insides();
  bool has_products(uint32_t i) const;
  bool counts_inside(uint32_t i) const;
  bool is_an_operation(uint32_t i) const;
  void find_operations();
  void add_parameters(uint32_t i);
  std::string_view op_of(uint32_t i) const;
  bool is_counted(const ImportedOperation& owner) const;

  std::vector<Place> places_;  // per event
  // Inside each event: operations; those of the table; those with products.
  std::vector<bool> has_operation_, has_counted_, has_products_;
  std::unordered_map<uint32_t, int32_t> direct_;  // operations of events that launch by themselves
  ImportedSteps& result_;
};

}  // namespace ridge::record
