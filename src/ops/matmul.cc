// SPDX-License-Identifier: Apache-2.0
// matmul: a product of two operands in einsum notation, "nd,fd->nf". With a third operand the
// product is added to it in place (gradient accumulation, tied weights). `native` allows a native
// GEMM instead of a library's, with the same error but other rounding. `batch_invariant` asks for
// one kernel and one order of sums for any number of rows.
#include <vector>

#include "graph/einsum.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

Case sample(std::string name, std::string einsum, Shape a, Shape b) {
  return {std::move(name), {{f32(a)}, {f32(b)}}, {{"einsum", std::move(einsum)}}};
}

struct MatmulOp {
  static Op declaration() {
    return {
        .name = "matmul",
        .category = OpCategory::kMatmul,
        .operands = {2, 3},
        .attrs = {{"einsum", std::string()},
                  {"dtype", std::string(), false},
                  {"native", false, false},
                  {"batch_invariant", false, false}},
        .time_law = TimeLaw::kProduct,
        .formula =
            "MACs = product of all letters' extents; FLOPs = 2 MACs (+ 1 an output accumulated)"};
  }

  static std::vector<Type> infer(const Call& call) {
    Einsum einsum = parse_einsum(call.attrs.text("einsum"));
    const Type& a = call.inputs[0];
    const Type& b = call.inputs[1];
    expect_float("matmul", a, "the first operand");
    // A weight may have the type in which its file stores it.
    bool is_quantized = is_block(b.dtype) || (a.dtype == DType::kF32 &&
                                              (b.dtype == DType::kBF16 || b.dtype == DType::kF16));
    if (a.dtype != b.dtype && !is_quantized)
      throw usage_error("[matmul] expected operands of one element type, got {} and {}", a.str(),
                        b.str());
    EinsumExtents extents(einsum, a.shape, b.shape);
    Type out{result_dtype("matmul", call.attrs, a.dtype), extents.shape(einsum.out)};
    if (call.inputs.size() == 3)
      expect_same("matmul", call.inputs[2], out, "the accumulated operand and the product");
    return {out};
  }

  static Work work(const Call& call) {
    Einsum einsum = parse_einsum(call.attrs.text("einsum"));
    EinsumExtents extents(einsum, call.inputs[0].shape, call.inputs[1].shape);
    int64_t outputs = extents.product(einsum.out);
    int64_t macs = checked_product(outputs, extents.product(einsum.k), "matmul");
    checked_product(macs, 8, "matmul");  // the FLOPs of a product and its gradient
    Work work = products(macs);
    return call.inputs.size() == 3 ? work + arithmetic(outputs) : work;
  }

  static std::vector<Alias> aliases(const Call& call) {
    return call.inputs.size() == 3 ? std::vector<Alias>{{0, 2}} : std::vector<Alias>{};
  }

  // da = dout b and db = a dout, as einsums in the letters of the forward product. The gradient of
  // a weight has the operand's type. An accumulator is added, so its gradient is dout.
  static std::vector<ValueId> gradient(const GradientCall& call) {
    Einsum e = parse_einsum(call.node.attrs.text("einsum"));
    Builder& b = call.builder;
    ValueId x = call.node.inputs[0], y = call.node.inputs[1];
    ValueId dz = cast(b, call.output_gradients[0], b.type(x).dtype);
    std::vector<ValueId> gradients{kNoValue, kNoValue, call.output_gradients[0]};
    gradients.resize(call.node.inputs.size());
    if (call.needed[0]) gradients[0] = matmul(b, e.out + "," + e.b + "->" + e.a, dz, y);
    // The output's gradient comes first if that is the order of the weight:
    // dW[f,d] = dz[n,f] x[n,d].
    bool out_first = !e.n.empty() && !e.b.empty() && e.b[e.batch.size()] == e.n[0];
    if (call.needed[1])
      gradients[1] = out_first ? matmul(b, e.out + "," + e.a + "->" + e.b, dz, x)
                               : matmul(b, e.a + "," + e.out + "->" + e.b, x, dz);
    return gradients;
  }

