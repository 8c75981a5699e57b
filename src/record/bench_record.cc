// SPDX-License-Identifier: Apache-2.0
// Figures that follow from the points of a bench: shares, laws, cliffs.
#include "record/bench_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "record/run_record.h"

namespace ridge::record {
namespace {

double per_s(int64_t amount, double ns) {
  return ns > 0 ? static_cast<double>(amount) / ns * 1e9 : 0;
}

struct Sized {
  double size = 0;
  const BenchPoint* point = nullptr;
};

// The points of each form that have a time, by size.
std::map<std::string, std::vector<Sized>> by_form(const std::vector<BenchPoint>& points,
                                                  std::string_view letter) {
  std::map<std::string, std::vector<Sized>> forms;
  for (const BenchPoint& each : points) {
    const int64_t* size = find(each.extents, letter);
    if (size == nullptr || !(each.ns() > 0)) continue;
    const std::string key = each.form.empty() || each.phase.empty() ? each.form + each.phase
                                                                    : each.form + ", " + each.phase;
    forms[key].push_back({static_cast<double>(*size), &each});
  }
  for (auto& [form, sized] : forms)
    std::stable_sort(sized.begin(), sized.end(),
                     [](const Sized& a, const Sized& b) { return a.size < b.size; });
  return forms;
}

// Time per FLOP, or per byte where there are none.
double unit_ns(const BenchPoint& point) {
  const double amount = point.work.flops > 0 ? static_cast<double>(point.work.flops)
                                             : static_cast<double>(point.planned_bytes);
  return amount > 0 ? point.ns() / amount : 0;
}

// Rows lie along the last extent. They explain a cliff only if they differ from those of `before`.
std::string reason_of(const BenchPoint& point, const BenchPoint& before, std::string_view letter) {
  const int64_t size = *find(point.extents, letter);
  const int64_t row = point.extents.back().second;
  const bool rows_change = row != before.extents.back().second;
  const int64_t bytes = row * (point.dtype == "bf16" || point.dtype == "fp16" ? 2 : 4);
  constexpr int64_t kColliding = 2048, kTile = 16;
  if (rows_change && bytes >= kColliding && (bytes & (bytes - 1)) == 0)
    return fmt::format("rows of {} bytes, a power of two, collide in few sets of the caches",
                       bytes);
  if (size > kTile && size % kTile != 0 && size % kTile <= kTile / 4)
    return fmt::format("{} is {} over a multiple of {}: the last tile is nearly empty", size,
                       size % kTile, kTile);
  return "";
}

}  // namespace

std::string str(const Extents& extents) {
  std::string text;
  for (const auto& [letter, extent] : extents)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", letter, extent);
  return text;
}

const int64_t* find(const Extents& extents, std::string_view letter) {
  for (const auto& [name, extent] : extents)
    if (name == letter) return &extent;
  return nullptr;
}

std::string_view BenchPoint::bound_by() const {
  if (bound == cost::Bound::kMemory && !level.empty()) return level;
  return cost::name(bound);
}

std::optional<double> BenchPoint::limit_share() const {
  if (!(time.median > 0) || !(limit_ns > 0) || limit_ns > time.median) return std::nullopt;
  return limit_ns / time.median;
}

std::optional<double> BenchPoint::prediction_error() const {
  if (!(time.median > 0) || !(predicted_ns > 0)) return std::nullopt;
  return predicted_ns / time.median - 1;
}

double BenchPoint::planned_intensity() const { return ratio(work.flops, planned_bytes); }
double BenchPoint::compulsory_intensity() const { return ratio(work.flops, compulsory_bytes); }
double BenchPoint::flops_per_s() const { return per_s(work.flops, ns()); }
double BenchPoint::bytes_per_s() const { return per_s(planned_bytes, ns()); }

std::optional<double> BenchPoint::unfused_intensity() const {
  if (!unfused_bytes || *unfused_bytes <= 0) return std::nullopt;
  return ratio(work.flops, *unfused_bytes);
}

std::vector<BenchCliff> find_cliffs(const std::vector<BenchPoint>& points,
                                    std::string_view letter) {
  constexpr double kLeast = 1.25;
  std::vector<BenchCliff> cliffs;
  for (const auto& [form, sized] : by_form(points, letter))
    for (size_t i = 1; i < sized.size(); ++i) {
      const double before = unit_ns(*sized[i - 1].point), now = unit_ns(*sized[i].point);
      // The next size tells a cliff from a slope; the last one has only the one before it.
      const double after = i + 1 < sized.size() ? unit_ns(*sized[i + 1].point) : before;
      if (!(before > 0) || !(after > 0)) continue;
      const double ratio = now / std::max(before, after);
      if (ratio >= kLeast)
        cliffs.push_back({(form.empty() ? "" : form + ": ") + str(sized[i].point->extents), ratio,
                          reason_of(*sized[i].point, *sized[i - 1].point, letter)});
    }
  return cliffs;
}

std::vector<BenchFit> fit_laws(const std::vector<BenchPoint>& points, std::string_view letter) {
  constexpr size_t kLeast = 3;
  std::vector<BenchFit> fits;
  for (const auto& [form, sized] : by_form(points, letter)) {
    if (sized.size() < kLeast || sized.front().size == sized.back().size) continue;
    const double n = static_cast<double>(sized.size());
    double x = 0, y = 0, xx = 0, xy = 0;
    for (const Sized& each : sized) {
      const double log_size = std::log(each.size), log_ns = std::log(each.point->ns());
      x += log_size, y += log_ns, xx += log_size * log_size, xy += log_size * log_ns;
    }
    BenchFit fit{form, std::string(letter), 0, (n * xy - x * y) / (n * xx - x * x),
                 0,    std::ssize(sized)};
    const double log_factor = (y - fit.power * x) / n;
    fit.factor = std::exp(log_factor);
    for (const Sized& each : sized)
      fit.residual +=
          std::pow(std::log(each.point->ns()) - log_factor - fit.power * std::log(each.size), 2);
    fit.residual = std::sqrt(fit.residual / n);
    fits.push_back(std::move(fit));
  }
  return fits;
}

}  // namespace ridge::record
