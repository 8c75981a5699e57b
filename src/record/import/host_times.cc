// SPDX-License-Identifier: Apache-2.0
// Without a device, the operations' own times are theirs, and what is between them is the
// framework's.
#include <algorithm>
#include <map>
#include <tuple>

#include "record/import/operation_finder.h"

namespace ridge::record {
namespace {

// The rows of time in no operation's own code.
constexpr std::string_view kFramework = "framework", kCompiledCode = "compiled_code";

class HostTimes : protected OperationFinder {
 public:
  using OperationFinder::OperationFinder;

  void find() {
    add_host_spans();
    add_rests();
    find_optimizer_phase();
  }

 private:
  Attribution& total() { return result().attribution; }

  // On a CPU an operation runs while its event lasts.
  void add_host_spans() {
    for (const uint32_t i : tree_.order) {
      const int32_t operation = place(i).operation;
      if (event(i).kind != EventKind::kOperation || operation < 0) continue;
      const bool is_inside =
          parent(i) >= 0 && place(static_cast<uint32_t>(parent(i))).operation == operation;
      if (!is_inside)
        add_span(static_cast<uint32_t>(operation), event(i), role(i) != Role::kUnknown);
    }
  }

  // The rest of a host's time: between the operations in composites and frames, and of unknown
  // operations with others inside. Each moment belongs to the innermost of them.
  void add_rests() {
    struct Open {
      uint32_t event;
      int64_t owner;  // the innermost operation around, or -1
    };
    std::vector<Open> open;
    int64_t at_ns = INT64_MIN;
    auto advance = [&](int64_t to_ns) {
      if (!open.empty() && open.back().owner >= 0 && to_ns > at_ns)
        add_rest(static_cast<uint32_t>(open.back().owner), at_ns, to_ns);
      at_ns = std::max(at_ns, to_ns);
    };
    auto close = [&] {
      advance(event(open.back().event).end_ns());
      open.pop_back();
    };
    for (const uint32_t i : tree_.order) {
      while (!open.empty() && (event(open.back().event).track != event(i).track ||
                               event(open.back().event).end_ns() <= event(i).begin_ns))
        close();
      if (open.empty()) at_ns = event(i).begin_ns;
      advance(event(i).begin_ns);
      const int64_t outer = open.empty() ? -1 : open.back().owner;
      open.push_back({i, event(i).kind == EventKind::kOperation ? int64_t{i} : outer});
    }
    while (!open.empty()) close();
  }

  void add_rest(uint32_t i, int64_t begin_ns, int64_t end_ns) {
    if (place(i).operation >= 0) return;  // add_host_spans has it
    const int32_t step = step_at(result().steps, event(i).begin_ns);
    if (step < 0) return;
    const bool is_compiled = mark(i) == Mark::kCompiled;
    std::string_view op = kFramework;
    int64_t* sum = role(i) == Role::kComposite ? &total().composite_ns : &total().frame_ns;
    if (is_compiled) {
      op = kCompiledCode;
      sum = &total().compiled_ns;
    } else if (role(i) == Role::kUnknown) {
      op = trace_.name(event(i));
      sum = &total().unknown_ns;
      total().unknown[std::string(op)] += end_ns - begin_ns;
    }
    *sum += end_ns - begin_ns;
    const auto [found, is_new] =
        rests_.emplace(std::make_tuple(step, place(i).phase, place(i).scope, event(i).name), -1);
    if (is_new) found->second = add_operation(op, i, step, -1);
    result().spans.push_back({static_cast<uint32_t>(found->second), begin_ns, end_ns, !is_new});
  }

  std::map<std::tuple<int32_t, Phase, uint32_t, uint32_t>, int32_t> rests_;
};

}  // namespace

void find_host_times(const Events& events, std::vector<Place> places, ImportedSteps& result) {
  HostTimes(events, std::move(places), result).find();
}

}  // namespace ridge::record
