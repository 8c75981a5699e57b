// SPDX-License-Identifier: Apache-2.0
// Runs both graphs by the references of their ops.
#include "bench/own_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "bench/graph_file.h"
#include "graph/verifier.h"
#include "ops/double_run.h"
#include "ops/registry.h"
#include "passes/pipeline.h"

namespace ridge::bench {
namespace {

Graph expanded(const Graph& graph, const passes::PassTarget& target) {
  LoadGraph load;
  passes::PassContext context{ops::table(), target, load, nullptr, target.passes()};
  const std::vector<const passes::Pass*> all = passes::pipeline(target.passes());
  const auto expand = std::ranges::find(all, "expand", &passes::Pass::name);
  RIDGE_CHECK(expand != all.end(), "there is no pass expand");
  return (*expand)->run(trial_of_outputs(graph).graph, context);
}

}  // namespace

double rule_error(const GraphRule& rule, const passes::PassTarget& target) {
  static_cast<void>(rewrite_rule(rule));
  ops::NamedTensors operands = ops::random_operands(rule.pattern, 29, 2);
  for (const Value& each : rule.replacement.values)
    if (each.producer == kNoNode && operands.at(each.name).type != each.type)
      throw usage_error("[{}] expected {} of the type {} in both graphs, got {}", rule.name,
                        printable(each.name), operands.at(each.name).type.str(), each.type.str());
  const auto run = [&](const Graph& graph) {
    return std::move(ops::run_in_double(expanded(graph, target), operands)[0]);
  };
  const Tensor64 expected = run(rule.pattern), found = run(rule.replacement);
  if (found.type != expected.type)
    throw usage_error("[{}] expected a replacement of {}, got {}", rule.name, expected.type.str(),
                      found.type.str());
  return ops::relative_error(found.data, expected.data);
}

Graph apply_rule(const Graph& graph, const GraphRule& rule) {
  const RewriteRule rules[] = {rewrite_rule(rule)};
  Graph next = rewrite(graph, ops::table(), rules);
  verify(next);
  verify_origins(graph, next);
  return next;
}

}  // namespace ridge::bench
