// SPDX-License-Identifier: Apache-2.0
// The gradient of every differentiable op, through differentiate and the CPU's kernels, against
// central differences of its double reference, with composites both whole and expanded. Also tests
// of these checks: a wrong rule, a wrong reference and a faulty kernel must each be reported.
#include <gtest/gtest.h>

#include <set>

#include "backends/op_check.h"
#include "backends/op_samples.h"
#include "base/arena.h"

namespace ridge::backends {
namespace {

// Ops whose gradients are tested: those with a gradient rule, and composites, whose expansion has
// one. differentiate itself handles the gradient of a slice.
bool is_differentiable(const Op& op) {
  return op.gradient != nullptr || op.kind == OpKind::kComposite || op.name == "slice";
}

bool has_differentiable_operand(const Case& sample) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(), [](const CaseInput& i) {
    return i.fill.differentiable && is_float(i.type.dtype);
  });
}

// An update in place has no gradient; it ends a step.
bool updates_an_operand(const Op& op, const Case& sample) {
  std::vector<Type> types;
  for (const CaseInput& input : sample.inputs) types.push_back(input.type);
  Attrs attrs = complete_attrs(op, sample.attrs);
  return op.aliases != nullptr && !op.aliases({types, {}, attrs}).empty();
}

std::vector<Sample> differentiable_samples() {
  std::vector<Sample> samples;
  for (Sample& s : all_samples())
    if (is_differentiable(*s.op) && has_differentiable_operand(s.sample) &&
        !updates_an_operand(*s.op, s.sample))
      samples.push_back(std::move(s));
  return samples;
}

class OpGradient : public testing::TestWithParam<Sample> {};

