// SPDX-License-Identifier: Apache-2.0
// Writes the source: joins axes, chooses a vector width, then emits loads, arithmetic and stores.
#include "backends/cuda/pointwise_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

constexpr const char* kPrelude = R"(// Arithmetic is fp32, as in the kernels of the primitives.
__device__ __forceinline__ float from_bf16(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
__device__ __forceinline__ unsigned short to_bf16(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
template <typename T, int N>
struct alignas(sizeof(T) * N) Vector { T at[N]; };
// NaN, which compares with nothing, stays NaN.
__device__ __forceinline__ float larger(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float smaller(float a, float b) { return a < b || a != a ? a : b; }
// Values that are rounded to bf16 take the faster exponential and division.
template <bool is_rounded>
__device__ __forceinline__ float exponential(float x) { return is_rounded ? __expf(x) : expf(x); }
template <bool is_rounded>
__device__ __forceinline__ float sigmoid(float x) {
  return is_rounded ? __fdividef(1.0f, 1.0f + __expf(-x)) : 1.0f / (1.0f + expf(-x));
}
// The tanh form of GELU is x sigmoid(u), since (1 + tanh(u / 2)) / 2 = sigmoid(u).
__device__ __forceinline__ float gelu_argument(float x) { return x * fmaf(x * x, 0.07135481627260025f, 1.5957691216057308f); }
__device__ __forceinline__ float gelu_slope(float x) { return fmaf(x * x, 0.21406444881780076f, 1.5957691216057308f); }
// dy times the derivative of x sigmoid(u), with s = sigmoid(u).
__device__ __forceinline__ float gate_gradient(float x, float dy, float s, float slope) {
  return dy * fmaf(x * s, (1.0f - s) * slope, s);
}
)";

// The domain without axes of one element, and with neighbouring axes joined where their strides
// allow it in all operands.
struct Domain {
  std::vector<int64_t> extents;               // outermost first; at least one
  std::vector<std::vector<int64_t>> strides;  // per operand, over the same axes
};

Domain joined(const Shape& shape, const std::vector<const PointwiseAccess*>& operands) {
  Domain d;
  d.strides.resize(operands.size());
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool joins = !d.extents.empty();
    for (size_t i = 0; i < operands.size() && joins; ++i)
      joins = d.strides[i].back() == operands[i]->strides[axis] * shape[axis];
    if (joins)
      d.extents.back() *= shape[axis];
    else
      d.extents.push_back(shape[axis]);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (joins)
        d.strides[i].back() = operands[i]->strides[axis];
      else
        d.strides[i].push_back(operands[i]->strides[axis]);
    }
  }
  if (d.extents.empty()) {
    d.extents.push_back(1);
    for (auto& strides : d.strides) strides.push_back(1);
  }
  return d;
}

// Elements per thread: 16 bytes of the narrowest type if every operand is contiguous or repeats
// along the innermost axis and every vector is aligned to its size; fewer otherwise. fp32 results
// are stored by 16 bytes a thread too: a warp that stores 32 bytes a thread writes half of each
// sector at a time, which takes an eighth longer.
int vector_width(const Domain& d,
                 const std::vector<const PointwiseAccess*>& operands,
                 const std::vector<PointwiseAccess>& outputs) {
  int64_t narrowest = 4;
  for (const PointwiseAccess* operand : operands)
    narrowest = std::min(narrowest, storage_bytes(operand->dtype, 1));
  for (const PointwiseAccess& output : outputs)
    narrowest = std::max(narrowest, storage_bytes(output.dtype, 1));
  for (int64_t width = 16 / narrowest; width > 1; width /= 2) {
    bool fits = d.extents.back() % width == 0;
    for (size_t i = 0; i < operands.size() && fits; ++i) {
      const std::vector<int64_t>& strides = d.strides[i];
      if (strides.back() == 0) continue;
      fits = strides.back() == 1 &&
             operands[i]->alignment_bytes >=
                 std::min<int64_t>(16, width * storage_bytes(operands[i]->dtype, 1));
      for (size_t axis = 0; axis + 1 < strides.size() && fits; ++axis)
        fits = strides[axis] % width == 0;
    }
    if (fits) return static_cast<int>(width);
  }
  return 1;
}

const char* type_name(DType dtype) { return dtype == DType::kF32 ? "float" : "unsigned short"; }

