// SPDX-License-Identifier: Apache-2.0
// Chooses what charts show.
#include "report/chart_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/dtype.h"
#include "report/json_text.h"

namespace ridge::report {
namespace {

using files::JsonField;

// The type of GEMMs by the name that roofs have: "f32" also where there is no such type.
std::string product_type(const JsonField& part) {
  return std::string(name(parse_dtype(part.text_or("dtype", "")).value_or(DType::kF32)));
}

bool is_vector(const JsonField& part) {
  return 4 * part.real_or("macs", 0) < part.real_or("flops", 0);
}

// The GEMM rates of these types; those of f32 where the machine has no other.
std::vector<JsonField> products_of(const JsonField& roofs, const std::set<std::string>& types) {
  std::vector<JsonField> found, fallback;
  for (const JsonField& each : roofs.at("arithmetic").items()) {
    const std::string& type = each.at("dtype").text();
    if (types.contains(type)) found.push_back(each);
    if (type == name(DType::kF32)) fallback.push_back(each);
  }
  return found.empty() ? fallback : found;
}

std::set<std::string> types_of(std::span<const RooflinePoint> points) {
  std::set<std::string> types;
  for (const RooflinePoint& each : points) types.insert(each.dtype);
  return types;
}

}  // namespace

bool is_measured(const JsonField& point) { return point.real_or("median_ns", 0) > 0; }

double time_of(const JsonField& point) {
  return std::max(0.0, point.real_or(is_measured(point) ? "median_ns" : "predicted_ns", 0));
}

std::string shape_text(const JsonField& point) {
  if (!point.has("shape")) return "";
  const nlohmann::json& shape = point.at("shape").object();
  std::string each_alone, together;
  bool are_equal = shape.size() > 1;
  for (const auto& [letter, extent] : shape.items()) {
    const int64_t value = JsonField(extent, letter).integer();
    each_alone += fmt::format("{}{}={}", each_alone.empty() ? "" : ",", letter, value);
    together += letter + "=";
    are_equal = are_equal && extent == *shape.begin();
  }
  return are_equal ? together + std::to_string(shape.begin()->get<int64_t>()) : each_alone;
}

std::vector<RooflinePoint> bench_points(const JsonField& result) {
  std::vector<RooflinePoint> points;
  for (const JsonField& each : result.at("cases").items()) {
    const bool is_other = result.text_or("byte_convention", "ridge") != "ridge";
    const double ns = time_of(each), flops = each.real_or("flops", 0),
                 bytes = each.real_or(
                     is_other && each.real_or("unfused_bytes", 0) > 0 ? "unfused_bytes" : "bytes",
                     0);
    if (!(ns > 0 && flops > 0 && bytes > 0)) continue;
    std::string name = shape_text(each);
    for (const char* key : {"form", "phase"})
      if (const std::string text = each.text_or(key, ""); !text.empty())
        name += (name.empty() ? "" : " ") + text;
    if (name.empty()) name = each.text_or("name", "");
    points.push_back({name, flops / bytes, 1e9 * flops / ns, is_measured(each), is_vector(each),
                      product_type(each), each.text_or("level", "")});
  }
  return points;
}

std::vector<RooflinePoint> run_points(const JsonField& run) {
  std::vector<RooflinePoint> points;
  if (!run.has("operations")) return points;
  const std::string type = product_type(run.at("setting"));
  for (const JsonField& row : run.at("operations").at("by_op").items())
    if (const double flops = row.real_or("flops", 0), ns = row.real_or("exclusive_ns", 0),
        intensity = row.real_or("flops_per_byte", 0);
        flops > 0 && ns > 0 && intensity > 0)
      points.push_back(
          {row.at("key").text(), intensity, 1e9 * flops / ns, true, is_vector(row), type, ""});
  return points;
}

// A roof is there if a point of the chart has its level or type, because only then can it bound the
// point: a cache that holds no operands and a type that no GEMM uses only hide the lines that
// matter. Memory is always there, as a working set that outgrows its cache falls to it, and so is
// the rate of GEMMs, which ends the slanted roofs.
std::vector<RoofLine> roof_lines(const JsonField& roofs, std::span<const RooflinePoint> points) {
  std::vector<RoofLine> all;
  auto add = [&](const JsonField& each, const char* key, std::string name, bool slanted,
                 bool sheet) {
    const double rate = each.real_or(key, 0);
    // A rate that is within 3% of another one would be drawn over it.
    const bool is_drawn = std::ranges::any_of(all, [&](const RoofLine& other) {
      return other.is_slanted == slanted && std::abs(other.per_s / rate - 1) < 0.03;
    });
    if (rate > 0 && !is_drawn) all.push_back({std::move(name), rate, slanted, sheet});
  };
  std::set<std::string> levels = {"memory"};
  for (const RooflinePoint& each : points) levels.insert(each.level);
  for (const JsonField& each : roofs.at("memory").items()) {
    const std::string& name = each.at("name").text();
    if (!levels.contains(name)) continue;
    add(each, "bytes_per_s", name, true, false);
    add(each, "theoretical_bytes_per_s", name + ", sheet", true, true);
  }
  for (const JsonField& each : products_of(roofs, types_of(points))) {
    const std::string name = each.at("name").text() + " GEMM";
    add(each, "flops_per_s", name, false, false);
    add(each, "theoretical_flops_per_s", name + ", sheet", false, true);
  }
  if (std::ranges::any_of(points, &RooflinePoint::is_vector))
    add(roofs, "vector_flops_per_s", "vector", false, false);
  return all;
}

nlohmann::json roofline_json(const JsonField& roofs, std::span<const RooflinePoint> points) {
  const std::vector<JsonField> memory = roofs.at("memory").items();
  double gemm = 0;
  std::string type;
  for (const JsonField& each : products_of(roofs, types_of(points)))
    if (const double rate = each.real_or("flops_per_s", 0); rate > gemm) {
      gemm = rate;
      type = each.at("dtype").text();
    }
  const double bandwidth = memory.empty() ? 0 : memory.back().real_or("bytes_per_s", 0);
  if (!(gemm > 0 && bandwidth > 0)) return nullptr;
  nlohmann::json lines = nlohmann::json::array();
  for (const RoofLine& each : roof_lines(roofs, points))
    lines.push_back({{"name", each.name},
                     {"per_s", each.per_s},
                     {"is_slanted", each.is_slanted},
                     {"is_sheet", each.is_sheet}});
  return {{"lines", std::move(lines)},
          {"memory_bytes_per_s", bandwidth},
          {"gemm", {{"name", type + " GEMM"}, {"flops_per_s", gemm}}},
          {"vector_flops_per_s", roofs.real_or("vector_flops_per_s", 0)}};
}

nlohmann::json rooflines_json(const cost::Ceilings& ceilings) {
  const nlohmann::json roofs = roofs_json(ceilings);
  nlohmann::json all = nlohmann::json::object();
  for (const cost::ProductRates& rates : ceilings.products) {
    const std::string type(name(rates.dtype));
    RooflinePoint point;
    point.dtype = type;
    all[type] = roofline_json(JsonField(roofs, "roofs"), {&point, 1});
  }
  return all;
}

LossPoints mean_losses(const LossPoints& points, size_t most) {
  const size_t each = (points.size() + most - 1) / most;
  if (each <= 1) return points;
  LossPoints out;
  for (size_t begin = 0; begin < points.size(); begin += each) {
    const size_t end = std::min(points.size(), begin + each);
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += points[i].second;
    out.emplace_back(points[(begin + end - 1) / 2].first, sum / static_cast<double>(end - begin));
  }
  return out;
}

}  // namespace ridge::report