  // Loops over output letters and summed letters. An operand's offset is the sum of its offsets for
  // the output's letters and for the summed ones.
  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    Einsum e = parse_einsum(call.attrs.text("einsum"));
    const Shape &a = call.inputs[0].shape, &b = call.inputs[1].shape;
    const Shape &out = call.outputs[0].shape, sum = EinsumExtents(e, a, b).shape(e.k);
    const std::vector<int64_t> a_out = offsets(e.out, out, e.a, a),
                               a_sum = offsets(e.k, sum, e.a, a),
                               b_out = offsets(e.out, out, e.b, b),
                               b_sum = offsets(e.k, sum, e.b, b);
    for (size_t o = 0; o < a_out.size(); ++o) {
      const double *x = inputs[0]->data.data() + a_out[o], *y = inputs[1]->data.data() + b_out[o];
      double total = inputs.size() == 3 ? inputs[2]->data[o] : 0;
      for (size_t k = 0; k < a_sum.size(); ++k) total += x[a_sum[k]] * y[b_sum[k]];
      outputs[0].data[o] = total;
    }
  }

  // The offsets in an operand of these letters and shape while `moving` letters take all values of
  // the extents `over`, the last one fastest; its other letters are 0.
  static std::vector<int64_t> offsets(const std::string& moving,
                                      const Shape& over,
                                      const std::string& letters,
                                      const Shape& shape) {
    std::vector<int64_t> found;
    for (int64_t flat = 0; flat < over.elements(); ++flat) {
      std::array<int64_t, 26> index{};
      int64_t rest = flat, offset = 0;
      for (int axis = over.rank() - 1; axis >= 0; --axis) {
        index[static_cast<size_t>(moving[static_cast<size_t>(axis)] - 'a')] = rest % over[axis];
        rest /= over[axis];
      }
      for (int axis = 0; axis < shape.rank(); ++axis)
        offset = offset * shape[axis] +
                 index[static_cast<size_t>(letters[static_cast<size_t>(axis)] - 'a')];
      found.push_back(offset);
    }
    return found;
  }

  static std::vector<Case> cases() {
    Case accumulate = sample("accumulate", "nf,nd->fd", {9, 5}, {9, 7});
    accumulate.inputs.push_back({f32({5, 7})});
    Case wide = sample("wide_result", "nd,fd->nf", {5, 33}, {7, 33});  // also for bf16 operands
    wide.attrs.set("dtype", std::string("f32"));
    Case native = sample("native", "nd,fd->nf", {37, 70}, {45, 70});
    Case native_gradient = sample("native_gradient", "nf,nd->fd", {70, 36}, {70, 40});
    native_gradient.inputs.push_back({f32({36, 40})});
    for (Case* each : {&native, &native_gradient}) each->attrs.set("native", true);
    Case invariant = sample("batch_invariant", "nd,fd->nf", {13, 70}, {45, 70});
    invariant.attrs.set("batch_invariant", true);
    // No axis of a matrix is contiguous.
    Case batch_last = sample("batch_last_accumulate", "ikb,jkb->ijb", {4, 5, 3}, {6, 5, 3});
    batch_last.inputs.push_back({f32({4, 6, 3})});
    return {sample("one", "nd,fd->nf", {1, 1}, {1, 1}),
            sample("batch_last", "ikb,jkb->bij", {4, 5, 3}, {6, 5, 3}),
            sample("batch_last_result", "bik,bjk->ijb", {3, 4, 5}, {3, 6, 5}),
            std::move(batch_last),
            sample("linear", "nd,fd->nf", {13, 17}, {31, 17}),
            sample("linear_wide", "nd,fd->nf", {33, 64}, {65, 64}),
            sample("linear_tens", "nd,fd->nf", {33, 1064}, {136, 1064}),
            sample("input_gradient", "nf,fd->nd", {13, 31}, {31, 17}),
            sample("weight_gradient", "nf,nd->fd", {13, 31}, {13, 17}),
            sample("scores", "btkge,bske->bkgts", {2, 5, 2, 3, 8}, {2, 7, 2, 8}),
            sample("mix", "bkgts,bske->btkge", {2, 2, 3, 5, 7}, {2, 7, 2, 8}),
            sample("group_gradient", "bkgts,btkge->bske", {2, 2, 3, 5, 7}, {2, 5, 2, 3, 8}),
            accumulate,
            wide,
            native,
            native_gradient,
            invariant};
  }
};

}  // namespace

const Op& matmul_op() { return op_from<MatmulOp>(); }

}  // namespace ridge::ops
