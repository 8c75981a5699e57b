// SPDX-License-Identifier: Apache-2.0
// Binding of matmul to oneDNN: an einsum becomes one batched product [batch..., M, K] x [batch..., K, N] on strided
// memory, or a loop of accumulating ones where summed axes do not join.
#include <algorithm>
#include <memory>
#include <numeric>

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/gemm_tuner.h"
#include "backends/cpu/kernels/tile_program.h"
#include "graph/einsum.h"

namespace ridge::backends::cpu {
namespace {

// The strides of an operand by letter; 0 for a letter that it lacks.
int64_t stride_of(const std::string& letters, const Strides& strides, char letter) {
  size_t at = letters.find(letter);
  return at == std::string::npos ? 0 : strides[static_cast<int>(at)];
}

// A set of letters that acts as one axis in two operands: extent and stride in each.
struct Axis {
  int64_t extent = 1;
  int64_t in_first = 0;
  int64_t in_second = 0;
};

// Joins the letters into one axis that steps evenly in both operands, taking them from the innermost out; letters
// that do not join are returned in `rest`.
Axis join(const std::string& letters, const EinsumExtents& extents, const std::string& first,
          const Strides& first_strides, const std::string& second, const Strides& second_strides, std::string& rest) {
  // Order by the first operand's stride, innermost last.
  std::string order = letters;
  std::stable_sort(order.begin(), order.end(), [&](char x, char y) {
    return stride_of(first, first_strides, x) > stride_of(first, first_strides, y);
  });
  Axis axis;
  for (size_t i = order.size(); i-- > 0;) {
    char letter = order[i];
    if (extents[letter] == 1) continue;
    int64_t a = stride_of(first, first_strides, letter), b = stride_of(second, second_strides, letter);
    if (axis.extent == 1) axis = {extents[letter], a, b};
    else if (a == axis.in_first * axis.extent && b == axis.in_second * axis.extent) axis.extent *= extents[letter];
    else rest += letter;
  }
  // A single element: any stride does; 1 keeps the descriptor dense.
  if (axis.extent == 1) axis = {1, 1, 1};
  return axis;
}

// What one einsum needs of oneDNN.
struct Plan {
  GemmShape gemm;
  std::string loop;  // summed letters left over: one accumulating product for each of their values
  std::string copies;  // batch letters that repeat both operands: one product for each of their values
};

struct Layouts {
  Strides a, b, out;
};

Plan plan_product(const Call& call, const Layouts& layouts) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  Plan plan;
  std::string m_rest, n_rest;
  Axis m = join(e.m, extents, e.a, layouts.a, e.out, layouts.out, m_rest);
  Axis n = join(e.n, extents, e.b, layouts.b, e.out, layouts.out, n_rest);
  Axis k = join(e.k, extents, e.a, layouts.a, e.b, layouts.b, plan.loop);
  GemmShape& g = plan.gemm;
  for (char letter : e.batch + m_rest + n_rest) {
    if (stride_of(e.a, layouts.a, letter) == 0 && stride_of(e.b, layouts.b, letter) == 0 && extents[letter] > 1) {
      plan.copies += letter;
      continue;
    }
    g.batch.push_back(extents[letter]);
    g.a_batch.push_back(stride_of(e.a, layouts.a, letter));
    g.b_batch.push_back(stride_of(e.b, layouts.b, letter));
    g.c_batch.push_back(stride_of(e.out, layouts.out, letter));
  }
  g.m = m.extent, g.n = n.extent, g.k = k.extent;
  g.a_m = m.in_first, g.c_m = m.in_second;
  g.b_n = n.in_first, g.c_n = n.in_second;
  g.a_k = k.in_first, g.b_k = k.in_second;
  g.input = call.inputs[0].dtype;
  g.output = call.outputs[0].dtype;
  return plan;
}

// Widened operands are dense, so their size does not depend on the layouts that binding will find.
int64_t workspace_bytes(const Call& call) {
  Layouts dense{dense_strides(call.inputs[0].shape), dense_strides(call.inputs[1].shape),
                dense_strides(call.outputs[0].shape)};
  GemmShape shape = plan_product(call, dense).gemm;
  return gemm_workspace_bytes(default_form(shape), shape);
}

// oneDNN takes no empty axes: there is nothing to do, or the sum of nothing.
Launch bind_empty(const BindCall& call) {
  const Operand& out = call.outputs[0];
  if (out.type.shape.elements() == 0 || call.inputs.size() == 3) return [] {};
  static float zero = 0;
  Strides repeated(std::vector<int64_t>(static_cast<size_t>(out.type.shape.rank()), 0));
  TileKernel kernel({{}, {0}, 1}, out.type.shape, {{&zero, DType::kF32, repeated}},
                    {{out.data, out.type.dtype, out.strides}});
  return [kernel = std::move(kernel)] { kernel.run(); };
}

Launch bind(const BindCall& call, GemmTuner* tuner) {
  Einsum e = parse_einsum(call.attrs().text("einsum"));
  EinsumExtents extents(e, call.inputs[0].type.shape, call.inputs[1].type.shape);
  if (extents.product(e.out) == 0 || extents.product(e.k) == 0) return bind_empty(call);
  Layouts layouts{call.inputs[0].strides, call.inputs[1].strides, call.outputs[0].strides};
  Plan plan = plan_product(call.call(), layouts);
  bool accumulate = call.inputs.size() == 3;
  // One product per value of the left-over letters; of the summed ones all but the first add to what is there.
  std::vector<GemmLaunch> gemms;
  std::string letters = plan.copies + plan.loop;
  Shape loop = extents.shape(letters);
  int64_t sums = extents.product(plan.loop);
  for (int64_t i = 0; i < loop.elements(); ++i) {
    int64_t a = 0, b = 0, c = 0, rest = i;
    for (int axis = loop.rank() - 1; axis >= 0; --axis) {
      char letter = letters[static_cast<size_t>(axis)];
      a += rest % loop[axis] * stride_of(e.a, layouts.a, letter);
      b += rest % loop[axis] * stride_of(e.b, layouts.b, letter);
      c += rest % loop[axis] * stride_of(e.out, layouts.out, letter);
      rest /= loop[axis];
    }
    GemmShape shape = plan.gemm;
    shape.accumulate = accumulate || i % sums > 0;
    GemmForm form = tuner == nullptr ? default_form(shape) : tuner->choose(shape);
    gemms.push_back(bind_gemm(form, shape, call.inputs[0].data + storage_bytes(shape.input, a),
                              call.inputs[1].data + storage_bytes(shape.input, b),
                              call.outputs[0].data + storage_bytes(shape.output, c), call.workspace));
  }
  if (gemms.size() == 1) return gemms[0];
  return [gemms = std::move(gemms)] {
    for (const GemmLaunch& gemm : gemms) gemm();
  };
}

// oneDNN wants one of the two inner axes of each matrix contiguous, and enough axes for the batch.
bool fits(const Call& call, int operand, const Layout& layout) {
  Layouts layouts{dense_strides(call.inputs[0].shape), dense_strides(call.inputs[1].shape),
                  dense_strides(call.outputs[0].shape)};
  (operand == 0 ? layouts.a : operand == 1 ? layouts.b : layouts.out) = layout.strides;
  return is_supported(plan_product(call, layouts).gemm);
}

bool takes_input(const Call& call, int input, const Layout& layout) {
  return input < 2 && fits(call, input, layout);
}

bool takes_output(const Call& call, int, const Layout& layout) {
  return call.inputs.size() == 2 && fits(call, 2, layout);
}

}  // namespace

const CpuKernel& matmul_kernel() {
  static const CpuKernel kernel{.op = "matmul",
                                .bind_tuned = bind,
                                .takes_input = takes_input,
                                .takes_output = takes_output,
                                .workspace_bytes = workspace_bytes};
  return kernel;
}

}  // namespace ridge::backends::cpu
