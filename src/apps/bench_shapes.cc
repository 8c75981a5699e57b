// SPDX-License-Identifier: Apache-2.0
// ridge bench shapes: predictions against measurements on shapes that a seed draws. Not a subcommand.
#include "apps/bench_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/units.h"
#include "bench/shape_draw.h"

namespace ridge::apps {
namespace {

struct BenchShapesOptions {
  int64_t seed = 27;
  int64_t count = 200;
  int64_t skip = 0;
  BenchRunOptions run;
};

// "norm: median 4%, 90% of them within 9%" over the errors of the measured points.
std::string errors_text(const std::string& name, std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  const size_t within = std::min(errors.size() - 1, errors.size() * 9 / 10);
  return fmt::format(
      "{}: {} shapes, median absolute error {:.1f}%, 90% within {:.0f}%, largest {:.0f}%.", name,
      errors.size(), 100 * median(errors), 100 * errors[within], 100 * errors.back());
}

void run(const BenchShapesOptions& o, const Command& app, const AppContext& context) {
  check(o.run, app);
  for (const auto& [option, value, least] :
       {std::tuple{"count", o.count, int64_t{1}}, std::tuple{"skip", o.skip, int64_t{0}}})
    if (value < least || value > bench::kMostDrawn)
      throw usage_error("[{}] expected {} to {}, got {}", option, least, bench::kMostDrawn, value);
  if (o.seed < 0 || o.seed > UINT32_MAX)
    throw usage_error("[seed] expected 0 to {}, got {}", UINT32_MAX, o.seed);
  std::vector<bench::DrawnShape> shapes =
      bench::draw_shapes(static_cast<uint32_t>(o.seed), o.count + o.skip);
  shapes.erase(shapes.begin(), shapes.begin() + o.skip);
  BenchRun run(o.run, context, false);
  record::BenchRecord record;
  record.kind = "shapes";
  record.name = fmt::format("shapes of seed {}", o.seed);
  record.dtype = "fp32 and bf16";
  std::map<std::string, std::vector<double>> errors;  // by kind
  Progress progress("shapes", o.count, "shapes", context.terminal);
  for (const bench::DrawnShape& each : shapes) {
    bench::TrialSetting setting;
    setting.selection = passes::Selection("baseline", each.request.implementation.switches);
    record::BenchPoint point = run.point(each.op->build(each.request), setting);
    if (run.is_stopped()) break;
    point.name = each.op->name;
    for (const auto& extent : each.request.extents)
      if (extent.second < bench::kMostExtent) point.extents.push_back(extent);
    point.form = each.form();
    point.phase = each.kind;
    point.dtype = each.request.type.name;
    if (const std::optional<double> error = point.prediction_error())
      for (const std::string& kind : {each.kind, std::string("all")})
        errors[kind].push_back(std::abs(*error));
    progress.tick(1, each.op->name);
    record.points.push_back(std::move(point));
  }
  progress.hide();
  for (const auto& [kind, all] : errors) record.notes.push_back(errors_text(kind, all));
  run.finish(std::move(record));
}

}  // namespace

void add_bench_shapes(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchShapesOptions>();
  Command app = bench.add_subcommand(
      "shapes", "Compare predictions with measurements on shapes that a seed draws");
  app.add_option("--seed", o->seed, "of the list").show_default();
  app.add_option("--count", o->count, "shapes").show_default();
  app.add_option("--skip", o->skip, "leave out so many of the list first").show_default();
  add_bench_run_options(app, o->run);
  app.footer(
      "The list has GEMMs, products with a vector, attention, pointwise ops and norms in fp32 and bf16, from 32 KiB to 2 GiB.\n"
      "The error is the predicted time over the measured one, less 1.\n"
      "Examples:\n"
      "  ridge bench shapes --count 10 --plan\n"
      "  ridge bench shapes --count 5 --seconds 0.05 --format csv");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
