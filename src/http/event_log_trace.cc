// SPDX-License-Identifier: Apache-2.0
// Cuts the engine's last steps and requests to a window and lays them out on tracks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "base/printable.h"
#include "http/event_log_json.h"
#include "report/kineto_trace.h"
#include "report/trace_events.h"

namespace ridge::http {
namespace {

using report::Json;
using report::Slice;
using serve::LoggedRequest;
using serve::LoggedStep;

constexpr int kEngine = 0, kRequests = 1;  // processes
constexpr int kSteps = 1;                  // a thread of the engine; a request's is its lane
constexpr const char* kStages[] = {"queued", "prefill", "decode"};

class TraceWriter {
 public:
  TraceWriter(const serve::EventLog::Snapshot& log, double seconds)
      : log_(log), now_(at(now_ns())), from_(now_ - std::llround(seconds * 1e9)) {}

  std::string write(const Json& device, const std::string& name, const Json& other) {
    events_.process(kEngine, "engine", "steps", 0);
    events_.thread(kEngine, kSteps, "steps");
    for (const LoggedStep& each : log_.steps) write_step(each);
    events_.process(kRequests, "requests", "lanes", 1);
    for (const LoggedRequest& each : log_.requests) write_request(each);
    for (size_t i = 0; i < lanes_.size(); ++i)
      events_.thread(kRequests, static_cast<int>(i) + 1, fmt::format("lane {}", i + 1));
    return events_.document(device, name, other);
  }

 private:
  int64_t at(double ns) const { return std::llround(ns - log_.origin_ns); }

  void write_step(const LoggedStep& step) {
    const Slice slice{at(step.begin_ns), at(step.end_ns)};
    if (slice.begin_ns < from_ || slice.end_ns <= slice.begin_ns) return;
    events_.slice("user_annotation", fmt::format("ProfilerStep#{}", step.number), {kEngine, kSteps},
                  slice,
                  {{"batch", step.sequences},
                   {"decode_tokens", step.decode_tokens},
                   {"prefill_tokens", step.prefill_tokens},
                   {"model_flops", step.cost.model.flops},
                   {"executed_flops", step.cost.executed_flops},
                   {"read_bytes", step.cost.read_bytes},
                   {"written_bytes", step.cost.written_bytes}});
    events_.counter("tokens of the step", kEngine, slice.begin_ns,
                    {{"decode", step.decode_tokens}, {"prefill", step.prefill_tokens}});
  }

  // The part of a slice that is in the window; empty if none is.
  Slice cut(double begin_ns, double end_ns) const {
    return {std::max(at(begin_ns), from_), end_ns > 0 ? at(end_ns) : now_};
  }

  void write_request(const LoggedRequest& request) {
    const auto stages = request.reached();
    const Slice whole = cut(stages.front().begin_ns, request.end_ns);
    if (whole.end_ns <= whole.begin_ns) return;
    const int lane = lane_of(whole);
    const auto finish = serve::finish_name(request.finish);
    events_.slice("user_annotation", fmt::format("request {}", request.id), {kRequests, lane},
                  whole,
                  {{"prompt_tokens", request.prompt_tokens},
                   {"cached_tokens", request.cached_tokens},
                   {"generated_tokens", request.generated_tokens},
                   {"finish_reason", request.end_ns > 0 ? Json(finish) : Json()}});
    for (size_t i = 0; i < stages.size(); ++i) {
      const bool is_last = i + 1 == stages.size();
      const Slice slice =
          cut(stages[i].begin_ns, is_last ? request.end_ns : stages[i + 1].begin_ns);
      if (slice.end_ns > slice.begin_ns)
        events_.slice("user_annotation", kStages[static_cast<size_t>(stages[i].stage)],
                      {kRequests, lane}, slice, Json::object());
    }
  }

  // The first lane that is free, from 1. Requests come in the order in which they were submitted.
  int lane_of(Slice slice) {
    auto lane = std::ranges::find_if(lanes_, [&](int64_t end) { return end <= slice.begin_ns; });
    if (lane == lanes_.end()) lane = lanes_.insert(lanes_.end(), 0);
    *lane = slice.end_ns;
    return static_cast<int>(lane - lanes_.begin()) + 1;
  }

  const serve::EventLog::Snapshot& log_;
  const int64_t now_, from_;
  report::TraceEvents events_{report::kTraceCapBytes};
  std::vector<int64_t> lanes_;  // when each is free
};

}  // namespace

std::string event_log_trace(const ServedModel& model, const std::string& program, int64_t seconds) {
  const serve::EventLog::Snapshot log = model.engine.event_log().since(0);
  const cost::Ceilings* ceilings = model.engine.options().ceilings.get();
  const Json device{{"id", 0},
                    {"name", ceilings != nullptr ? ceilings->machine.device : "unknown"}};
  const Json other{{"program", program},
                   {"model", terminal_safe(model.name(), kWholeText)},
                   {"seconds", seconds}};
  return TraceWriter(log, static_cast<double>(seconds)).write(device, "ridge serve", other);
}

}  // namespace ridge::http
