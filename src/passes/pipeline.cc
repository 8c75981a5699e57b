// SPDX-License-Identifier: Apache-2.0
// The list of passes as a table, the levels, and the loop that runs the passes.
#include "passes/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "cost/cost.h"
#include "cost/predict.h"
#include "graph/verifier.h"
#include "passes/passes.h"
#include "plan/planner.h"

namespace ridge::passes {

RIDGE_PASSES(RIDGE_DEFINE_PASS, RIDGE_NO_PASS, RIDGE_NO_PASS)

std::span<const Listed> list() {
#define RIDGE_ALL(name, stage, serves, level, ...) Listed{#name, "all", #level, &name##_pass},
#define RIDGE_CPU(name, stage, serves, level, ...) Listed{#name, "cpu", #level, nullptr},
#define RIDGE_CUDA(name, stage, serves, level, ...) Listed{#name, "cuda", #level, nullptr},
  static const std::array lines = {RIDGE_PASSES(RIDGE_ALL, RIDGE_CPU, RIDGE_CUDA)};
#undef RIDGE_ALL
#undef RIDGE_CPU
#undef RIDGE_CUDA
  return lines;
}

std::vector<const Pass*> pipeline(std::span<const Pass* const> own) {
  std::vector<const Pass*> passes;
  for (const Listed& line : list()) {
    auto found = std::find_if(own.begin(), own.end(),
                              [&](const Pass* pass) { return pass->name == line.name; });
    const Pass* pass = line.pass != nullptr ? line.pass : found != own.end() ? *found : nullptr;
    // A pass of two backends has two lines.
    if (pass != nullptr && (passes.empty() || passes.back() != pass)) passes.push_back(pass);
  }
  return passes;
}

namespace {

constexpr std::array kOptions = {
    Option{"tune_gemm", "compiled", false, "choose each GEMM's algorithm by timing"},
    Option{"capture", "compiled", true, "GPU: replay the whole step as one CUDA graph"},
    Option{"branches", "compiled", true, "GPU: run independent kernels in parallel"},
    Option{"tf32", "none", true, "GPU: round the fp32 inputs of GEMMs to TF32 (--dtype tf32)"},
};

Level level(std::string_view name, std::string_view summary) {
  Level level{name, summary, {}};
  for (const Listed& line : list())
    if (line.level == name && std::count(level.adds.begin(), level.adds.end(), line.name) == 0)
      level.adds.push_back(line.name);
  for (const Option& option : kOptions)
    if (option.level == name) level.adds.push_back(option.name);
  return level;
}

}  // namespace

std::span<const Level> levels() {
  static const std::array levels = {
      level("baseline", "an eager framework: one kernel per primitive"),
      level("fused", "projections and attention fused"),
      level("kernels", "hand-written kernels for memory-bound ops and for GEMMs"),
      level("compiled",
            "what a compiler does: generated kernels, tuned GEMMs, replay of the whole step"),
  };
  return levels;
}

std::span<const Option> options() { return kOptions; }

std::string_view name(Stage stage) {
  constexpr std::string_view kNames[] = {"forward", "step", "target"};
  return kNames[static_cast<size_t>(stage)];
}

std::string_view name(Serves serves) {
  constexpr std::string_view kNames[] = {"training", "inference", "both"};
  return kNames[static_cast<size_t>(serves)];
}

namespace {

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Listed& line : list())
    if (names.empty() || names.back() != line.name) names.emplace_back(line.name);
  for (const Option& option : options()) names.emplace_back(option.name);
  return names;
}

bool is_known(std::string_view name) {
  const std::vector<std::string> names = known_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Commands that users saved may name a pass as older versions did.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {
    {"fuse_row_products", "fuse_skinny_gemm"},
};

std::string_view present_name(std::string_view name) {
  for (const auto& [former, now] : kFormerNames)
    if (name == former) return now;
  return name;
}

// The passes that may have a number.
struct Numbered {
  std::string_view pass;
  std::string_view expected;
  bool (*takes)(int64_t number);
};
constexpr Numbered kNumbered[] = {
    {"recompute", "a number of layers >= 1", [](int64_t number) { return number >= 1; }},
    {"data_parallel", "a number of ranks >= 1", [](int64_t number) { return number >= 1; }},
    {"shard_tensor_parallel", "a number of ranks >= 1", [](int64_t number) { return number >= 1; }},
    {"train_tensor_parallel", "a number of ranks >= 1", [](int64_t number) { return number >= 1; }},
    {"zero", "a stage from 1 to 3", [](int64_t number) { return number >= 1 && number <= 3; }},
    {"quantize_activations", "8 or 16 bits",
     [](int64_t number) { return number == 8 || number == 16; }}};

// Cuts "=4" off "recompute=4". Throws usage Errors for numbers that the pass does not take.
std::optional<int64_t> cut_number(std::string_view& name) {
  const size_t at = name.find('=');
  const auto* found =
      std::find_if(std::begin(kNumbered), std::end(kNumbered),
                   [&](const Numbered& each) { return each.pass == name.substr(0, at); });
  if (at == std::string_view::npos || found == std::end(kNumbered)) return std::nullopt;
  const std::string_view digits = name.substr(at + 1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || !found->takes(number))
    throw usage_error("[pass] expected {} after {}=, got {}", found->expected, found->pass,
                      printable(digits));
  name = name.substr(0, at);
  return number;
}

cost::GraphCost graph_cost(const Graph& graph, const PassContext& context) {
  const cost::CostedGraph costed = cost::count(plan::plan(graph, context.target));
  const cost::NodeCost sum = cost::total(costed.costs);
  return {static_cast<int64_t>(graph.nodes.size()),
          sum.launches,
          sum.work.flops,
          sum.bytes(),
          costed.memory.arena_bytes,
          context.ceilings == nullptr ? 0 : cost::predict_run_ns(costed, *context.ceilings)};
}

}  // namespace

