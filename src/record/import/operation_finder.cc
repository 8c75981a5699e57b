// SPDX-License-Identifier: Apache-2.0
// Finds the operations among host events.
#include "record/import/operation_finder.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::record {
namespace {

constexpr std::string_view kAccumulateGrad = "torch::autograd::AccumulateGrad";

}  // namespace

int32_t OperationFinder::add_operation(std::string_view op,
                                       uint32_t i,
                                       int32_t step,
                                       int32_t call) {
  result_.operations.push_back({op, event(i).name, places_[i].scope, places_[i].phase, step, call,
                                places_[i].batch, event(i).begin_ns});
  return static_cast<int32_t>(result_.operations.size() - 1);
}

int32_t OperationFinder::operation_of(uint32_t launch) {
  if (places_[launch].operation >= 0) return places_[launch].operation;
  for (int32_t at = parent(launch); at >= 0; at = parent(static_cast<uint32_t>(at))) {
    const auto i = static_cast<uint32_t>(at);
    if (event(i).kind != EventKind::kOperation || role(i) == Role::kWrapper) continue;
    const auto [found, is_new] = direct_.emplace(i, -1);
    if (!is_new) return found->second;
    const int32_t step = step_at(result_.steps, event(i).begin_ns);
    // Counts of operations inside stand for this one.
    if (step >= 0)
      found->second = add_operation(op_of(i), i, step, counts_inside(i) ? -1 : event(i).call);
    return found->second;
  }
  return -1;
}

// Notes which events have others inside, from the innermost outwards.
void OperationFinder::find_insides() {
  has_operation_.assign(trace_.events.size(), false);
  has_counted_.assign(trace_.events.size(), false);
  has_products_.assign(trace_.events.size(), false);
  for (auto each = tree_.order.rbegin(); each != tree_.order.rend(); ++each) {
    if (parent(*each) < 0) continue;
    const auto outer = static_cast<size_t>(parent(*each));
    const bool is_operation = event(*each).kind == EventKind::kOperation;
    if (is_operation || has_operation_[*each]) has_operation_[outer] = true;
    if ((is_operation && (role(*each) == Role::kOperation || role(*each) == Role::kComposite)) ||
        has_counted_[*each])
      has_counted_[outer] = true;
    if (has_products(*each) || has_products_[*each]) has_products_[outer] = true;
  }
}

bool OperationFinder::has_products(uint32_t i) const {
  if (event(i).call < 0) return false;
  const RecordedCounts& call = trace_.calls[static_cast<size_t>(event(i).call)];
  return call.work.macs > 0 || call.macs_per_pair > 0;
}

// Whether operations inside do the work of a composite: its products, or all that is not products.
bool OperationFinder::counts_inside(uint32_t i) const {
  return has_products(i) ? has_products_[i] : has_counted_[i];
}

bool OperationFinder::is_an_operation(uint32_t i) const {
  if (event(i).kind != EventKind::kOperation) return false;
  switch (role(i)) {
    case Role::kOperation:
    case Role::kView:
      return true;
    case Role::kComposite:
      return !has_counted_[i];
    case Role::kWrapper:
      return false;
    case Role::kUnknown:
      return !has_operation_[i];
  }
  return false;
}

void OperationFinder::find_operations() {
  for (const uint32_t i : tree_.order) {
    Place& place = places_[i];
    const int32_t outer = parent(i);
    place.operation = outer < 0 ? -1 : places_[static_cast<size_t>(outer)].operation;
    if (event(i).kind == EventKind::kOperation && trace_.name(event(i)) == kAccumulateGrad)
      add_parameters(i);
    if (place.operation >= 0 || !is_an_operation(i)) continue;
    const int32_t step = step_at(result_.steps, event(i).begin_ns);
    if (step >= 0) place.operation = add_operation(op_of(i), i, step, event(i).call);
  }
}

void OperationFinder::add_parameters(uint32_t i) {
  if (event(i).call < 0 || step_at(result_.steps, event(i).begin_ns) != 0) return;
  const int64_t elements = trace_.calls[static_cast<size_t>(event(i).call)].elements;
  if (__builtin_add_overflow(result_.parameters, elements, &result_.parameters))
    throw file_error("[{}] expected fewer than 2^63 parameters", trace_.source);
}

// Arithmetic in an optimizer's step is that optimizer.
std::string_view OperationFinder::op_of(uint32_t i) const {
  const TorchOperation& row = *names_[event(i).name].row;
  const bool counts = row.role == Role::kOperation || row.role == Role::kComposite;
  if (places_[i].optimizer > 0 && counts) return result_.optimizers[places_[i].optimizer - 1];
  return row.op.empty() ? trace_.name(event(i)) : row.op;
}

void OperationFinder::add_span(uint32_t operation, const ForeignEvent& span, bool is_known) {
  Attribution& total = result_.attribution;
  const ImportedOperation& owner = result_.operations[operation];
  result_.spans.push_back({operation, span.begin_ns, span.end_ns()});
  if (!is_known) {
    total.unknown_ns += span.length_ns;
    total.unknown[std::string(trace_.name(span))] += span.length_ns;
    return;
  }
  total.known_ns += span.length_ns;
  const bool is_view = owner.op == "view" || names_[owner.name].row->role == Role::kView;
  if (!is_view && !is_counted(owner)) total.uncounted_ns += span.length_ns;
}

bool OperationFinder::is_counted(const ImportedOperation& owner) const {
  if (owner.call < 0) return false;
  const RecordedCounts& call = trace_.calls[static_cast<size_t>(owner.call)];
  return call.are_known || (call.macs_per_pair > 0 && owner.batch >= 0 &&
                            result_.batches[static_cast<size_t>(owner.batch)].pairs >= 0);
}

void OperationFinder::find_optimizer_phase() {
  std::vector<int64_t> last_ns(result_.steps.size(), INT64_MAX);
  for (const uint32_t i : tree_.order) {
    if (mark(i) != Mark::kBackward) continue;
    const int32_t step = step_at(result_.steps, event(i).begin_ns);
    if (step < 0) continue;
    int64_t& last = last_ns[static_cast<size_t>(step)];
    last = last == INT64_MAX ? event(i).begin_ns : std::max(last, event(i).begin_ns);
  }
  for (ImportedOperation& each : result_.operations)
    if (each.phase == Phase::kForward && each.begin_ns > last_ns[static_cast<size_t>(each.step)])
      each.phase = Phase::kOptimizer;
}

}  // namespace ridge::record
