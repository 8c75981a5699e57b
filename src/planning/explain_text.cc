// SPDX-License-Identifier: Apache-2.0
// Lists passes and the choice of kernels, and looks up nodes.
#include "planning/explain_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "backends/cpu/passes/passes.h"
#include "backends/cuda/passes/passes.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/units.h"
#include "graph/text_form.h"
#include "ops/registry.h"
#include "passes/pipeline.h"
#include "report/json_text.h"
#include "report/node_text.h"
#include "report/terminal.h"

namespace ridge::planning {
namespace {

using report::Json;
using report::wrap_lines;

const passes::Pass& pass_of(const passes::Listed& line) {
  if (line.pass != nullptr) return *line.pass;
  std::span<const passes::Pass* const> of_backend =
      line.backend == "cpu" ? backends::cpu::passes() : backends::cuda::passes();
  auto found = std::find_if(of_backend.begin(), of_backend.end(),
                            [&](const passes::Pass* pass) { return pass->name == line.name; });
  RIDGE_CHECK(found != of_backend.end(), "the {} backend has no pass '{}'", line.backend,
              line.name);
  return **found;
}

bool has_level(const passes::Listed& line) { return line.level != "none"; }

}  // namespace

std::string pass_list_text(int columns) {
  constexpr std::string_view kIndent = "    ";
  constexpr const char* kLine = "{:<28}{:<9}{:<9}{:<11}{}\n";
  std::string text = fmt::format(kLine, "pass", "stage", "backend", "used for", "level");
  for (const passes::Listed& line : passes::list()) {
    const passes::Pass& pass = pass_of(line);
    text += fmt::format(kLine, pass.name, name(pass.stage), line.backend, name(pass.serves),
                        has_level(line) ? line.level : "-");
    text += wrap_lines(pass.summary, columns, kIndent);
    if (!pass.trade.empty())
      text += wrap_lines(fmt::format("trade-off: {}", pass.trade), columns, kIndent);
  }
  text += "\n--pass also switches these options, which do not change the graph:\n";
  for (const passes::Option& option : passes::options()) {
    text += fmt::format("{:<57}{}\n", option.name, option.level == "none" ? "-" : option.level);
    text += wrap_lines(option.summary, columns, kIndent);
  }
  return text;
}

std::string pass_list_json() {
  Json json = Json::array();
  for (const passes::Listed& line : passes::list()) {
    const passes::Pass& pass = pass_of(line);
    json.push_back({{"pass", pass.name},
                    {"stage", name(pass.stage)},
                    {"backend", line.backend},
                    {"serves", name(pass.serves)},
                    {"level", has_level(line) ? Json(line.level) : nullptr},
                    {"summary", pass.summary},
                    {"trade", pass.trade}});
  }
  return report::json_text(json);
}

std::string passes_off_text(const passes::Selection& selection,
                            std::span<const passes::Pass* const> of_backend,
                            bool verbose,
                            int columns) {
  constexpr const char* kTitle = "Passes that are off (--pass +NAME turns one on):";
  std::string names, lines;
  for (const passes::Pass* pass : passes::pipeline(of_backend)) {
    if (selection.has(pass->name)) continue;
    names += (names.empty() ? " " : ", ") + std::string(pass->name);
    lines += fmt::format("  {}\n{}", pass->name, wrap_lines(pass->summary, columns, "    "));
  }
  return verbose ? fmt::format("\n{}\n{}", kTitle, lines)
                 : wrap_lines(kTitle + names + ".", columns);
}

namespace {

using namespace backends::cpu;
using report::Align;
using report::Table;
using report::wrap_lines;

std::string sets_text(const QuantizedRow& row) {
  if (row.first == row.last) return std::string(name(row.first));
  if (row.first == QuantizedIsa::kScalar && row.last == QuantizedIsa::kAmx) return "all";
  return fmt::format("{}, {}", name(row.first), name(row.last));
}

std::string weights_text(const QuantizedRow& row) {
  constexpr const char* kLayouts[] = {"plain", "blocks", "repacked"};
  constexpr const char* kOthers[] = {"", " + plain", " + any"};
  const bool is_any = row.layout == WeightLayout::kPlain || row.activations == DType::kF32;
  return fmt::format("{}{}{}", kLayouts[static_cast<size_t>(row.layout)],
                     row.most_quant < kAnyQuant ? " to 6 bits" : "",
                     is_any ? "" : kOthers[static_cast<size_t>(row.others)]);
}

std::string kernel_text(const QuantizedKernel& kernel) {
  constexpr const char* kForms[] = {"f32", "int8", "2 x int8", "int16", "bf16 tiles"};
  return fmt::format("{} of {}", kernel.is_gemv() ? "GEMV" : "GEMM",
                     kForms[static_cast<size_t>(kernel.form)]);
}

std::string roundings_text(QuantizedIsa isa) {
  std::string text;
  for (int64_t bits : {16, 8})
    text += fmt::format("{}quantize_activations={}: {} for 1 token, {} for 1,024",
                        text.empty() ? "" : "; ", bits, name(rounded_activations(isa, 1, bits)),
                        name(rounded_activations(isa, 1024, bits)));
  return text;
}

}  // namespace

std::string quantized_table_text(QuantizedIsa isa, const report::TerminalOptions& options) {
  constexpr int64_t kIn = 4096;
  Table table({{"ISA", Align::kLeft},
               {"weights of the launch", Align::kLeft},
               {"activations", Align::kLeft},
               {"tokens"},
               {"kernel", Align::kLeft},
               {"file", Align::kLeft},
               {"tile", Align::kRight, 2},
               {"tokens a task", Align::kRight, 1},
               {"workspace", Align::kRight, 3}});
  for (const QuantizedRow& row : quantized_rows()) {
    const QuantizedKernel& kernel = *row.kernel;
    table.add({sets_text(row), weights_text(row), std::string(name(row.activations)),
               row.most_tokens == kAnyTokens ? "any" : fmt::format("to {}", row.most_tokens),
               kernel_text(kernel), fmt::format("{}.cc", kernel.file),
               kernel.rows == 0 ? "-" : fmt::format("{} x {}", kernel.rows, kernel.vectors),
               kernel.token_block == 0 ? "-" : fmt::format("{}", kernel.token_block),
               kernel.form == ActivationForm::kFloat32
                   ? "-"
                   : format_bytes(activation_bytes(kernel.form, 1, kIn))});
  }
  const std::string notes = fmt::format(
      "The first row that serves a weight counts; + plain and + any: the launch may have weights of "
      "these other layouts. A tile is rows of the weight x vectors of tokens; workspace is that of "
      "one token of {} columns. pack_weights repacks from AVX2 on. This machine runs {}; there, {}.",
      format_integer(kIn), name(isa), roundings_text(isa));
  return wrap_lines("formula: " + ops::quantized_matmul_op().formula, options.columns) + "\n" +
         table.text(options) + wrap_lines(notes, options.columns);
}

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
