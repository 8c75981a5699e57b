// SPDX-License-Identifier: Apache-2.0
// Walks the tree of host events, then joins kernels to the operations that launched them.
#include "record/import/imported_steps.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/name_pattern.h"
#include "record/import/event_places.h"
#include "record/import/host_tree.h"
#include "record/run_record.h"

namespace ridge::record {
namespace {

struct MarkedName {
  std::string_view pattern;
  Mark mark;
};
constexpr MarkedName kMarks[] = {
    {"ProfilerStep#*", Mark::kStep},
    {"ProfilerStep*", Mark::kStep},
    {"execute_*", Mark::kServerStep},
    {"step[*", Mark::kServerStep},
    {"autograd::engine::evaluate_function: CompiledFunctionBackward", Mark::kBackward},
    {"autograd::engine::evaluate_function: *", Mark::kBackward},
    {"Optimizer.*", Mark::kOptimizer},
    {"CompiledFunction", Mark::kCompiled},
    {"CompiledFunctionBackward*", Mark::kCompiled},
    {"Torch-Compiled Region*", Mark::kCompiled},
    {"## Call CompiledFxGraph*", Mark::kCompiled},
    // The nodes of autograd, which older versions record alone.
    {"torch::autograd::*", Mark::kBackward},
    {"*Backward", Mark::kBackward},
    {"*Backward0", Mark::kBackward},
    {"*Backward1", Mark::kBackward},
    {"*Backward2", Mark::kBackward},
};

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
  // The annotations of steps: of the profiler's schedule, or else of a server, or else those on the
  // device; or one step from the first event to the last.
  void find_steps() {
    for (const Mark mark : {Mark::kStep, Mark::kServerStep})
      for (const EventKind kind : {EventKind::kAnnotation, EventKind::kDeviceRange}) {
        if (!result_.steps.empty()) return;
        add_steps(mark, kind);
        result_.is_stepped_on_device = kind == EventKind::kDeviceRange;
      }
    if (!result_.steps.empty()) return;
    result_.is_stepped_on_device = false;
    ImportedStep all{INT64_MAX, INT64_MIN};
    for (const ForeignEvent& each : trace_.events) {
      all.begin_ns = std::min(all.begin_ns, each.begin_ns);
      all.end_ns = std::max(all.end_ns, each.end_ns());
    }
    result_.steps.push_back(all);
  }

  // In order; of annotations in one another, the outermost. Those of one name that overlap are the
  // step of several ranks, whose traces were merged.
  void add_steps(Mark mark, EventKind kind) {
    std::vector<const ForeignEvent*> all;
    for (const ForeignEvent& each : trace_.events)
      if (each.kind == kind && names_[each.name].mark == mark) all.push_back(&each);
    std::ranges::stable_sort(all, [](const ForeignEvent* a, const ForeignEvent* b) {
      return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns() > b->end_ns();
    });
    std::vector<ImportedStep>& steps = result_.steps;
    uint32_t last_name = 0;
    for (const ForeignEvent* each : all) {
      if (!steps.empty() && each->end_ns() <= steps.back().end_ns) continue;
      if (!steps.empty() && each->begin_ns < steps.back().end_ns) {
        if (each->name == last_name) {
          steps.back().end_ns = each->end_ns();
          continue;
        }
        steps.back().end_ns = each->begin_ns;
      }
      steps.push_back({each->begin_ns, each->end_ns()});
      last_name = each->name;
    }
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
        case Mark::kServerStep:
          enter_batch(i, place);
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

  void enter_batch(uint32_t i, Place& place) {
    if (event(i).kind != EventKind::kAnnotation) return;
    const std::optional<ServingBatch> batch = serving_batch(trace_.names[event(i).name]);
    // The batch around it may know more.
    if (!batch || (place.batch >= 0 && batch->pairs < 0)) return;
    place.batch = static_cast<int32_t>(result_.batches.size());
    result_.batches.push_back(*batch);
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
      const auto found = mark(i) == Mark::kBackward ? scope_of_sequence_.find(event(i).sequence)
                                                    : scope_of_sequence_.end();
      if (found != scope_of_sequence_.end()) {
        place.scope = found->second;
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

}  // namespace

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

int32_t step_at(const std::vector<ImportedStep>& steps, int64_t begin_ns) {
  const auto next =
      std::upper_bound(steps.begin(), steps.end(), begin_ns,
                       [](int64_t at, const ImportedStep& step) { return at < step.begin_ns; });
  if (next == steps.begin() || begin_ns > (next - 1)->end_ns) return -1;
  return static_cast<int32_t>(next - 1 - steps.begin());
}

std::vector<Place> find_places(const Events& events, ImportedSteps& result) {
  return PlaceFinder(events, result).find();
}

double Attribution::share(int64_t part_ns) const { return ratio(part_ns, all_ns()); }

ImportedSteps imported_steps(const ForeignTrace& trace) {
  const HostTree tree = host_tree(trace);
  const std::vector<Name> names = described(trace.names);
  ImportedSteps result;
  for (const RecordedCounts& call : trace.calls)
    result.attribution.has_shapes = result.attribution.has_shapes || call.inputs > 0;
  for (const ForeignEvent& event : trace.events)
    result.is_on_device = result.is_on_device || event.kind == EventKind::kKernel;
  const Events events{trace, tree, names};
  (result.is_on_device ? find_kernel_times : find_host_times)(events, find_places(events, result),
                                                              result);
  std::ranges::stable_sort(result.spans, {}, &ImportedSpan::begin_ns);
  if (result.spans.empty())
    throw file_error("[{}] expected operations or kernels in its steps, found none", trace.source);
  return result;
}

}  // namespace ridge::record
