// SPDX-License-Identifier: Apache-2.0
// The demo initialisation: the first loss of a model by the size of its random weights.
#include <fmt/format.h>

#include <cmath>

#include "courses/demos/demos.h"
#include "models/forward_graph.h"
#include "ops/registry.h"
#include "runtime/program.h"

namespace ridge::courses {
namespace {

double first_loss(double deviation, backends::Backend& device) {
  const models::ModelConfig& config = models::preset("tiny").config;
  constexpr int64_t kTokens = 64;
  models::ForwardGraph forward = models::build_training_graph(config, ops::table(), 1, kTokens);
  TrialGraph trial{std::move(forward.graph), {}, {}};
  const PreparedGraph prepared = prepare(trial, {}, device);
  runtime::Store store(device);
  runtime::Program program(device, store);
  program.add("loss", prepared.graph);
  program.bind();
  const Fill ids{Fill::kIds, static_cast<double>(config.vocabulary), false};
  for (const std::string& name : store.names()) {
    const bool is_vector = store.type(name).shape.rank() == 1;
    fill_operand(store, name,
                 name == "ids"         ? ids
                 : name == "labels"    ? Fill{Fill::kDistinct}
                 : name == "positions" ? Fill{Fill::kPositions, kTokens}
                 : is_vector           ? Fill{Fill::kConstant, 1}
                                       : Fill{Fill::kNormal, deviation});
  }
  program.run(0);
  return static_cast<double>(program.read(0, program.graph(0).graph().outputs[0])[0]);
}

void run(Fixture& fixture) {
  const double vocabulary = static_cast<double>(models::preset("tiny").config.vocabulary);
  fixture.record.prediction = fmt::format(
      "a model that knows nothing gives each of {:.0f} tokens the same probability: a loss of ln {:.0f} = {:.3f}.",
      vocabulary, vocabulary, std::log(vocabulary));
  fixture.record.quantity = "first loss";
  for (double deviation : {0.02, 0.1, 0.3, 1.0, 4.0, 16.0}) {
    if (fixture.is_stopped()) return;
    fixture.record.values.emplace_back(fmt::format("weights of {:g}", deviation),
                                       first_loss(deviation, fixture.backend()));
  }
  fixture.record.finding =
      fmt::format("the first loss is {:.3f} with weights of 0.02 and {:.0f} with weights of 16.",
                  fixture.record.values.front().second, fixture.record.values.back().second);
}

}  // namespace

Demo initialisation_demo() {
  return {
      "initialisation",
      "With weights of a standard deviation of 0.02 the first loss is ln V; with large ones it is a hundred times that.",
      {"The logits of a product of D elements grow with the square root of D and with the weights.",
       "Large logits are confident, and confidence in a random token costs its whole size as loss.",
       "The first steps of a badly initialised model do nothing but shrink the logits.",
       "A first loss that is not ln V is the cheapest bug report that training gives."},
      "",
      run};
}

}  // namespace ridge::courses
