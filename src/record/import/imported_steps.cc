// SPDX-License-Identifier: Apache-2.0
// Walks the tree of host events, then joins kernels to the operations that launched them.
#include "record/import/imported_steps.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/name_pattern.h"
#include "record/import/host_tree.h"
#include "record/run_record.h"

namespace ridge::record {
namespace {

// A name marks the events inside.
enum class Mark : uint8_t { kNone, kStep, kBackward, kOptimizer, kCompiled };
struct MarkedName {
  std::string_view pattern;
  Mark mark;
};
constexpr MarkedName kMarks[] = {
    {"ProfilerStep#*", Mark::kStep},
    {"ProfilerStep*", Mark::kStep},
    {"autograd::engine::evaluate_function: CompiledFunctionBackward", Mark::kBackward},
    {"autograd::engine::evaluate_function: *", Mark::kBackward},
    {"Optimizer.*", Mark::kOptimizer},
    {"CompiledFunction", Mark::kCompiled},
    {"Torch-Compiled Region*", Mark::kCompiled},
    {"## Call CompiledFxGraph*", Mark::kCompiled},
};

constexpr std::string_view kAccumulateGrad = "torch::autograd::AccumulateGrad";
constexpr int kMostScopeDepth = 64;

// "Optimizer.step#AdamW.step" -> "adamw"
std::string optimizer_name(std::string_view annotation) {
  const size_t hash = annotation.find('#');
  if (hash == std::string_view::npos) return "optimizer";
  std::string_view name = annotation.substr(hash + 1);
  std::string lower = scope_part(name.substr(0, name.rfind('.')));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// The place of an event, as far as it is known. Events inherit it from their parent.
struct Place {
  uint32_t scope = 0;
  uint32_t optimizer = 0;  // number of the optimizer, from 1; 0 outside of one
  int32_t operation = -1;  // the event is it, or lies in it
  Phase phase = Phase::kForward;
  uint8_t depth = 0;       // annotations in annotations
  bool is_marked = false;  // the phase follows from a mark
};

// The meaning of a name.
struct Name {
  const TorchOperation* row = nullptr;
  Mark mark = Mark::kNone;
};

std::vector<Name> described(const NameTable& table) {
  std::vector<Name> names(table.size());
  for (uint32_t i = 0; i < names.size(); ++i) {
    names[i].row = &torch_operation(table[i]);
    const auto mark = std::ranges::find_if(
        kMarks, [&](const MarkedName& each) { return matches_pattern(each.pattern, table[i]); });
    if (mark != std::end(kMarks)) names[i].mark = mark->mark;
  }
  return names;
}

// The step during which something starts on the host, or -1.
int32_t step_at(const std::vector<ImportedStep>& steps, int64_t begin_ns) {
  const auto next =
      std::upper_bound(steps.begin(), steps.end(), begin_ns,
                       [](int64_t at, const ImportedStep& step) { return at < step.begin_ns; });
  if (next == steps.begin() || begin_ns > (next - 1)->end_ns) return -1;
  return static_cast<int32_t>(next - 1 - steps.begin());
}

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

// Finds the steps, and the scope and phase of each event.
class PlaceFinder : Events {
 public:
  PlaceFinder(const Events& events, ImportedSteps& result)
      : Events(events), result_(result), modules_(trace_, tree_), places_(trace_.events.size()) {
    result_.scopes.emplace_back();
    scope_numbers_.emplace("", 0);
  }

  std::vector<Place> find() {
    find_steps();
    find_places();
    find_backward_scopes();
    return std::move(places_);
  }

 private:
  // The annotations of steps, in order; or one step from the first event to the last.
  void find_steps() {
    std::vector<ImportedStep>& steps = result_.steps;
    for (const uint32_t i : tree_.order)
      if (event(i).kind == EventKind::kAnnotation && mark(i) == Mark::kStep)
        steps.push_back({event(i).begin_ns, event(i).end_ns()});
    std::sort(steps.begin(), steps.end(),
              [](const ImportedStep& a, const ImportedStep& b) { return a.begin_ns < b.begin_ns; });
    for (size_t i = 1; i < steps.size(); ++i)
      if (steps[i].begin_ns < steps[i - 1].end_ns) steps[i - 1].end_ns = steps[i].begin_ns;
    if (!steps.empty()) return;
    ImportedStep all{INT64_MAX, INT64_MIN};
    for (const ForeignEvent& each : trace_.events) {
      all.begin_ns = std::min(all.begin_ns, each.begin_ns);
      all.end_ns = std::max(all.end_ns, each.end_ns());
    }
    steps.push_back(all);
  }

  uint32_t scope_number(const std::string& scope) {
    const auto [place, is_new] =
        scope_numbers_.emplace(scope, static_cast<uint32_t>(result_.scopes.size()));
    if (is_new) result_.scopes.push_back(scope);
    return place->second;
  }

  // Scope and phase of each event from those around it.
  void find_places() {
    for (const uint32_t i : tree_.order) {
      Place& place = places_[i];
      if (parent(i) >= 0) place = places_[static_cast<size_t>(parent(i))];
      switch (mark(i)) {
        case Mark::kBackward:
          place.phase = Phase::kBackward;
          place.is_marked = result_.has_backward = true;
          break;
        case Mark::kOptimizer:
          place.phase = Phase::kOptimizer;
          place.is_marked = true;
          place.optimizer = optimizer_number(event(i).name);
          break;
        case Mark::kCompiled:
          result_.is_compiled = true;
          break;
        case Mark::kStep:
          break;
        case Mark::kNone:
          enter_scope(i, place);
      }
      if (event(i).kind == EventKind::kOperation && event(i).sequence >= 0 &&
          !event(i).is_backward && place.phase == Phase::kForward)
        scope_of_sequence_[event(i).sequence] = place.scope;
    }
  }

  void enter_scope(uint32_t i, Place& place) {
    const uint32_t name = event(i).name;
    if (event(i).kind == EventKind::kModule) {
      place.scope = scope_number(modules_.of(name));
    } else if (event(i).kind == EventKind::kAnnotation && place.depth < kMostScopeDepth) {
      const std::string& outer = result_.scopes[place.scope];
      place.scope =
          scope_number((outer.empty() ? "" : outer + "/") + scope_part(trace_.names[name]));
      ++place.depth;
    }
  }

  uint32_t optimizer_number(uint32_t annotation) {
    const auto [place, is_new] = optimizers_.emplace(annotation, 0);
    if (is_new) {
      result_.optimizers.push_back(optimizer_name(trace_.names[annotation]));
      place->second = static_cast<uint32_t>(result_.optimizers.size());
    }
    return place->second;
  }

  // A gradient belongs to the scope of its forward operation, which has the same sequence number.
  void find_backward_scopes() {
    for (const uint32_t i : tree_.order) {
      Place& place = places_[i];
      if (place.phase != Phase::kBackward) continue;
      if (mark(i) == Mark::kBackward) {
        const auto found = scope_of_sequence_.find(event(i).sequence);
        if (found != scope_of_sequence_.end()) place.scope = found->second;
      } else if (parent(i) >= 0 && event(i).kind != EventKind::kModule &&
                 event(i).kind != EventKind::kAnnotation) {
        place.scope = places_[static_cast<size_t>(parent(i))].scope;
      }
    }
  }

  ImportedSteps& result_;
  ModuleScopes modules_;
  std::vector<Place> places_;  // per event
  std::unordered_map<std::string, uint32_t> scope_numbers_;
  std::unordered_map<int64_t, uint32_t> scope_of_sequence_;
  std::unordered_map<uint32_t, uint32_t> optimizers_;  // by annotation, from 1
};

// A device may finish a step after the host has, and then starts the next one later.
void bound_steps(ImportedSteps& result) {
  std::vector<ImportedStep>& steps = result.steps;
  for (const ImportedSpan& span : result.spans) {
    ImportedStep& step = steps[static_cast<size_t>(result.operations[span.operation].step)];
    step.end_ns = std::max(step.end_ns, span.end_ns);
  }
  for (size_t i = 1; i < steps.size(); ++i) {
    steps[i].begin_ns = std::max(steps[i].begin_ns, steps[i - 1].end_ns);
    steps[i].end_ns = std::max(steps[i].end_ns, steps[i].begin_ns);
  }
}

// Finds the operations of the steps, and when each ran.
class OperationFinder : Events {
 public:
  OperationFinder(const Events& events, std::vector<Place> places, ImportedSteps& result)
      : Events(events), places_(std::move(places)), result_(result) {}

  void find() {
    find_insides();
    find_operations();
    if (result_.is_on_device)
      add_kernels();
    else
      add_host_spans();
    find_optimizer_phase();
    bound_steps(result_);
    std::ranges::stable_sort(result_.spans, {}, &ImportedSpan::begin_ns);
  }

 private:
  // Notes which events have others inside, from the innermost outwards.
  void find_insides() {
    has_operation_.assign(trace_.events.size(), false);
    has_counted_.assign(trace_.events.size(), false);
    for (auto each = tree_.order.rbegin(); each != tree_.order.rend(); ++each) {
      if (parent(*each) < 0) continue;
      const auto outer = static_cast<size_t>(parent(*each));
      const bool is_operation = event(*each).kind == EventKind::kOperation;
      if (is_operation || has_operation_[*each]) has_operation_[outer] = true;
      if ((is_operation && (role(*each) == Role::kOperation || role(*each) == Role::kComposite)) ||
          has_counted_[*each])
        has_counted_[outer] = true;
    }
  }

  bool is_an_operation(uint32_t i) const {
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

  void find_operations() {
    for (const uint32_t i : tree_.order) {
      Place& place = places_[i];
      const int32_t outer = parent(i);
      place.operation = outer < 0 ? -1 : places_[static_cast<size_t>(outer)].operation;
      if (event(i).kind == EventKind::kOperation && trace_.name(event(i)) == kAccumulateGrad)
        add_parameters(i);
      if (place.operation >= 0 || !is_an_operation(i)) continue;
      const int32_t step = step_at(result_.steps, event(i).begin_ns);
      if (step < 0) continue;
      place.operation = static_cast<int32_t>(result_.operations.size());
      result_.operations.push_back({op_of(i), event(i).name, place.scope, place.phase, step,
                                    event(i).call, event(i).begin_ns});
    }
  }

  void add_parameters(uint32_t i) {
    if (event(i).call < 0 || step_at(result_.steps, event(i).begin_ns) != 0) return;
    const int64_t elements = trace_.calls[static_cast<size_t>(event(i).call)].elements;
    if (__builtin_add_overflow(result_.parameters, elements, &result_.parameters))
      throw file_error("[{}] expected fewer than 2^63 parameters", trace_.source);
  }

  // Arithmetic in an optimizer's step is that optimizer.
  std::string_view op_of(uint32_t i) const {
    const TorchOperation& row = *names_[event(i).name].row;
    const bool counts = row.role == Role::kOperation || row.role == Role::kComposite;
    if (places_[i].optimizer > 0 && counts) return result_.optimizers[places_[i].optimizer - 1];
    return row.op.empty() ? trace_.name(event(i)) : row.op;
  }

  // On a CPU an operation runs while its event lasts.
  void add_host_spans() {
    Attribution& total = result_.attribution;
    std::vector<int64_t> inside_ns(trace_.events.size(), 0);  // operations inside, one level
    for (auto each = tree_.order.rbegin(); each != tree_.order.rend(); ++each) {
      const uint32_t i = *each;
      if (event(i).kind != EventKind::kOperation) {
        if (parent(i) >= 0) inside_ns[static_cast<size_t>(parent(i))] += inside_ns[i];
        continue;
      }
      if (parent(i) >= 0) inside_ns[static_cast<size_t>(parent(i))] += event(i).length_ns;
      if (step_at(result_.steps, event(i).begin_ns) < 0) continue;
      const int32_t operation = places_[i].operation;
      const bool is_inside = parent(i) >= 0 && operation >= 0 &&
                             places_[static_cast<size_t>(parent(i))].operation == operation;
      if (is_inside) continue;
      if (operation >= 0)
        add_span(static_cast<uint32_t>(operation), event(i), role(i) != Role::kUnknown);
      else
        attribute(i, std::max<int64_t>(event(i).length_ns - inside_ns[i], 0), total);
    }
  }

  void attribute(uint32_t i, int64_t rest_ns, Attribution& total) {
    if (role(i) == Role::kUnknown) {
      total.unknown_ns += rest_ns;
      total.unknown[std::string(trace_.name(event(i)))] += rest_ns;
    } else {
      (role(i) == Role::kComposite ? total.composite_ns : total.frame_ns) += rest_ns;
    }
  }

  void add_span(uint32_t operation, const ForeignEvent& span, bool is_known) {
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
    const bool is_counted =
        owner.call >= 0 && trace_.calls[static_cast<size_t>(owner.call)].are_known;
    if (!is_view && !is_counted) total.uncounted_ns += span.length_ns;
  }

  // Kernels by the runtime call that launched them, or by the operation that their event names.
  void add_kernels() {
    std::unordered_map<int64_t, uint32_t> by_correlation, by_external;
    for (const uint32_t i : tree_.order) {
      if (event(i).kind == EventKind::kRuntime && event(i).correlation >= 0)
        by_correlation[event(i).correlation] = i;
      if (event(i).kind == EventKind::kOperation && event(i).external >= 0)
        by_external[event(i).external] = i;
    }
    auto find = [](const auto& map, int64_t key) {
      const auto found = map.find(key);
      return key < 0 || found == map.end() ? -1 : static_cast<int64_t>(found->second);
    };
    for (const ForeignEvent& kernel : trace_.events) {
      if (kernel.kind != EventKind::kKernel) continue;
      int64_t launcher = find(by_correlation, kernel.correlation);
      const int64_t named = find(by_external, kernel.external);
      if (named >= 0 && (launcher < 0 || places_[static_cast<size_t>(launcher)].operation < 0))
        launcher = named;
      add_kernel(kernel, launcher);
    }
  }

  void add_kernel(const ForeignEvent& kernel, int64_t launcher) {
    const Place place = launcher < 0 ? Place{} : places_[static_cast<size_t>(launcher)];
    if (place.operation >= 0) {
      const auto owner = static_cast<uint32_t>(place.operation);
      const bool is_known = names_[result_.operations[owner].name].row->role != Role::kUnknown;
      return add_span(owner, kernel, is_known);
    }
    const int64_t launched_ns =
        launcher < 0 ? kernel.begin_ns : event(static_cast<uint32_t>(launcher)).begin_ns;
    const int32_t step = step_at(result_.steps, launched_ns);
    if (step < 0) return;
    const std::string_view op = kernel_op(trace_.name(kernel));
    const auto operation = static_cast<uint32_t>(result_.operations.size());
    result_.operations.push_back({op.empty() ? trace_.name(kernel) : op, kernel.name, place.scope,
                                  place.phase, step, -1, kernel.begin_ns});
    add_span(operation, kernel, !op.empty());
  }

  // Everything after the last backward pass of a step prepares the update, or is it.
  void find_optimizer_phase() {
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

  std::vector<Place> places_;                      // per event
  std::vector<bool> has_operation_, has_counted_;  // inside each event
  ImportedSteps& result_;
};

}  // namespace

double Attribution::share(int64_t part_ns) const { return ratio(part_ns, all_ns()); }

ImportedSteps imported_steps(const ForeignTrace& trace) {
  const HostTree tree = host_tree(trace);
  const std::vector<Name> names = described(trace.names);
  ImportedSteps result;
  for (const ForeignEvent& event : trace.events)
    result.is_on_device = result.is_on_device || event.kind == EventKind::kKernel;
  const Events events{trace, tree, names};
  OperationFinder(events, PlaceFinder(events, result).find(), result).find();
  if (result.spans.empty())
    throw file_error("[{}] expected operations or kernels in its steps, found none", trace.source);
  return result;
}

}  // namespace ridge::record