// A float literal with the exact value.
std::string literal(float value) {
  if (value != value) return "__int_as_float(0x7fc00000)";
  if (value > 3.4028235e38f) return "__int_as_float(0x7f800000)";
  if (value < -3.4028235e38f) return "__int_as_float(0xff800000)";
  std::string text = fmt::format("{:.9g}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string expression(const PointwiseInstruction& i) {
  const char* rounded = i.stored_as == DType::kBF16 ? "<true>" : "<false>";
  std::string a = fmt::format("r{}", i.a), b = fmt::format("r{}", i.b), p = literal(i.parameter);
  switch (i.function) {
    case Pointwise::kAdd:
      return a + " + " + b;
    case Pointwise::kSub:
      return a + " - " + b;
    case Pointwise::kMul:
      return a + " * " + b;
    case Pointwise::kDiv:
      return a + " / " + b;
    case Pointwise::kNeg:
      return "-" + a;
    case Pointwise::kScale:
      return a + " * " + p;
    case Pointwise::kAddScalar:
      return a + " + " + p;
    case Pointwise::kSquare:
      return a + " * " + a;
    case Pointwise::kExp:
      return fmt::format("exponential{}({})", rounded, a);
    case Pointwise::kLog:
      return "logf(" + a + ")";
    case Pointwise::kTanh:
      return "tanhf(" + a + ")";
    case Pointwise::kSqrt:
      return "sqrtf(" + a + ")";
    case Pointwise::kRsqrt:
      return "1.0f / sqrtf(" + a + ")";
    case Pointwise::kReciprocal:
      return "1.0f / " + a;
    case Pointwise::kSigmoid:
      return fmt::format("sigmoid{}({})", rounded, a);
    case Pointwise::kSin:
      return "sinf(" + a + ")";
    case Pointwise::kCos:
      return "cosf(" + a + ")";
    case Pointwise::kAbs:
      return "fabsf(" + a + ")";
    case Pointwise::kRelu:
      return "larger(" + a + ", 0.0f)";
    case Pointwise::kMax:
      return "larger(" + a + ", " + b + ")";
    case Pointwise::kMin:
      return "smaller(" + a + ", " + b + ")";
    case Pointwise::kStep:
      return a + " > 0.0f ? 1.0f : 0.0f";
    case Pointwise::kSilu:
      return fmt::format("{0} * sigmoid{1}({0})", a, rounded);
    case Pointwise::kGeluTanh:
      return fmt::format("{0} * sigmoid{1}(gelu_argument({0}))", a, rounded);
    case Pointwise::kSiluBackward:
      return fmt::format("gate_gradient({0}, {1}, sigmoid{2}({0}), 1.0f)", a, b, rounded);
    case Pointwise::kGeluTanhBackward:
      return fmt::format("gate_gradient({0}, {1}, sigmoid{2}(gelu_argument({0})), gelu_slope({0}))",
                         a, b, rounded);
    case Pointwise::kCast:
      return a;
  }
  RIDGE_CHECK(false, "a pointwise function without a form");
}

// The offset of operand i's vector in elements, computed from the indices x0, x1, ... (the last one
// counts vectors).
std::string offset(const Domain& d, size_t i, int width) {
  std::string text;
  for (size_t axis = 0; axis < d.extents.size(); ++axis) {
    int64_t step = d.strides[i][axis];
    if (step == 0) continue;
    if (axis + 1 == d.extents.size()) step *= width;
    text += fmt::format("{}x{} * {}LL", text.empty() ? "" : " + ", axis, step);
  }
  return text.empty() ? "0" : text;
}

std::string signature(const std::vector<PointwiseAccess>& inputs,
                      const std::vector<PointwiseAccess>& outputs) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i)
    text += fmt::format("const {}* in{}, ", type_name(inputs[i].dtype), i);
  for (size_t i = 0; i < outputs.size(); ++i)
    text += fmt::format("{}* out{}, ", type_name(outputs[i].dtype), i);
  return text + "long long count";
}

// Computes x0, x1, ... With one axis, x0 is the thread's index, so that the source contains no
// extent.
std::string indices(const Domain& d, int width) {
  std::string text =
      "  long long rest = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n  if (rest >= count) "
      "return;\n";
  for (size_t axis = d.extents.size(); axis-- > 1;) {
    int64_t extent = axis + 1 == d.extents.size() ? d.extents[axis] / width : d.extents[axis];
    text += fmt::format("  long long x{0} = rest % {1}LL;\n  rest /= {1}LL;\n", axis, extent);
  }
  return text + "  long long x0 = rest;\n";
}

