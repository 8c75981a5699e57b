// SPDX-License-Identifier: Apache-2.0
// rope_table: positions i32[N] -> cos and sin f32[N,E/2] of position * frequency, frequency_i =
// theta^(-2i/E), with the scalings of published models: "linear" (divide by factor) and "llama3"
// (divide the low frequencies only).
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "ops/op_from.h"
#include "ops/rope_frequencies.h"

namespace ridge::ops {

std::vector<double> rope_frequencies(const Attrs& attrs) {
  int64_t half = attrs.integer("head_size") / 2;
  const std::string& scaling = attrs.text("scaling");
  double factor = attrs.real("factor");
  std::vector<double> frequencies;
  for (int64_t i = 0; i < half; ++i) {
    double frequency =
        std::pow(attrs.real("theta"), -static_cast<double>(i) / static_cast<double>(half));
    if (scaling == "linear") frequency /= factor;
    if (scaling == "llama3") {
      // Frequencies of wavelengths over original/low are divided by the factor, those under
      // original/high are kept, and those in between are blended.
      double original = attrs.real("original_context");
      double rotations = original * frequency / (2 * std::numbers::pi);
      double low = attrs.real("low_frequency_factor"), high = attrs.real("high_frequency_factor");
      double smooth = std::clamp((rotations - low) / (high - low), 0.0, 1.0);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

namespace {

struct RopeTableOp {
  static Op declaration() {
    return {.name = "rope_table",
            .category = OpCategory::kElementwise,
            .attrs = {{"head_size", int64_t{0}},
                      {"theta", 1e4},
                      {"scaling", std::string(), false},
                      {"factor", 1.0, false},
                      {"original_context", 0.0, false},
                      {"low_frequency_factor", 1.0, false},
                      {"high_frequency_factor", 1.0, false}},
            .formula = "3 FLOPs an entry: angle, cos, sin"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_rank("rope_table", call.inputs[0], 1, "positions");
    expect_dtype("rope_table", call.inputs[0], DType::kI32, "positions");
    int64_t e = call.attrs.integer("head_size");
    expect_even_head(e);
    if (!(call.attrs.real("theta") > 0))
      throw usage_error("[rope] expected theta > 0, got {}", call.attrs.real("theta"));
    const std::string& scaling = call.attrs.text("scaling");
    if (!scaling.empty() && scaling != "linear" && scaling != "llama3")
      throw usage_error("[rope] expected the scaling 'linear' or 'llama3', got '{}'", scaling);
    Type table = f32({call.inputs[0].shape[0], e / 2});
    return {table, table};
  }

  // angle, cos, sin.
  static Work work(const Call& call) {
    int64_t elements = call.inputs[0].shape[0] * (call.attrs.integer("head_size") / 2);
    return arithmetic(3 * elements, 2 * elements);
  }

  static ModelWork model_work(const Call& call) { return {work(call), {}}; }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    std::vector<double> frequencies = rope_frequencies(call.attrs);
    size_t half = frequencies.size();
    for (size_t n = 0; n < inputs[0]->data.size(); ++n)
      for (size_t i = 0; i < half; ++i) {
        outputs[0].data[n * half + i] = std::cos(inputs[0]->data[n] * frequencies[i]);
        outputs[1].data[n * half + i] = std::sin(inputs[0]->data[n] * frequencies[i]);
      }
  }

  static std::vector<Case> cases() {
    CaseInput positions{i32({37}), {Fill::kPositions, 16, false}};
    Attrs plain{{"head_size", int64_t{16}}, {"theta", 1e4}};
    Attrs llama3 = plain;
    llama3.set("scaling", std::string("llama3"));
    llama3.set("factor", 8.0);
    llama3.set("original_context", 32.0);
    llama3.set("low_frequency_factor", 1.0);
    llama3.set("high_frequency_factor", 4.0);
    return {{"plain", {positions}, plain}, {"llama3", {positions}, llama3}};
  }
};

}  // namespace

const Op& rope_table_op() { return op_from<RopeTableOp>(); }

}  // namespace ridge::ops
