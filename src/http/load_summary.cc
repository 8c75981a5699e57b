// SPDX-License-Identifier: Apache-2.0
// Sorts latencies.
#include "http/load_summary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::http {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw usage_error("[slo] expected limits as ttft=500ms,tpot=50ms,e2e=10s, got {}",
                    printable(text));
}

double parse_duration_ns(std::string_view text, const std::string& all) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (error != std::errc() || !(value > 0) || !(value <= 1e9)) refuse(all);
  if (unit == "ms") return value * 1e6;
  if (unit == "s") return value * 1e9;
  refuse(all);
}

// The mean time per token after the first; none for a single token.
std::optional<double> time_per_token(const RequestTimes& times) {
  if (times.output_tokens < 2 || times.arrivals_ns.size() < 2) return std::nullopt;
  return (times.arrivals_ns.back() - times.arrivals_ns.front()) /
         static_cast<double>(times.output_tokens - 1);
}

bool keeps(const RequestTimes& times, const Promise& promise) {
  const auto within = [](std::optional<double> value, std::optional<double> most) {
    return !most || !value || *value <= *most;
  };
  return within(times.arrivals_ns.front() - times.due_ns, promise.ttft_ns) &&
         within(time_per_token(times), promise.tpot_ns) &&
         within(times.end_ns - times.due_ns, promise.e2e_ns);
}

}  // namespace

Promise Promise::parse(const std::string& text) {
  Promise promise;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) refuse(text);
    const std::string_view name = part.substr(0, equals);
    std::optional<double>* limit = name == "ttft"   ? &promise.ttft_ns
                                   : name == "tpot" ? &promise.tpot_ns
                                   : name == "e2e"  ? &promise.e2e_ns
                                                    : nullptr;
    if (limit == nullptr || limit->has_value()) refuse(text);
    *limit = parse_duration_ns(part.substr(equals + 1), text);
  }
  return promise;
}

record::Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(std::max(std::ceil(share * count), 1.0)) - 1];
  };
  return {std::ssize(values), std::accumulate(values.begin(), values.end(), 0.0) / count, at(0.5),
          at(0.9), at(0.99)};
}

record::LoadSummary summarize_load(const LoadResult& result, const Promise& promise) {
  record::LoadSummary sum;
  sum.model = result.model;
  sum.wall_ns = result.wall_ns;
  std::vector<double> ttft, tpot, itl, e2e;
  for (const RequestTimes& each : result.requests) {
    if (!each.error.empty()) {
      ++sum.failed;
      ++sum.errors[each.error];
      continue;
    }
    ++sum.completed;
    sum.prompt_tokens += each.prompt_tokens;
    sum.output_tokens += each.output_tokens;
    ttft.push_back(each.arrivals_ns.front() - each.due_ns);
    e2e.push_back(each.end_ns - each.due_ns);
    if (const std::optional<double> mean = time_per_token(each)) tpot.push_back(*mean);
    for (size_t i = 1; i < each.arrivals_ns.size(); ++i)
      itl.push_back(each.arrivals_ns[i] - each.arrivals_ns[i - 1]);
    sum.kept += keeps(each, promise);
  }
  sum.ttft = percentiles(std::move(ttft));
  sum.tpot = percentiles(std::move(tpot));
  sum.itl = percentiles(std::move(itl));
  sum.e2e = percentiles(std::move(e2e));
  return sum;
}

}  // namespace ridge::http