// Loads vectors of at most 16 bytes: 8 floats are two vectors of 4.
std::string load(size_t i, const PointwiseAccess& input, const Domain& d, int width) {
  bool repeats = d.strides[i].back() == 0;
  int elements = repeats ? 1 : width;
  int part = std::min(elements, static_cast<int>(16 / storage_bytes(input.dtype, 1)));
  const char* type = type_name(input.dtype);
  std::string text = fmt::format("  Vector<{}, {}> v{}[{}];\n", type, part, i, elements / part);
  for (int j = 0; j < elements / part; ++j)
    text += fmt::format("  v{0}[{1}] = *(const Vector<{2}, {3}>*)(in{0} + {4} + {5});\n", i, j,
                        type, part, offset(d, i, width), j * part);
  return text;
}

std::string element(size_t i, const PointwiseAccess& input, const Domain& d, int width, int e) {
  if (d.strides[i].back() == 0) e = 0;
  int part = std::min(d.strides[i].back() == 0 ? 1 : width,
                      static_cast<int>(16 / storage_bytes(input.dtype, 1)));
  std::string at = fmt::format("v{}[{}].at[{}]", i, e / part, e % part);
  return input.dtype == DType::kF32 ? at : "from_bf16(" + at + ")";
}

std::string store(size_t o,
                  size_t operand,
                  const PointwiseAccess& output,
                  const Domain& d,
                  int width) {
  int part = std::min(width, static_cast<int>(16 / storage_bytes(output.dtype, 1)));
  std::string text;
  for (int j = 0; j < width / part; ++j)
    text += fmt::format("  *(Vector<{0}, {1}>*)(out{2} + {3} + {4}) = w{2}[{5}];\n",
                        type_name(output.dtype), part, o, offset(d, operand, width), j * part, j);
  return text;
}

std::string arithmetic_of(const PointwiseProgram& program,
                          const std::vector<PointwiseAccess>& inputs,
                          const std::vector<PointwiseAccess>& outputs,
                          const Domain& d,
                          int width,
                          int e) {
  std::string text = "  {\n";
  for (size_t i = 0; i < inputs.size(); ++i)
    text += fmt::format("    float r{} = {};\n", i, element(i, inputs[i], d, width, e));
  for (const PointwiseInstruction& instruction : program.instructions) {
    std::string value = expression(instruction);
    if (instruction.stored_as == DType::kBF16) value = "from_bf16(to_bf16(" + value + "))";
    text += fmt::format("    float r{} = {};\n", instruction.target, value);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    int part = std::min(width, static_cast<int>(16 / storage_bytes(outputs[o].dtype, 1)));
    std::string value = fmt::format("r{}", program.outputs[o]);
    if (outputs[o].dtype != DType::kF32) value = "to_bf16(" + value + ")";
    text += fmt::format("    w{}[{}].at[{}] = {};\n", o, e / part, e % part, value);
  }
  return text + "  }\n";
}

}  // namespace

GeneratedKernel generate(const PointwiseProgram& program,
                         const Shape& domain,
                         const std::vector<PointwiseAccess>& inputs,
                         const std::vector<PointwiseAccess>& outputs) {
  std::vector<const PointwiseAccess*> operands;
  for (const PointwiseAccess& input : inputs) operands.push_back(&input);
  for (const PointwiseAccess& output : outputs) operands.push_back(&output);
  Domain d = joined(domain, operands);
  int width = vector_width(d, operands, outputs);
  std::string text = kPrelude;
  text +=
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) generated_pointwise({}) {{\n",
                  kGeneratedThreads, signature(inputs, outputs));
  text += indices(d, width);
  for (size_t i = 0; i < inputs.size(); ++i) text += load(i, inputs[i], d, width);
  for (size_t o = 0; o < outputs.size(); ++o) {
    int part = std::min(width, static_cast<int>(16 / storage_bytes(outputs[o].dtype, 1)));
    text += fmt::format("  Vector<{}, {}> w{}[{}];\n", type_name(outputs[o].dtype), part, o,
                        width / part);
  }
  for (int e = 0; e < width; ++e) text += arithmetic_of(program, inputs, outputs, d, width, e);
  for (size_t o = 0; o < outputs.size(); ++o)
    text += store(o, inputs.size() + o, outputs[o], d, width);
  return {text + "}\n", domain.elements() / width};
}

}  // namespace ridge::backends::cuda
