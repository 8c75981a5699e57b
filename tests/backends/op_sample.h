// SPDX-License-Identifier: Apache-2.0
// One of an op's cases as a graph of one node. A variant sets how operands reach it: stored,
// computed by a node before it (so that the planner may run in place), or as views of larger
// tensors (so that kernels get strides).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/case_data.h"
#include "ops/reference_run.h"

namespace ridge::backends {

// The way in which floating-point operands reach the op. An operand that cannot have such a view is
// plain.
enum class OperandForm {
  kPlain,       // stored, dense
  kComputed,    // a temporary that is last used by the op
  kWiderRows,   // columns of a wider tensor
  kOffset,      // rows from the middle of a longer tensor: dense, but with an offset
  kTransposed,  // a tensor with its axes reversed
  kRepeated,    // one row, broadcast with a stride of 0
};
inline constexpr OperandForm kOperandForms[] = {OperandForm::kPlain,      OperandForm::kComputed,
                                                OperandForm::kWiderRows,  OperandForm::kOffset,
                                                OperandForm::kTransposed, OperandForm::kRepeated};

inline std::string_view name(OperandForm form) {
  constexpr std::string_view kNames[] = {"plain",  "computed",   "wider_rows",
                                         "offset", "transposed", "repeated"};
  return kNames[static_cast<size_t>(form)];
}

struct Variant {
  OperandForm form = OperandForm::kPlain;
  DType dtype = DType::kF32;  // the operands that the case marks as castable have it
  bool fused = false;         // for composites: kept whole
  bool in_concat = false;     // outputs are written into a part of a larger tensor
  std::string str() const {
    return fmt::format("{} {}{}{}", name(form), ridge::name(dtype), fused ? " fused" : "",
                       in_concat ? " in concat" : "");
  }
};

inline bool has_fused_form(const Op& op) {
  return std::any_of(op.attrs.begin(), op.attrs.end(),
                     [](const AttrSpec& a) { return a.name == "fused"; });
}

// Additional outputs of ops, for their own gradient or for reports. No gradient flows through them,
// and no other node of a model reads them.
inline bool is_statistic(const Op& op, size_t output) {
  if (op.name == "rms_norm" || op.name == "flash_attention" || op.name == "nll_loss")
    return output == 1;  // rstd, lse, count
  if (op.name == "add_rms_norm" || op.name == "all_reduce_add_rms_norm")
    return output == 2;                                        // rstd
  if (op.name == "softmax_cross_entropy") return output >= 1;  // lse, count
  return false;
}

inline bool is_castable(const CaseInput& input) {
  return input.castable && input.type.dtype == DType::kF32;
}

class SampleGraph {
 public:
  SampleGraph(const Op& op,
              const Case& sample,
              const OpTable& ops,
              const Variant& variant,
              bool differentiable = false)
      : op_(op),
        sample_(sample),
        variant_(variant),
        differentiable_(differentiable),
        builder_(graph_, ops),
        random_(20 + static_cast<uint32_t>(variant.form)),
        attrs_(complete_attrs(op, sample.attrs)) {
    if (variant.fused) attrs_.set("fused", true);
    for (const CaseInput& input : sample.inputs)
      types_.push_back({is_castable(input) ? variant.dtype : input.type.dtype, input.type.shape});
    for (size_t i = 0; i < types_.size(); ++i) inputs_.push_back(operand(i));
    made_ = builder_.call_all(op.name, inputs_, attrs_);
    node_ = graph_.nodes.back();
    for (size_t o = 0; o < made_.size(); ++o)
      if (has_output(o))
        graph_.outputs.push_back(variant.in_concat ? place_in_concat(made_[o]) : made_[o]);
  }

  const Graph& graph() const { return graph_; }
  Graph& graph() { return graph_; }
  Builder& builder() { return builder_; }
  const ops::NamedTensors& named() const { return named_; }
  ops::NamedTensors& named() { return named_; }
  // The parameters from which the case's differentiable operands come.
  const std::vector<ValueId>& wanted() const { return wanted_; }
  const std::vector<ValueId>& made() const { return made_; }

