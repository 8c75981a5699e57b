// SPDX-License-Identifier: Apache-2.0
// Draws extents by rejection: until the bytes are in the octave that was drawn first.
#include "bench/shape_draw.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace ridge::bench {
namespace {

// The order of each twenty shapes.
constexpr std::array<std::string_view, 20> kDrawOrder = {
    "gemm",      "pointwise", "norm", "gemv",      "gemm",      "attention", "gemm",
    "pointwise", "norm",      "gemm", "gemv",      "attention", "gemm",      "pointwise",
    "norm",      "gemm",      "gemv", "attention", "pointwise", "norm"};

constexpr double kLeastBytes = 32 << 10, kMostBytes = 2147483648.0;
constexpr double kMostFlops = 6e10;  // half a second of two cores
constexpr int kTries = 100'000;

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  DrawnShape shape(std::string_view kind, const TrialType& type) {
    type_ = type;
    width_ = static_cast<double>(storage_bytes(type.activations, 1));
    DrawnShape drawn = kind == "gemm"        ? gemm()
                       : kind == "gemv"      ? gemv()
                       : kind == "attention" ? attention()
                       : kind == "pointwise" ? pointwise()
                                             : norm();
    drawn.kind = kind;
    return drawn;
  }

 private:
  double between(double low, double high) {
    return std::exp(std::log(low) + random_.uniform() * (std::log(high) - std::log(low)));
  }
  // Evenly over the octaves; half of the extents are multiples of 64, as most are in models.
  int64_t extent(double low, double high) {
    const double drawn = between(low, high);
    const bool is_round = random_.below(2) == 0;
    const int64_t value = std::llround(drawn);
    return is_round && value > 64 ? value / 64 * 64 : std::max<int64_t>(value, 1);
  }
  template <class T, size_t n>
  const T& one_of(const std::array<T, n>& all) {
    return all[random_.below(static_cast<uint32_t>(n))];
  }

  // Draws until `make` gives an octave's bytes and not too much work; the last try stands.
  struct Size {
    double bytes = 0, flops = 0;
  };
  template <class Make>
  void fit(const Make& make) {
    const double target = between(kLeastBytes, kMostBytes);
    for (int i = 0; i < kTries; ++i) {
      const Size size = make();
      if (size.flops <= kMostFlops && size.bytes >= target / std::sqrt(2.0) &&
          size.bytes <= std::min(target * std::sqrt(2.0), kMostBytes))
        return;
      // Some octaves have no shape with so little work: then any that is small enough stands.
      if (i > kTries / 2 && size.flops <= kMostFlops && size.bytes <= kMostBytes &&
          size.bytes >= kLeastBytes)
        return;
    }
    throw InternalError("no shape has the size that was drawn");
  }

  DrawnShape made(std::string_view name, const record::Extents& extents, std::string layout = "") {
    DrawnShape drawn;
    drawn.op = find_op_shape(name);
    RIDGE_CHECK(drawn.op != nullptr, "no op {}", name);
    drawn.request.extents = points(drawn.op->letters, extents, {})[0];
    drawn.request.type = type_;
    drawn.request.layout = !layout.empty()             ? std::move(layout)
                           : drawn.op->layouts.empty() ? ""
                                                       : drawn.op->layouts.front();
    drawn.request.implementation = drawn.op->implementations.front();
    return drawn;
  }

  DrawnShape gemm() {
    static constexpr std::array<std::string_view, 4> kLayouts = {"nt", "nt", "nn", "tn"};
    int64_t n = 0, k = 0, m = 0;
    fit([&]() -> Size {
      n = extent(16, 16384), k = extent(16, 32768), m = extent(16, 32768);
      const double dn = static_cast<double>(n), dk = static_cast<double>(k),
                   dm = static_cast<double>(m);
      return {width_ * (dn * dk + dk * dm + dn * dm), 2 * dn * dk * dm};
    });
    return made("matmul", {{"n", n}, {"k", k}, {"m", m}}, std::string(one_of(kLayouts)));
  }

  DrawnShape gemv() {
    int64_t k = 0, m = 0;
    fit([&]() -> Size {
      k = extent(64, 65536), m = extent(64, 65536);
      const double elements = static_cast<double>(k) * static_cast<double>(m);
      return {width_ * elements, 2 * elements};
    });
    return made("gemv", {{"k", k}, {"m", m}});
  }

