// SPDX-License-Identifier: Apache-2.0
// Adds passes to a step, one at a time.
#include "planning/pass_costs.h"

#include "passes/pipeline.h"
#include "planning/step_plan.h"

namespace ridge::planning {

std::vector<const passes::Pass*> added_passes(const passes::Selection& selection,
                                              const backends::Backend& backend) {
  const passes::Selection baseline("baseline", "");
  std::vector<const passes::Pass*> added;
  for (const passes::Pass* pass : passes::pipeline(backend.passes()))
    if (selection.has(pass->name) && !baseline.has(pass->name)) added.push_back(pass);
  return added;
}

std::vector<record::PassCost> pass_costs(const train::TrainingSetup& setup,
                                         const backends::Backend& backend,
                                         const cost::Ceilings& ceilings,
                                         const std::function<void(std::string_view)>& progress) {
  auto plan = [&](const std::string& switches) {
    train::TrainingSetup with = setup;
    with.selection = passes::Selection("baseline", switches);
    return plan_step(with, backend, &ceilings);
  };
  std::vector<record::PassCost> costs{{"", std::string(passes::levels()[0].summary), plan("")}};
  std::string on;
  for (const passes::Pass* pass : added_passes(setup.selection, backend)) {
    on += (on.empty() ? "+" : ",+") + setup.selection.spelling(pass->name);
    costs.push_back({std::string(pass->name), std::string(pass->summary), plan(on)});
    progress(pass->name);
  }
  return costs;
}

}  // namespace ridge::planning
