// SPDX-License-Identifier: Apache-2.0
// The tile interpreter: gathers strided or 16-bit inputs into registers, applies one instruction at
// a time to a whole tile, and scatters outputs. Dense float operands are used in place.
#include "backends/cpu/kernels/pointwise/tile_program.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_program.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "backends/cpu/kernels/element.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/vector_math-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// T is float, or bf16 that is widened and rounded in registers.
template <typename T, typename Function>
HWY_INLINE void map_unary(const T* a, T* y, int64_t n, const Function& f) {
  for_lanes(n, [&](auto part, int64_t i) HWY_ATTR { store(part, f(load(part, a + i)), y + i); });
}
template <typename T, typename Function>
HWY_INLINE void map_binary(const T* a, const T* b, T* y, int64_t n, const Function& f) {
  for_lanes(n, [&](auto part, int64_t i)
                   HWY_ATTR { store(part, f(load(part, a + i), load(part, b + i)), y + i); });
}

HWY_INLINE V32 set(double value) { return hn::Set(F32(), static_cast<float>(value)); }

// The argument of tanh in gelu_tanh.
HWY_INLINE V32 gelu_argument(V32 x) {
  V32 x2 = hn::Mul(x, x);
  return hn::Mul(hn::Mul(set(kGeluTanhScale), x), hn::MulAdd(set(kGeluTanhCubic), x2, set(1)));
}
HWY_INLINE V32 gelu_tanh(V32 x) {
  return hn::Mul(hn::Mul(set(0.5), x), hn::Add(set(1), tanh(gelu_argument(x))));
}
HWY_INLINE V32 gelu_tanh_slope(V32 x) {
  V32 t = tanh(gelu_argument(x));
  V32 inner =
      hn::Mul(set(kGeluTanhScale), hn::MulAdd(set(3 * kGeluTanhCubic), hn::Mul(x, x), set(1)));
  V32 half = hn::Mul(set(0.5), hn::Add(set(1), t));
  return hn::MulAdd(hn::Mul(hn::Mul(set(0.5), x), hn::NegMulAdd(t, t, set(1))), inner, half);
}
HWY_INLINE V32 silu_slope(V32 x) {
  V32 s = sigmoid(x);
  return hn::Mul(s, hn::MulAdd(x, hn::Sub(set(1), s), set(1)));
}

// Logarithms, sines and cosines use the C library: no forward or backward pass of a model takes
// them over many elements.
using LibraryFunction = float (*)(float);
void map_library(LibraryFunction f, const float* a, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i]);
}
void map_library(LibraryFunction f, const uint16_t* a, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = float_to_bf16(f(bf16_to_float(a[i])));
}

// NaN, which compares with nothing, stays NaN in either operand.
HWY_INLINE V32 larger(V32 a, V32 b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::Ne(a, a)), a, b);
}
HWY_INLINE V32 smaller(V32 a, V32 b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::Ne(a, a)), a, b);
}
HWY_INLINE V32 step(V32 x) { return hn::IfThenElseZero(hn::Gt(x, set(0)), set(1)); }

// Rounds as a store to bf16 and a load would.
void round_to_bf16(float* y, int64_t n) {
  for_lanes(n, [&](auto part, int64_t i) HWY_ATTR {
    auto bits = hn::And(round_to_bf16_bits(load(part, y + i)), hn::Set(U32(), 0xffff0000u));
    store(part, hn::BitCast(F32(), bits), y + i);
  });
}

void round_to_f16(float* y, int64_t n) {
  for_lanes(n, [&](auto part, int64_t i)
                   HWY_ATTR { store(part, widen_f16(narrow_f16(load(part, y + i))), y + i); });
}

