// SPDX-License-Identifier: Apache-2.0
// Each graph of a step has its heading.
#include "planning/step_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/units.h"
#include "graph/text_form.h"
#include "ops/registry.h"
#include "report/node_text.h"

namespace ridge::planning {
namespace {

// "%12" or "12".
ValueId value_id(std::string_view text) {
  std::string_view digits = text.starts_with('%') ? text.substr(1) : text;
  ValueId id = kNoValue;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (error != std::errc() || end != digits.data() + digits.size())
    throw usage_error("[node] expected a value of the graph such as %12, got {}", printable(text));
  return id;
}

std::string heading(const train::StepGraph& each) {
  return fmt::format("# {}: {} run(s) per step\n", each.name, each.repeat);
}

}  // namespace

std::string graphs_text(const train::TrainingStep& step, bool has_origins) {
  std::string text;
  for (const train::StepGraph& each : step.graphs)
    text += heading(each) + print(each.graph, {.origins = has_origins, .scopes = true});
  return text;
}

// Each graph numbers its values, so several graphs may have a value of this number.
std::string value_text(const PricedStep& priced, const std::string& value) {
  const ValueId id = value_id(value);
  std::string text;
  size_t values = 0;
  for (const train::StepGraph& each : priced.step.graphs) {
    values = std::max(values, each.graph.values.size());
    if (id < 0 || id >= std::ssize(each.graph.values)) continue;
    if (priced.step.graphs.size() > 1) text += heading(each);
    text += report::value_text(report::predict_graph(each.graph, priced.backend, priced.ceilings),
                               id, priced.backend);
  }
  if (text.empty())
    throw usage_error("[node] expected a value from %0 to %{}, got %{}", values - 1, id);
  return text;
}

std::string op_text(const PricedStep& priced,
                    const std::string& op,
                    const report::TerminalOptions& terminal) {
  std::string text;
  for (const train::StepGraph& each : priced.step.graphs) {
    if (priced.step.graphs.size() > 1) text += heading(each);
    text += report::op_text(report::predict_graph(each.graph, priced.backend, priced.ceilings),
                            ops::table().at(op), terminal);
  }
  return text;
}

std::string passes_heading(const train::TrainingSetup& setup,
                           const record::RunRecord& planned,
                           bool verbose) {
  // The rows are switches on the first level; the title should name the requested level.
  record::Setting setting = planned.setting;
  setting.level = setup.setting.level;
  setting.switches = setup.setting.switches;
  std::string text =
      fmt::format("{}: {} parameters, {} tokens per step\n", terminal_safe(setting.str()),
                  format_integer(planned.parameters), format_integer(setting.tokens()));
  if (verbose)
    text += fmt::format("passes on: {}\n", fmt::join(split(setup.selection.str(), ','), ", "));
  return text;
}

}  // namespace ridge::planning