bool is_required(std::string_view name) { return name == "expand" || name == "legalize"; }

std::vector<Switch> parse_switches(std::string_view text) {
  std::vector<Switch> switches;
  for (size_t at = 0; at < text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    std::string_view item = text.substr(at, comma - at);
    at = comma + 1;
    if (item.empty()) continue;
    const bool is_on = !item.starts_with('-');
    std::string_view name = item.starts_with('+') || !is_on ? item.substr(1) : item;
    const std::optional<int64_t> number = is_on ? cut_number(name) : std::nullopt;
    name = present_name(name);
    if (!is_known(name))
      throw usage_error("[pass] unknown pass {}{}; expected one of {}", printable(name),
                        did_you_mean(name, known_names()), fmt::join(known_names(), ", "));
    if (!is_on && is_required(name))
      throw usage_error("[pass] '{}' cannot be turned off: every run needs it", name);
    switches.push_back({name, is_on, number});
  }
  return switches;
}

void expect_effect(std::string_view text,
                   Serves serves,
                   std::span<const Pass* const> own,
                   bool on_gpu) {
  if (text.starts_with(',') || text.ends_with(',') || text.find(",,") != std::string_view::npos)
    throw usage_error("[pass] expected names separated by commas, got {}", printable(text));
  const std::vector<Switch> switches = parse_switches(text);
  const std::vector<const Pass*> available = pipeline(own);
  const char* device = on_gpu ? "a GPU" : "a CPU";
  for (const Switch& each : switches) {
    for (const Switch& other : switches)
      if (other.name == each.name && other.is_on != each.is_on)
        throw usage_error("[pass] {} is switched both on and off", each.name);
    const auto option = std::find_if(options().begin(), options().end(),
                                     [&](const Option& o) { return o.name == each.name; });
    if (option != options().end()) {
      if (option->gpu_only && !on_gpu)
        throw usage_error("[pass] {} has no effect on {}", each.name, device);
      continue;
    }
    const auto pass = std::find_if(available.begin(), available.end(),
                                   [&](const Pass* p) { return p->name == each.name; });
    if (pass == available.end())
      throw usage_error("[pass] {} has no effect on {}, which does not have this pass", each.name,
                        device);
    if ((*pass)->serves != serves && (*pass)->serves != Serves::kBoth)
      throw usage_error("[pass] expected passes for {}; {} is for {}", name(serves), each.name,
                        name((*pass)->serves));
  }
}

Selection::Selection(std::string_view level, std::string_view switches) : level_(level) {
  bool found = false;
  for (const Level& each : levels()) {
    for (std::string_view added : each.adds) on_.insert(std::string(added));
    found = each.name == level;
    if (found) break;
  }
  if (!found) {
    std::string names;
    for (const Level& each : levels())
      names += (names.empty() ? "" : ", ") + std::string(each.name);
    throw usage_error("[level] expected one of {}, got '{}'", names, level);
  }
  for (const Switch& each : parse_switches(switches)) {
    const std::string name(each.name);
    numbers_.erase(name);
    if (each.is_on)
      on_.insert(name);
    else
      on_.erase(name);
    if (each.number) numbers_[name] = *each.number;
  }
}

std::optional<int64_t> Selection::number(std::string_view name) const {
  const auto found = numbers_.find(std::string(name));
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::string Selection::spelling(std::string_view name) const {
  const std::optional<int64_t> found = number(name);
  return std::string(name) + (found ? fmt::format("={}", *found) : "");
}

std::string Selection::str() const {
  std::string text;
  for (const std::string& name : on_) text += (text.empty() ? "" : ",") + spelling(name);
  return text;
}

Graph run_stage(Stage stage,
                const Graph& graph,
                const Selection& selection,
                PassContext& context,
                std::vector<cost::PassRecord>* records) {
  std::optional<Graph> made;  // by the passes so far
  std::optional<cost::GraphCost> before;
  for (const Pass* pass : pipeline(context.own)) {
    if (pass->stage != stage || !selection.has(pass->name)) continue;
    context.number = selection.number(pass->name);
    const Graph& current = made ? *made : graph;
    double begin = now_ns();
    Graph next = pass->run(current, context);
    double elapsed = now_ns() - begin;
    verify(next);
    verify_origins(current, next);
    if (records != nullptr) {
      if (!before) before = graph_cost(current, context);
      cost::GraphCost after = graph_cost(next, context);
      records->push_back({std::string(pass->name), std::string(name(stage)),
                          std::string(pass->summary), std::string(pass->trade), *before, after,
                          elapsed});
      before = after;
    }
    made = std::move(next);
  }
  return made ? *std::move(made) : graph;
}

}  // namespace ridge::passes