template <typename T>
void compute(const TileInstruction& in, const T* a, const T* b, T* y, int64_t n) {
  const V32 p = hn::Set(F32(), in.parameter);
  switch (in.function) {
    case Pointwise::kAdd:
      return map_binary(a, b, y, n, [](V32 u, V32 v) HWY_ATTR { return hn::Add(u, v); });
    case Pointwise::kSub:
      return map_binary(a, b, y, n, [](V32 u, V32 v) HWY_ATTR { return hn::Sub(u, v); });
    case Pointwise::kMul:
      return map_binary(a, b, y, n, [](V32 u, V32 v) HWY_ATTR { return hn::Mul(u, v); });
    case Pointwise::kDiv:
      return map_binary(a, b, y, n, [](V32 u, V32 v) HWY_ATTR { return hn::Div(u, v); });
    case Pointwise::kNeg:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return hn::Neg(u); });
    case Pointwise::kScale:
      return map_unary(a, y, n, [p](V32 u) HWY_ATTR { return hn::Mul(u, p); });
    case Pointwise::kAddScalar:
      return map_unary(a, y, n, [p](V32 u) HWY_ATTR { return hn::Add(u, p); });
    case Pointwise::kSquare:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return hn::Mul(u, u); });
    case Pointwise::kExp:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return exp(u); });
    case Pointwise::kLog:
      return map_library(std::log, a, y, n);
    case Pointwise::kTanh:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return tanh(u); });
    case Pointwise::kSqrt:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return hn::Sqrt(u); });
    case Pointwise::kRsqrt:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return hn::Div(set(1), hn::Sqrt(u)); });
    case Pointwise::kReciprocal:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return hn::Div(set(1), u); });
    case Pointwise::kSigmoid:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return sigmoid(u); });
    case Pointwise::kSin:
      return map_library(std::sin, a, y, n);
    case Pointwise::kCos:
      return map_library(std::cos, a, y, n);
    case Pointwise::kAbs:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return hn::Abs(u); });
    case Pointwise::kRelu:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return larger(u, set(0)); });
    case Pointwise::kMax:
      return map_binary(a, b, y, n, [](V32 u, V32 v) HWY_ATTR { return larger(u, v); });
    case Pointwise::kMin:
      return map_binary(a, b, y, n, [](V32 u, V32 v) HWY_ATTR { return smaller(u, v); });
    case Pointwise::kStep:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return step(u); });
    case Pointwise::kSilu:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return hn::Mul(u, sigmoid(u)); });
    case Pointwise::kGeluTanh:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return gelu_tanh(u); });
    case Pointwise::kSiluBackward:
      return map_binary(a, b, y, n,
                        [](V32 u, V32 v) HWY_ATTR { return hn::Mul(v, silu_slope(u)); });
    case Pointwise::kGeluTanhBackward:
      return map_binary(a, b, y, n,
                        [](V32 u, V32 v) HWY_ATTR { return hn::Mul(v, gelu_tanh_slope(u)); });
    case Pointwise::kCast:
      return map_unary(a, y, n, [](V32 u) HWY_ATTR { return u; });
  }
}

void apply(const TileInstruction& in, const float* a, const float* b, float* y, int64_t n) {
  compute(in, a, b, y, n);
  if (in.stored_as == DType::kBF16) round_to_bf16(y, n);
  if (in.stored_as == DType::kF16) round_to_f16(y, n);
}

// One instruction alone on bf16 operands, without a register of floats: the store rounds.
void apply_bf16(const TileInstruction& in,
                const uint16_t* a,
                const uint16_t* b,
                uint16_t* y,
                int64_t n) {
  compute(in, a, b, y, n);
}

// Converts n elements, `step` apart, to floats.
template <typename T>
void gather(const T* from, int64_t step, int64_t n, float* to) {
  if (step == 1) {
    for_lanes(n, [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, from + i), to + i); });
  } else if (step == 0) {
    float one = 0;
    store(Partial{1}, load(Partial{1}, from), &one);
    const V32 value = hn::Set(F32(), one);
    for_lanes(n, [&](auto part, int64_t i) HWY_ATTR { store(part, value, to + i); });
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = widened(from[i * step]);
  }
}

