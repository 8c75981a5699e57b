// SPDX-License-Identifier: Apache-2.0
// The demo mlp-multiples: a lecture's MLP with its gradient, by one to five times the steps,
// layers, batch and width.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "runtime/program.h"

namespace ridge::courses {
namespace {

// The lecture's sizes: layers of 256 x 256, each with a GELU after it.
struct Sizes {
  int64_t layers = 4, batch = 256, width = 256;
};

TrialGraph mlp(const Sizes& sizes) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {sizes.batch, sizes.width}});
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    ValueId weight =
        b.input(fmt::format("weight {}", layer), {DType::kF32, {sizes.width, sizes.width}});
    x = ops::unary(b, "gelu_tanh", ops::matmul(b, "nk,mk->nm", x, weight));
  }
  trial.graph.outputs = {x};
  return trial;
}

TrialSetting with_gradient() {
  TrialSetting setting;
  setting.is_backward = true;
  return setting;
}

constexpr int64_t kMost = 5;

// The lecture's milliseconds at two to five times each; it does not print those of the base.
struct LectureTimes {
  std::string_view form;
  std::array<double, kMost - 1> ms;
};
constexpr LectureTimes kLecture[] = {{"steps", {3.81, 5.71, 7.56, 9.43}},
                                     {"layers", {3.40, 4.79, 6.20, 7.70}},
                                     {"batch", {1.94, 1.97, 2.02, 2.03}},
                                     {"width", {1.92, 1.99, 2.04, 1.97}}};

// Several steps are several runs of one program, waited for at the end.
void add_steps(Fixture& fixture) {
  backends::Backend& device = fixture.backend();
  const TrialGraph trial = mlp({});
  const record::BenchPoint step = plan_trial(trial, with_gradient(), device, &fixture.ceilings());
  runtime::Store store(device);
  runtime::Program program(device, store);
  const Graph graph = prepare(trial, with_gradient(), device).graph;
  program.add("step", graph);
  program.bind();
  for (const Value& value : graph.values)
    if (value.storage == Storage::kInput) fill_operand(store, value.name, {});
  Fixture::Loop loop;
  for (int64_t steps = 1; steps <= kMost; ++steps) {
    loop.work += step.work;
    loop.bytes += step.planned_bytes;
    loop.predicted_ns += step.predicted_ns;
    loop.once = [&] {
      for (int64_t i = 0; i < steps; ++i) program.run(0);
      program.wait();
    };
    fixture.add_loop("steps", {{"x", steps}}, loop).launches = steps * step.launches;
  }
}

// The time here and the lecture's on an A100, where launches of the host bound it.
std::string said(const char* form, const std::string& here, double lecture) {
  return fmt::format("{} {} (the lecture's A100 {:.2f})", form, here, lecture);
}

void run(Fixture& fixture) {
  add_steps(fixture);
  for (int64_t times = 1; times <= kMost; ++times)
    fixture.add("layers", {{"x", times}}, mlp({.layers = 4 * times}), with_gradient());
  for (int64_t times = 1; times <= kMost; ++times)
    fixture.add("batch", {{"x", times}}, mlp({.batch = 256 * times}), with_gradient());
  for (int64_t times = 1; times <= kMost; ++times)
    fixture.add("width", {{"x", times}}, mlp({.width = 256 * times}), with_gradient());
  for (record::BenchPoint& point : fixture.record.points)
    for (const LectureTimes& lecture : kLecture)
      if (const auto times = static_cast<size_t>(point.extents[0].second);
          point.form == lecture.form && times > 1)
        point.published_ns[kLectureMachine] = 1e6 * lecture.ms.at(times - 2);
  const auto at = [&](const char* form, int64_t times) { return fixture.find(form, times); };
  const auto predicted = [&](const char* form) {
    return times_predicted(at(form, kMost), at(form, 1));
  };
  const auto measured = [&](const char* form) { return times_text(at(form, kMost), at(form, 1)); };
  fixture.record.prediction = fmt::format(
      "five times the steps take {:.2f} times as long, the layers {:.2f}, the batch {:.2f}, the width {:.2f}.",
      predicted("steps"), predicted("layers"), predicted("batch"), predicted("width"));
  fixture.record.finding =
      fmt::format("five times as much takes: {}; {}; {}; {}.",
                  said("steps", measured("steps"), 4.47), said("layers", measured("layers"), 3.65),
                  said("batch", measured("batch"), 0.96), said("width", measured("width"), 0.93));
}

}  // namespace

Demo mlp_multiples_demo() {
  return {
      "mlp-multiples",
      "Steps and layers add kernels, batch and width make them larger: what bounds the host sees only the first.",
      {"FLOPs grow with steps, layers and batch, and with the square of the width.",
       "Where launches take longer than kernels, larger kernels cost nothing: batch and width stand still.",
       "Where kernels take longer than launches, as on a CPU, the time follows the FLOPs.",
       "A time that does not grow with the work is that of the host: launch fewer kernels, or larger ones."},
      "x: times the base",
      run};
}

}  // namespace ridge::courses
