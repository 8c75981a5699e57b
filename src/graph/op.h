// SPDX-License-Identifier: Apache-2.0
// The interface of an op: its operands and types, cost, gradient, reference and test cases. The ops
// are in ops/, their kernels in the backends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "graph/attrs.h"

namespace ridge::inline graph {

class Builder;
struct Node;

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeId kNoNode = -1;

struct Type {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const Type& other) const = default;
  std::string str() const;  // "f32[1024,512]"
};

// Arithmetic of one node. `flops` counts everything, including 2 * macs. `transcendentals`
// (evaluations of exp, log, tanh, ...) are part of flops by the table in docs/accounting.md; they
// are also counted separately because they cost time.
struct Work {
  int64_t macs = 0;
  int64_t flops = 0;
  int64_t transcendentals = 0;
  Work& operator+=(const Work& other);  // out-of-memory Error if it exceeds 63 bits
  bool operator==(const Work& other) const = default;
};
inline Work products(int64_t macs) { return {macs, 2 * macs, 0}; }
inline Work arithmetic(int64_t flops, int64_t transcendentals = 0) {
  return {0, flops, transcendentals};
}
inline Work operator+(Work a, const Work& b) { return a += b; }
Work times(int64_t n, const Work& work);  // out-of-memory Error if it exceeds 63 bits

// The bytes that a node reads of each input and writes of each output.
struct Traffic {
  std::vector<int64_t> read_bytes;
  std::vector<int64_t> written_bytes;
};

// Closed forms of the work that a model requires, forward and backward, whatever kernels run later.
struct ModelWork {
  Work forward;
  Work backward;
};

// The types and attributes of a node, without its graph.
struct Call {
  std::span<const Type> inputs;
  std::span<const Type> outputs;  // empty during infer
  const Attrs& attrs;
};

// The layout of a value in the buffer of its root, in elements.
struct Layout {
  int64_t offset = 0;
  Strides strides;
  bool operator==(const Layout& other) const = default;
};
bool is_dense(const Shape& shape, const Layout& layout);

enum class OpKind : uint8_t {
  kView,       // a new layout of the same buffer: no kernel, no bytes
  kPointwise,  // element by element over operands of one shape (broadcast through views)
  kPrimitive,  // one kernel that is not pointwise
  kComposite,  // expands into other ops unless a pass keeps it whole (attribute `fused`)
  kFused,      // made by passes only
};

// The purpose of an op, so coarse that programs which fuse differently have the same categories. A
// norm is elementwise arithmetic, since many programs have no kernel of its own for it.
enum class OpCategory : uint8_t {
  kOther,
  kMatmul,
  kAttention,
  kSoftmaxAndLoss,
  kEmbedding,
  kElementwise,
  kDataMovement,
  kView,
  kOptimizer,
  kSampling,
  kCollective,
};
// The category as reports print it, such as "elementwise and norms".
std::string_view name(OpCategory category);

// How the time of an op's kernels follows from the machine's ceilings (cost/predict).
enum class TimeLaw : uint8_t {
  kRoofline,           // its arithmetic or its traffic, whichever takes longer
  kAccessPattern,      // like kRoofline, but the runs and steps of its layouts cost time too
  kProduct,            // from sampled products of its extents
  kAttention,          // from sampled attention, forward
  kAttentionBackward,  // from sampled attention, backward
};

// Number of operands of an op.
inline constexpr int kAnyNumber = -1;
struct OperandCount {
  int least = 1;
  int most = least;  // may be kAnyNumber
};

// One attribute of an op.
struct AttrSpec {
  std::string name;
  AttrValue value;  // its variant alternative is the type; its value is the default if not required
  bool required = true;
};

// Output `output` is a new version of the buffer of input `input` (an update in place).
struct Alias {
  int output = 0;
  int input = 0;
};

// Data in double precision, dense and row-major; integers are exact.
struct Tensor64 {
  Type type;
  std::vector<double> data;
};
using Inputs64 = std::span<const Tensor64* const>;
using Outputs64 = std::span<Tensor64>;

// How a test fills an input.
struct Fill {
  enum Kind { kNormal, kPositive, kIds, kPositions, kConstant, kDistinct } kind = kNormal;
  // Normal: std; ids: exclusive bound; positions: sequence length; constant: value.
  double parameter = 1;
  bool differentiable = true;
};
struct CaseInput {
  Type type;
  Fill fill = {};
  bool castable = true;  // a floating-point activation: tests also run it as bf16
};
// One sample of an op for tests and `ridge bench op`.
struct Case {
  std::string name;
  std::vector<CaseInput> inputs;
  Attrs attrs;
};

struct GradientCall;

struct Op {
  std::string name = {};
  OpCategory category = OpCategory::kOther;
  OpKind kind = OpKind::kPrimitive;
  OperandCount operands = {};
  std::vector<AttrSpec> attrs = {};
  TimeLaw time_law = TimeLaw::kRoofline;  // pointwise ops use kAccessPattern
  // The inputs are the parts of the output along the attribute `axis`. A part that its producer
  // wrote in place costs nothing.
  bool joins = false;
  bool commutative = false;  // the two inputs may be swapped
  std::string formula = {};  // the cost in words, for `ridge explain`
  // Output types; throws a usage Error that names the op for shapes that do not fit.
  std::vector<Type> (*infer)(const Call&) = nullptr;
  Work (*work)(const Call&) = nullptr;                       // null: none (views, copies, gathers)
  std::optional<Traffic> (*traffic)(const Call&) = nullptr;  // null: all of each operand, once
  ModelWork (*model_work)(const Call&) = nullptr;            // null: {work, 2 * work for products}
  // Collectives: the bytes that a rank sends to other ranks, by a ring algorithm; null: none.
  int64_t (*sent_bytes)(const Call&) = nullptr;
  // Returns the gradients of the inputs (kNoValue for none), built with the call's builder.
  std::vector<ValueId> (*gradient)(const GradientCall&) = nullptr;
  // Composites: builds the same function from primitives; returns one value per output.
  std::vector<ValueId> (*expand)(Builder&, const Node&) = nullptr;
  // Views: the output's layout on the input's buffer, or nullopt if only a copy is possible.
  std::optional<Layout> (*view)(const Call&, const Layout& input) = nullptr;
  // Which outputs update which inputs in place, for this call.
  std::vector<Alias> (*aliases)(const Call&) = nullptr;
  // The op in double precision; outputs arrive with their types set and data sized.
  void (*reference)(const Call&, Inputs64 inputs, Outputs64 outputs) = nullptr;
  std::vector<Case> (*cases)() = nullptr;
};

// The arguments of an op's gradient. `node` is the forward node; `builder` appends to the same
// graph.
struct GradientCall {
  Builder& builder;
  const Node& node;
  std::span<const ValueId> output_gradients;  // kNoValue where no gradient flows
  std::span<const bool> needed;               // per input: whether its gradient is needed
};

// The explicit ordered list of ops.
class OpTable {
 public:
  explicit OpTable(std::vector<const Op*> ops);
  const Op* find(std::string_view name) const;
  const Op& at(std::string_view name) const;  // usage Error with the nearest name if unknown
  std::span<const Op* const> all() const { return ops_; }

 private:
  std::vector<const Op*> ops_;
};

}  // namespace ridge::inline graph
