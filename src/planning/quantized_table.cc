// SPDX-License-Identifier: Apache-2.0
// Formats the table of quantized GEMMs.
#include "planning/quantized_table.h"

#include <fmt/format.h>

#include "base/units.h"
#include "ops/registry.h"

namespace ridge::planning {
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

}  // namespace ridge::planning