  DrawnShape attention() {
    static constexpr std::array<int64_t, 2> kSizes = {64, 128};
    static constexpr std::array<int64_t, 4> kGroups = {1, 1, 2, 4};
    static constexpr std::array<int64_t, 3> kBatches = {1, 2, 4};
    int64_t b = 0, h = 0, kv = 0, t = 0, e = 0;
    fit([&]() -> Size {
      const int64_t group = one_of(kGroups);
      b = one_of(kBatches), kv = extent(1, 16), h = group * kv, t = extent(32, 8192);
      e = one_of(kSizes);
      const double rows = static_cast<double>(b) * static_cast<double>(t),
                   de = static_cast<double>(e);
      return {width_ * rows * de * static_cast<double>(2 * h + 2 * kv),
              4 * rows * static_cast<double>(h) * static_cast<double>(t) * de};
    });
    DrawnShape drawn = made("attention", {{"b", b}, {"h", h}, {"k", kv}, {"t", t}, {"e", e}});
    drawn.request.is_causal = random_.below(4) != 0;
    if (random_.below(4) == 0)
      drawn.request.implementation = choose_implementations(*drawn.op, type_, "standard")[0];
    return drawn;
  }

  DrawnShape pointwise() {
    static constexpr std::array<std::string_view, 12> kOps = {
        "add", "mul",  "sub",  "div",     "scale", "square",
        "exp", "tanh", "sqrt", "sigmoid", "silu",  "gelu_tanh"};
    const std::string_view op = one_of(kOps);
    const double operands = op == "add" || op == "mul" || op == "sub" || op == "div" ? 3 : 2;
    int64_t n = 0;
    fit([&]() -> Size {
      n = extent(4096, 1e9);
      return {width_ * operands * static_cast<double>(n), 0};
    });
    return made(op, {{"n", n}});
  }

  DrawnShape norm() {
    static constexpr std::array<std::string_view, 4> kOps = {"rms_norm", "softmax", "log_softmax",
                                                             "reduce_sum"};
    const std::string_view op = one_of(kOps);
    const double operands = op == "reduce_sum" ? 1 : 2;
    int64_t n = 0, d = 0;
    fit([&]() -> Size {
      n = extent(1, 4e6), d = extent(64, 32768);
      return {width_ * operands * static_cast<double>(n) * static_cast<double>(d), 0};
    });
    return made(op, {{"n", n}, {"d", d}});
  }

  Random random_;
  TrialType type_;
  double width_ = 4;
};

// "norm: median 4%, 90% of them within 9%" over the errors of the measured points.
std::string errors_text(const std::string& name, std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  const size_t within = std::min(errors.size() - 1, errors.size() * 9 / 10);
  return fmt::format(
      "{}: {} shapes, median absolute error {:.1f}%, 90% within {:.0f}%, largest {:.0f}%.", name,
      errors.size(), 100 * median(errors), 100 * errors[within], 100 * errors.back());
}

}  // namespace

std::string DrawnShape::form() const {
  if (kind == "gemm") return request.layout;
  std::string text =
      op->implementations.size() > 1 && kind != "gemv" ? request.implementation.name : "";
  if (request.is_causal) text += (text.empty() ? "" : " ") + std::string("causal");
  return text;
}

std::vector<DrawnShape> draw_shapes(uint32_t seed, int64_t count) {
  Draw draw(seed);
  const TrialType types[] = {parse_trial_type("fp32"), parse_trial_type("bf16")};
  std::vector<DrawnShape> shapes;
  // The kinds have odd distances in the order, so that both types come to each of them.
  for (int64_t i = 0; i < count; ++i) {
    const size_t place = static_cast<size_t>(i) % kDrawOrder.size();
    const int64_t before =
        std::count(kDrawOrder.begin(), kDrawOrder.begin() + static_cast<int64_t>(place),
                   kDrawOrder[place]) +
        i / std::ssize(kDrawOrder);
    shapes.push_back(draw.shape(kDrawOrder[place], types[before % 2]));
  }
  return shapes;
}

record::BenchRecord time_shapes(const std::vector<DrawnShape>& shapes,
                                TrialRunner& runner,
                                const PointListener& listener) {
  record::BenchRecord record;
  record.kind = "shapes";
  record.dtype = "fp32 and bf16";
  std::map<std::string, std::vector<double>> errors;  // by kind
  for (const DrawnShape& each : shapes) {
    TrialSetting setting;
    setting.selection = passes::Selection("baseline", each.request.implementation.switches);
    record::BenchPoint point = runner.point(each.op->build(each.request), setting);
    if (runner.is_stopped()) break;
    point.name = each.op->name;
    for (const auto& extent : each.request.extents)
      if (extent.second < kMostExtent) point.extents.push_back(extent);
    point.form = each.form();
    point.phase = each.kind;
    point.dtype = each.request.type.name;
    if (const std::optional<double> error = point.prediction_error())
      for (const std::string& kind : {each.kind, std::string("all")})
        errors[kind].push_back(std::abs(*error));
    listener(1, each.op->name);
    record.points.push_back(std::move(point));
  }
  for (const auto& [kind, all] : errors) record.notes.push_back(errors_text(kind, all));
  return record;
}

}  // namespace ridge::bench
