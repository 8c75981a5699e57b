// SPDX-License-Identifier: Apache-2.0
// ridge bench shapes: predictions against measurements on shapes that a seed draws.
// Not a subcommand.
#include <fmt/format.h>

#include <memory>

#include "apps/bench_run.h"
#include "base/error.h"
#include "bench/shape_draw.h"

namespace ridge::apps {
namespace {

struct BenchShapesOptions {
  int64_t seed = 27;
  int64_t count = 200;
  int64_t skip = 0;
  BenchRunOptions run;
};

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
  show(run, "shapes", o.count, "shapes", [&](const bench::PointListener& listener) {
    record::BenchRecord record = bench::time_shapes(shapes, run.trials(), listener);
    record.name = fmt::format("shapes of seed {}", o.seed);
    return record;
  });
}

}  // namespace

void add_bench_shapes(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchShapesOptions>();
  Command app = bench.add_subcommand(
      "shapes", "Compare predictions with measurements on shapes that a seed draws");
  app.add_option("--seed", o->seed,
                 "seed that draws the shapes; the same seed draws the same ones");
  app.add_option("--count", o->count, "number of shapes to draw");
  app.add_option(
      "--skip", o->skip,
      "number of shapes to leave out at the beginning, to go on where another run ended");
  add_bench_run_options(app, o->run);
  app.footer(
      "The shapes are of GEMMs, products with a vector, attention, pointwise ops and norms in fp32 and\n"
      "bf16, from 32 KiB to 2 GiB.\n"
      "The error is the predicted time over the measured one, less 1.\n"
      "Examples:\n"
      "  ridge bench shapes --count 10 --plan\n"
      "  ridge bench shapes --count 5 --seconds 0.05 --format csv");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