TEST_P(OpGradient, MatchesCentralDifferences) {
  const auto& [op, sample] = GetParam();
  for (const Variant& form : forms(GetParam())) {
    // A composite without a rule can only be differentiated as its expansion.
    if (form.fused && op->gradient == nullptr) continue;
    for (OperandForm operands : {OperandForm::kPlain, OperandForm::kWiderRows,
                                 OperandForm::kTransposed, OperandForm::kRepeated}) {
      if (operands != OperandForm::kPlain && form.dtype != DType::kF32) continue;
      Variant variant{operands, form.dtype, form.fused, false};
      SCOPED_TRACE(variant.str());
      // Gradients are stored in 16 bits between ops.
      Precision precision = form.dtype == DType::kF32 ? kFloatArithmetic : narrow_steps(form.dtype);
      std::string fault;
      EXPECT_NO_THROW(
          fault = check_gradient(*op, sample, ops::table(), variant, tested_backend(), precision));
      EXPECT_EQ("", fault);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpGradient, testing::ValuesIn(differentiable_samples()), sample_name);

TEST(OpGradients, WhatHasNoneIsKnown) {
  const std::set<std::string> without = {
      // gradients themselves, and slopes: there are no second derivatives
      "step", "silu_backward", "gelu_tanh_backward", "softmax_backward", "log_softmax_backward",
      "nll_loss_backward", "embedding_backward", "rope_qkv_backward", "rms_norm_backward",
      "glu_backward", "flash_attention_backward", "softmax_cross_entropy_backward",
      // constants and functions of integers
      "fill", "rope_table",
      // the end of a step
      "accumulate", "zero", "sum_squares", "clip_coefficient", "loss_scale", "adamw", "adamw_multi",
      // the gradient of cross_entropy_of_parts goes past it
      "cross_entropy_part",
      // only for inference
      "kv_append", "cached_scores", "cached_mask", "cached_softmax", "cached_mix", "sample",
      "quantized_matmul", "skinny_gemm", "rope_append", "append_attention",
      "all_reduce_add_rms_norm",
#ifdef RIDGE_COURSES
      // only in a demo
      "ladder_gemm",
#endif
      // inserted after differentiation
      "generated_pointwise", "transpose_multi", "send", "receive"};
  for (const Op* op : ops::table().all())
    EXPECT_EQ(!is_differentiable(*op), without.contains(op->name)) << op->name;
}

// --- Tests of the checks. ---

// The table with one op replaced by `twin`.
OpTable with(const Op& twin) {
  std::vector<const Op*> ops(ops::table().all().begin(), ops::table().all().end());
  for (const Op*& op : ops)
    if (op->name == twin.name) op = &twin;
  return OpTable(ops);
}

std::string gradient_fault(const Op& op, bool fused = false) {
  Case sample = op.cases()[1];
  Variant variant;
  variant.fused = fused;
  return check_gradient(op, sample, with(op), variant, tested_backend(), kFloatArithmetic);
}

std::string value_fault(const Op& op, Backend& backend = tested_backend()) {
  Case sample = op.cases()[1];
  return check_values(op, sample, with(op), {}, backend, kFloatArithmetic);
}

TEST(TheChecks, ReportNothingOfTheOpsThemselves) {
  for (const char* name : {"tanh", "mul", "softmax", "rms_norm"}) {
    EXPECT_EQ("", gradient_fault(ops::table().at(name))) << name;
    EXPECT_EQ("", value_fault(ops::table().at(name))) << name;
  }
}

TEST(TheChecks, ReportAGradientWithAWrongTerm) {
  Op broken = ops::table().at("tanh");
  broken.gradient = [](const GradientCall& call) -> std::vector<ValueId> {
    Builder& b = call.builder;  // dy - y dy instead of dy - y^2 dy
    return {ops::sub(b, call.output_gradients[0],
                     ops::mul(b, call.node.outputs[0], call.output_gradients[0]))};
  };
  EXPECT_NE(std::string::npos, gradient_fault(broken).find("differences give"))
      << gradient_fault(broken);
}

TEST(TheChecks, ReportAGradientThatIsOneInTenThousandOff) {
  Op broken = ops::table().at("exp");
  broken.gradient = [](const GradientCall& call) -> std::vector<ValueId> {
    Builder& b = call.builder;
    return {ops::scale(b, ops::mul(b, call.node.outputs[0], call.output_gradients[0]), 1.0001)};
  };
  EXPECT_NE("", gradient_fault(broken));
}

TEST(TheChecks, ReportSwappedGradients) {
  Op broken = ops::table().at("mul");
  broken.gradient = [](const GradientCall& call) -> std::vector<ValueId> {
    Builder& b = call.builder;
    return {ops::mul(b, call.output_gradients[0], call.node.inputs[0]),
            ops::mul(b, call.output_gradients[0], call.node.inputs[1])};
  };
  EXPECT_NE("", gradient_fault(broken));
}

TEST(TheChecks, ReportAMissingGradient) {
  Op broken = ops::table().at("mul");
  broken.gradient = [](const GradientCall& call) -> std::vector<ValueId> {
    return {ops::mul(call.builder, call.output_gradients[0], call.node.inputs[1]), kNoValue};
  };
  EXPECT_NE(std::string::npos, gradient_fault(broken).find("no gradient"));
}

TEST(TheChecks, ReportAFusedGradientWithAWrongAttribute) {
  Op broken = ops::table().at("rms_norm");
  broken.gradient = [](const GradientCall& call) {
    const Node& n = call.node;
    return call.builder.call_all("rms_norm_backward",
                                 {call.output_gradients[0], n.inputs[0], n.inputs[1], n.outputs[1]},
                                 {{"offset", 0.25}});
  };
  EXPECT_NE("", gradient_fault(broken, true));
}

TEST(TheChecks, ReportAValueThatIsOneInAHundredThousandOff) {
  Op broken = ops::table().at("softmax");
  broken.reference = [](const Call& call, std::span<const Tensor64* const> inputs,
                        std::span<Tensor64> outputs) {
    ops::table().at("softmax").reference(call, inputs, outputs);
    *std::max_element(outputs[0].data.begin(), outputs[0].data.end()) *= 1 + 1e-5;
  };
  EXPECT_NE(std::string::npos, value_fault(broken).find("want"));
}

TEST(TheChecks, ReportAnExpansionThatIsAnotherFunction) {
  Op broken = ops::table().at("glu");
  broken.expand = [](Builder& b, const Node& node) -> std::vector<ValueId> {
    return {ops::mul(b, ops::unary(b, "sigmoid", node.inputs[0]), node.inputs[1])};
  };
  EXPECT_NE("", value_fault(broken));
}

#ifndef RIDGE_TEST_CUDA  // these kernels misbehave on the host
// The CPU backend with a fault after each kernel call.
class Misbehaving final : public Backend {
 public:
  explicit Misbehaving(std::function<void(const BindCall&)> after) : after_(std::move(after)) {}
  std::string_view name() const override { return "cpu"; }
  std::string unsupported(const Graph& g, const Node& n) const override {
    return tested_backend().unsupported(g, n);
  }
  bool takes_input(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return tested_backend().takes_input(g, n, i, l);
  }
  bool takes_output(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return tested_backend().takes_output(g, n, i, l);
  }
  bool runs_in_place(const Graph&, const Node&, int, int) const override { return false; }
  int64_t workspace_bytes(const Graph& g, const Node& n) const override {
    return tested_backend().workspace_bytes(g, n);
  }
  int launches(const Graph&, const Node&) const override { return 1; }
  plan::FlashScores flash_scores(const Call& call) const override {
    return tested_backend().flash_scores(call);
  }
  std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) override {
    return tested_backend().allocate(bytes, what);
  }
  void copy_in(std::byte* to, const void* from, int64_t n) override {
    tested_backend().copy_in(to, from, n);
  }
  void copy_out(void* to, const std::byte* from, int64_t n) override {
    tested_backend().copy_out(to, from, n);
  }
  void synchronize() override {}
  Launch bind(const BindCall& call) override {
    return [launch = tested_backend().bind(call), after = after_, inputs = call.inputs,
            outputs = call.outputs, &call_graph = call.graph, &node = call.node] {
      launch();
      BindCall seen{call_graph, node, inputs, outputs,
                    nullptr,    1,    false,  CallTypes(call_graph, node)};
      after(seen);
    };
  }

 private:
  std::function<void(const BindCall&)> after_;
};

TEST(TheChecks, ReportAKernelThatWritesPastItsOutput) {
  Misbehaving backend([](const BindCall& call) {
    const Operand& out = call.outputs[0];
    // The arena ends at the next multiple of its alignment.
    out.as<float>()[round_up(out.type.shape.elements() * 4, kAlignmentBytes) / 4] = 1;
  });
  EXPECT_EQ("a kernel wrote outside of its memory", value_fault(ops::table().at("exp"), backend));
}

TEST(TheChecks, ReportAKernelThatChangesItsOperand) {
  Misbehaving backend([](const BindCall& call) { call.inputs[0].as<float>()[0] += 1; });
  EXPECT_EQ("a kernel changed its operand 'x0'", value_fault(ops::table().at("exp"), backend));
}

TEST(TheChecks, ReportAKernelThatLeavesAnElementOut) {
  Misbehaving backend([](const BindCall& call) {
    std::memset(call.outputs[0].as<float>(), 0xFF, sizeof(float));  // the arena's initial value
  });
  EXPECT_NE(std::string::npos, value_fault(ops::table().at("exp"), backend).find("nan, want"));
}

TEST(TheChecks, ReportAKernelThatIsNotReproducible) {
  int runs = 0;
  Misbehaving backend([&runs](const BindCall& call) {
    call.outputs[0].as<float>()[0] += static_cast<float>(runs++);
  });
  EXPECT_EQ("two runs differ", value_fault(ops::table().at("exp"), backend));
}
#endif

}  // namespace
}  // namespace ridge::backends