template <typename T>
void scatter(const float* from, int64_t n, T* to, int64_t step) {
  if (step == 1) {
    for_lanes(n, [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, from + i), to + i); });
  } else {
    for (int64_t i = 0; i < n; ++i) narrow_to(from[i], to[i * step]);
  }
}

// Calls body(offset in the tile, element offset of the operand, length) for each innermost run of
// the elements [begin, end) of the domain. Only the first run is found with divisions: for short
// runs they would take longer than the work.
template <typename Body>
void for_each_run(const Shape& domain,
                  const Strides& strides,
                  int64_t begin,
                  int64_t end,
                  const Body& body) {
  const int last = domain.rank() - 1;
  const int64_t inner = domain[last];
  std::array<int64_t, kMaxRank> index{};
  int64_t rest = begin / inner, offset = 0;
  for (int axis = last - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = rest % domain[axis];
    offset += index[static_cast<size_t>(axis)] * strides[axis];
    rest /= domain[axis];
  }
  for (int64_t at = begin, column = begin % inner; at < end; column = 0) {
    const int64_t run = std::min(inner - column, end - at);
    body(at - begin, offset + column * strides[last], run);
    at += run;
    for (int axis = last - 1; axis >= 0; --axis) {
      offset += strides[axis];
      if (++index[static_cast<size_t>(axis)] < domain[axis]) break;
      offset -= domain[axis] * strides[axis];
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

template <typename T>
void gather_elements(const TileOperand& operand,
                     const Shape& domain,
                     int64_t begin,
                     int64_t end,
                     float* to) {
  const T* data = static_cast<const T*>(operand.data);
  const int64_t step = operand.strides.back();
  for_each_run(domain, operand.strides, begin, end, [&](int64_t at, int64_t offset, int64_t n) {
    gather(data + offset, step, n, to + at);
  });
}

template <typename T>
void scatter_elements(const TileOperand& operand,
                      const Shape& domain,
                      int64_t begin,
                      int64_t end,
                      const float* from) {
  T* data = static_cast<T*>(operand.data);
  const int64_t step = operand.strides.back();
  for_each_run(domain, operand.strides, begin, end, [&](int64_t at, int64_t offset, int64_t n) {
    scatter(from + at, n, data + offset, step);
  });
}

// Copies the elements [begin, end) of the domain between an operand and a register.
void gather_tile(const TileOperand& operand,
                 const Shape& domain,
                 int64_t begin,
                 int64_t end,
                 float* to) {
  if (operand.dtype == DType::kF32)
    gather_elements<float>(operand, domain, begin, end, to);
  else if (operand.dtype == DType::kF16)
    gather_elements<Float16>(operand, domain, begin, end, to);
  else
    gather_elements<uint16_t>(operand, domain, begin, end, to);
}

void scatter_tile(const TileOperand& operand,
                  const Shape& domain,
                  int64_t begin,
                  int64_t end,
                  const float* from) {
  if (operand.dtype == DType::kF32)
    scatter_elements<float>(operand, domain, begin, end, from);
  else if (operand.dtype == DType::kF16)
    scatter_elements<Float16>(operand, domain, begin, end, from);
  else
    scatter_elements<uint16_t>(operand, domain, begin, end, from);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ridge::backends::cpu {

namespace {

// The bytes of all registers of a tile: half of a 32 KiB L1.
constexpr int64_t kTileBytes = 16 << 10;
constexpr int64_t kLargestTile = 2048;
constexpr int64_t kSmallestTile = 256;

bool lies_densely(const TileOperand& operand, const Shape& domain) {
  return operand.dtype == DType::kF32 && operand.strides == dense_strides(domain);
}

}  // namespace

TileProgram with_reused_registers(const TileProgram& program, int inputs) {
  TileProgram made{program.instructions, program.outputs, inputs};
  std::vector<size_t> last_use(static_cast<size_t>(program.registers), 0);
  for (size_t i = 0; i < program.instructions.size(); ++i)
    for (int source : {program.instructions[i].a, program.instructions[i].b})
      last_use[static_cast<size_t>(source)] = i;
  for (int output : program.outputs) last_use[static_cast<size_t>(output)] = SIZE_MAX;
  std::vector<int> place(static_cast<size_t>(program.registers));
  std::iota(place.begin(), place.end(), 0);
  std::vector<int> free;
  for (size_t i = 0; i < made.instructions.size(); ++i) {
    TileInstruction& in = made.instructions[i];
    const TileInstruction old = in;
    in.a = place[static_cast<size_t>(old.a)];
    in.b = place[static_cast<size_t>(old.b)];
    // An instruction may write over an operand that nothing reads later.
    for (int source : {old.a, old.b == old.a ? -1 : old.b})
      if (source >= inputs && last_use[static_cast<size_t>(source)] == i)
        free.push_back(place[static_cast<size_t>(source)]);
    const bool leaves = last_use[static_cast<size_t>(old.target)] == SIZE_MAX;
    if (free.empty() || leaves) {
      in.target = made.registers++;
    } else {
      in.target = free.back();
      free.pop_back();
    }
    place[static_cast<size_t>(old.target)] = in.target;
  }
  for (int& output : made.outputs) output = place[static_cast<size_t>(output)];
  return made;
}

TileKernel::TileKernel(const TileProgram& program,
                       const Shape& domain,
                       std::vector<TileOperand> inputs,
                       std::vector<TileOperand> outputs)
    : program_(program), domain_(domain), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  RIDGE_CHECK(outputs_.size() == program_.outputs.size(), "{} outputs", outputs_.size());
  collapse();
  for (size_t o = 0; o < outputs_.size(); ++o)
    computed_in_place_.push_back(may_compute_in_place(o));
  int64_t fitting = kTileBytes / (4 * std::max(program_.registers, 1)) / 64 * 64;
  tile_ = std::clamp(fitting, kSmallestTile, kLargestTile);
  for (const auto* list : {&inputs_, &outputs_})
    for (const TileOperand& operand : *list)
      bytes_ += storage_bytes(operand.dtype, domain_.elements());
  is_bf16_alone_ = is_bf16_alone();
}

// Joins neighboring axes that are contiguous with each other in every operand, so that runs are as
// long as possible.
void TileKernel::collapse() {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides(inputs_.size() + outputs_.size());
  auto operand = [&](size_t i) -> TileOperand& {
    return i < inputs_.size() ? inputs_[i] : outputs_[i - inputs_.size()];
  };
  for (int axis = 0; axis < domain_.rank(); ++axis) {
    if (domain_[axis] == 1) continue;
    bool joins = !dims.empty();
    for (size_t i = 0; joins && i < strides.size(); ++i)
      joins = strides[i].back() == operand(i).strides[axis] * domain_[axis];
    if (joins)
      dims.back() *= domain_[axis];
    else
      dims.push_back(domain_[axis]);
    for (size_t i = 0; i < strides.size(); ++i) {
      if (joins)
        strides[i].back() = operand(i).strides[axis];
      else
        strides[i].push_back(operand(i).strides[axis]);
    }
  }
  if (dims.empty()) {
    dims.push_back(domain_.elements());
    for (auto& each : strides) each.push_back(1);
  }
  domain_ = Shape(dims);
  for (size_t i = 0; i < strides.size(); ++i)
    operand(i).strides = Strides(std::span<const int64_t>(strides[i]));
}

// Whether an output's register can be computed directly in the output's memory: yes, unless a later
// instruction still reads an input that lies there (an update in place).
bool TileKernel::may_compute_in_place(size_t output) const {
  int reg = program_.outputs[output];
  if (reg < static_cast<int>(inputs_.size()) || !lies_densely(outputs_[output], domain_))
    return false;
  for (size_t o = 0; o < output; ++o)
    if (program_.outputs[o] == reg) return false;
  bool made = false;
  for (const TileInstruction& in : program_.instructions) {
    for (int source : {in.a, in.b}) {
      bool is_input = source < static_cast<int>(inputs_.size());
      if (made && is_input && inputs_[static_cast<size_t>(source)].data == outputs_[output].data)
        return false;
    }
    made = made || in.target == reg;
  }
  return true;
}

// Whether the program is one instruction, all of whose operands are dense bf16.
bool TileKernel::is_bf16_alone() const {
  if (program_.instructions.size() != 1 || outputs_.size() != 1) return false;
  const TileInstruction& in = program_.instructions[0];
  const int inputs = static_cast<int>(inputs_.size());
  if (program_.outputs[0] != in.target || in.target < inputs || in.a >= inputs || in.b >= inputs)
    return false;
  const auto is_dense = [&](const TileOperand& operand) {
    return operand.dtype == DType::kBF16 && operand.strides == dense_strides(domain_);
  };
  return std::all_of(inputs_.begin(), inputs_.end(), is_dense) && is_dense(outputs_[0]);
}

HWY_EXPORT(apply);
HWY_EXPORT(apply_bf16);
HWY_EXPORT(gather_tile);
HWY_EXPORT(scatter_tile);
void TileKernel::run() const {
  if (is_bf16_alone_) {
    const TileInstruction& in = program_.instructions[0];
    auto at = [&](const TileOperand& operand, int64_t begin) {
      return static_cast<uint16_t*>(operand.data) + begin;
    };
    auto* apply = &HWY_DYNAMIC_DISPATCH(apply_bf16);
    for_each_range(domain_.elements(), parts_for(bytes_), [&](Range range) {
      apply(in, at(inputs_[static_cast<size_t>(in.a)], range.begin),
            at(inputs_[static_cast<size_t>(in.b)], range.begin), at(outputs_[0], range.begin),
            range.end - range.begin);
    });
    return;
  }
  auto* apply = &HWY_DYNAMIC_DISPATCH(apply);
  auto* gather = &HWY_DYNAMIC_DISPATCH(gather_tile);
  auto* scatter = &HWY_DYNAMIC_DISPATCH(scatter_tile);
  for_each_range(domain_.elements(), parts_for(bytes_), [&](Range range) {
    // A thread keeps its registers from run to run, so that a run allocates nothing.
    static thread_local std::vector<float> storage;
    static thread_local std::vector<float*> registers;
    if (storage.size() < static_cast<size_t>(tile_ * program_.registers))
      storage.resize(static_cast<size_t>(tile_ * program_.registers));
    registers.resize(static_cast<size_t>(program_.registers));
    for (int64_t begin = range.begin; begin < range.end; begin += tile_) {
      int64_t end = std::min(begin + tile_, range.end), n = end - begin;
      for (size_t r = 0; r < registers.size(); ++r)
        registers[r] = storage.data() + static_cast<int64_t>(r) * tile_;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const TileOperand& in = inputs_[i];
        if (lies_densely(in, domain_)) {
          registers[i] = static_cast<float*>(in.data) + begin;
          continue;
        }
        gather(in, domain_, begin, end, registers[i]);
      }
      for (size_t o = 0; o < outputs_.size(); ++o) {
        size_t reg = static_cast<size_t>(program_.outputs[o]);
        if (computed_in_place_[o]) registers[reg] = static_cast<float*>(outputs_[o].data) + begin;
      }
      for (const TileInstruction& in : program_.instructions)
        apply(in, registers[static_cast<size_t>(in.a)], registers[static_cast<size_t>(in.b)],
              registers[static_cast<size_t>(in.target)], n);
      for (size_t o = 0; o < outputs_.size(); ++o) {
        const float* from = registers[static_cast<size_t>(program_.outputs[o])];
        const TileOperand& out = outputs_[o];
        if (computed_in_place_[o]) continue;
        scatter(out, domain_, begin, end, from);
      }
    }
  });
}

}  // namespace ridge::backends::cpu

#endif  // HWY_ONCE
