// SPDX-License-Identifier: Apache-2.0
// Checks what trace viewers and the tools for PyTorch's traces require of a trace: slices of a
// track nest or follow each other and none is empty, launches and kernels are linked, and steps are
// marked. Written from the formats' descriptions, not from the writer.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ridge::report {

class TraceRules {
 public:
  explicit TraceRules(const nlohmann::json& trace) {
    for (const nlohmann::json& event : trace.at("traceEvents")) {
      const std::string phase = event.at("ph");
      if (phase == "X") add_slice(event);
      if (phase == "s" || phase == "f") flows_.push_back(event);
      if (phase == "M" && event.at("name") == "thread_name") named_.insert(track_of(event));
    }
  }

  // One sentence for each broken rule.
  std::vector<std::string> broken() {
    for (auto& [track, slices] : tracks_) {
      if (!named_.contains(track)) say("track {}/{} has no name", track.first, track.second);
      check_nesting(track, slices);
    }
    check_links();
    check_flows();
    check_steps();
    return broken_;
  }

 private:
  using Track = std::pair<int64_t, int64_t>;
  struct Slice {
    int64_t begin_ns, end_ns;
    std::string category, name;
    int64_t correlation;
    Track track;
  };

  static Track track_of(const nlohmann::json& event) {
    return {event.at("pid").get<int64_t>(), event.at("tid").get<int64_t>()};
  }

  template <typename... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    broken_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  static int64_t nanoseconds(const nlohmann::json& us) {
    return std::llround(us.get<double>() * 1000);
  }
  bool is_whole(const nlohmann::json& us) const {
    return std::abs(us.get<double>() * 1000 - static_cast<double>(nanoseconds(us))) < 1e-3;
  }

  void add_slice(const nlohmann::json& event) {
    const nlohmann::json& args = event.at("args");
    Slice slice{nanoseconds(event.at("ts")),
                0,
                event.at("cat"),
                event.at("name"),
                args.value("correlation", int64_t{0}),
                track_of(event)};
    slice.end_ns = slice.begin_ns + nanoseconds(event.at("dur"));
    if (!is_whole(event.at("ts")) || !is_whole(event.at("dur")))
      say("{} is not in whole nanoseconds", slice.name);
    if (slice.end_ns <= slice.begin_ns) say("{} at {} has no length", slice.name, slice.begin_ns);
    if (is_on_device(slice.category) &&
        (args.value("stream", int64_t{0}) <= 0 || args.at("stream") != slice.track.second))
      say("{} at {} has no stream, or another track's", slice.name, slice.begin_ns);
    tracks_[slice.track].push_back(slice);
    all_.push_back(std::move(slice));
  }

  static bool is_on_device(const std::string& category) {
    return category == "kernel" || category == "gpu_memset" || category == "gpu_memcpy";
  }

  // Among slices that begin together, the outer one comes first.
  void check_nesting(const Track& track, std::vector<Slice>& slices) {
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice& a, const Slice& b) { return a.begin_ns < b.begin_ns; });
    std::vector<const Slice*> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back()->end_ns <= slice.begin_ns) open.pop_back();
      if (!open.empty() && open.back()->end_ns < slice.end_ns)
        say("on track {}/{}, {} at {} outlasts {}", track.first, track.second, slice.name,
            slice.begin_ns, open.back()->name);
      if (!open.empty() && is_on_device(slice.category))
        say("on stream {}, {} at {} runs inside {}", track.second, slice.name, slice.begin_ns,
            open.back()->name);
      open.push_back(&slice);
    }
  }

  void check_links() {
    for (const Slice& slice : all_)
      if (slice.category == "cuda_runtime" && !calls_.emplace(slice.correlation, &slice).second)
        say("two calls have correlation {}", slice.correlation);
    for (const Slice& slice : all_)
      if (is_on_device(slice.category) && !calls_.contains(slice.correlation))
        say("no call launched {} at {}", slice.name, slice.begin_ns);
  }

  // An arrow binds to the slice that begins where it does.
  bool is_bound(const nlohmann::json& flow) const {
    auto track = tracks_.find(track_of(flow));
    return track != tracks_.end() &&
           std::any_of(track->second.begin(), track->second.end(), [&](const Slice& slice) {
             return slice.begin_ns == nanoseconds(flow.at("ts")) &&
                    slice.correlation == flow.at("id").get<int64_t>();
           });
  }

  void check_flows() {
    std::map<int64_t, int64_t> begun;
    for (const nlohmann::json& flow : flows_) {
      const int64_t id = flow.at("id"), at = nanoseconds(flow.at("ts"));
      if (flow.at("cat") != "ac2g" || !is_bound(flow)) say("arrow {} at {} is loose", id, at);
      if (flow.at("ph") == "s" && !begun.emplace(id, at).second) say("arrow {} begins twice", id);
    }
    size_t ends = 0;
    for (const nlohmann::json& flow : flows_) {
      if (flow.at("ph") != "f") continue;
      ++ends;
      auto from = begun.find(flow.at("id").get<int64_t>());
      if (from == begun.end() || from->second > nanoseconds(flow.at("ts")))
        say("arrow {} ends before it begins", flow.at("id").get<int64_t>());
    }
    const auto kernels = std::count_if(
        all_.begin(), all_.end(), [](const Slice& slice) { return is_on_device(slice.category); });
    if (ends != static_cast<size_t>(kernels)) say("{} arrows end at {} kernels", ends, kernels);
  }

  void check_steps() {
    std::vector<const Slice*> steps;
    for (const Slice& slice : all_)
      if (slice.name.starts_with("ProfilerStep#")) steps.push_back(&slice);
    if (steps.empty()) return say("no step is marked");
    for (const Slice& slice : all_)
      if (slice.track == steps[0]->track &&
          std::none_of(steps.begin(), steps.end(), [&](const Slice* step) {
            return step->begin_ns <= slice.begin_ns && slice.end_ns <= step->end_ns;
          }))
        say("{} at {} belongs to no step", slice.name, slice.begin_ns);
  }

  std::vector<Slice> all_;
  std::map<Track, std::vector<Slice>> tracks_;
  std::set<Track> named_;
  std::vector<nlohmann::json> flows_;
  std::map<int64_t, const Slice*> calls_;
  std::vector<std::string> broken_;
};

}  // namespace ridge::report