 private:
  bool is_updated(size_t input) const {
    if (op_.aliases == nullptr) return false;
    std::vector<Alias> aliases = op_.aliases({types_, {}, attrs_});
    return std::any_of(aliases.begin(), aliases.end(),
                       [&](const Alias& a) { return a.input == static_cast<int>(input); });
  }

  // An expansion may omit outputs that only the fused form computes.
  bool has_output(size_t output) const {
    if (op_.kind != OpKind::kComposite || variant_.fused) return true;
    Graph scratch = graph_;
    Builder builder(scratch, builder_.ops());
    return op_.expand(builder, node_)[output] != kNoValue;
  }

  // A tensor that the test writes: random values of `type`, declared with the storage that this
  // operand needs.
  ValueId declare(size_t i, const Type& type) {
    std::string label = fmt::format("x{}", i);
    named_[label] = ops::draw(type, sample_.inputs[i].fill, random_);
    if (is_updated(i)) return builder_.state(label, type);
    if (!differentiable_ || !sample_.inputs[i].fill.differentiable || !is_float(type.dtype))
      return builder_.input(label, type);
    wanted_.push_back(builder_.parameter(label, type));
    return wanted_.back();
  }

  ValueId operand(size_t i) {
    const Type& type = types_[i];
    const Shape& shape = type.shape;
    int rank = shape.rank(), last = rank - 1;
    bool dense_only = is_updated(i) || rank == 0;
    OperandForm how = dense_only || (!is_float(type.dtype) && variant_.form != OperandForm::kOffset)
                          ? OperandForm::kPlain
                          : variant_.form;
    if (how == OperandForm::kComputed) return builder_.call("copy", {declare(i, type)});
    if (how == OperandForm::kWiderRows) {
      ValueId wide = declare(i, {type.dtype, shape.with(last, shape[last] + 5)});
      return ops::slice(builder_, wide, last, 3, 3 + shape[last]);
    }
    if (how == OperandForm::kOffset) {
      ValueId tall = declare(i, {type.dtype, shape.with(0, shape[0] + 3)});
      return ops::slice(builder_, tall, 0, 2, 2 + shape[0]);
    }
    if (how == OperandForm::kTransposed && rank > 1) {
      std::vector<int64_t> dims = shape.to_vector(), permutation;
      std::reverse(dims.begin(), dims.end());
      for (int axis = last; axis >= 0; --axis) permutation.push_back(axis);
      return ops::transpose(builder_, declare(i, {type.dtype, Shape(dims)}), permutation);
    }
    if (how == OperandForm::kRepeated && shape[0] > 1)
      return ops::broadcast(builder_, declare(i, {type.dtype, shape.with(0, 1)}), shape);
    return declare(i, type);
  }

  // Places the output after two columns of other data, so that its kernel writes rows that are
  // farther apart.
  ValueId place_in_concat(ValueId output) {
    const Type type = builder_.type(output);
    int last = type.shape.rank() - 1;
    if (last < 0 || !is_float(type.dtype) || graph_.value(output).storage != Storage::kTemporary)
      return output;
    ValueId filler = builder_.call("fill", {},
                                   {{"shape", type.shape.with(last, 2).to_vector()},
                                    {"value", 0.5},
                                    {"dtype", std::string(ridge::name(type.dtype))}});
    return ops::concat(builder_, {filler, output}, last);
  }

  const Op& op_;
  const Case& sample_;
  Variant variant_;
  bool differentiable_;
  Graph graph_;
  Builder builder_;
  Random random_;
  Attrs attrs_;
  std::vector<Type> types_;
  std::vector<ValueId> inputs_, made_, wanted_;
  Node node_;  // the sample's node
  ops::NamedTensors named_;
};

}  // namespace ridge::backends
