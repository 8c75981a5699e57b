// SPDX-License-Identifier: Apache-2.0
// einsum (composite): a sum of products of any number of operands in einsum notation,
// "...ij,jk,k->...i". It becomes matmuls in the order that takes the fewest FLOPs, pointwise
// products where nothing is summed, sums of letters that only one operand has, and views.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ops/contraction.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

// A value and the letters of its axes.
struct Named {
  ValueId value = kNoValue;
  std::string letters;
};

class Lowering {
 public:
  Lowering(Builder& b, const Contraction& c) : b_(b), c_(c) {}

  // The operand without the axes of 1 that repeat and without the letters that are summed at once.
  Named operand(ValueId x, const std::string& letters, const std::string& kept) {
    x = reshape(b_, x, c_.shape(letters));
    if (letters == kept) return {x, kept};
    std::vector<int64_t> axes;
    for (size_t i = 0; i < letters.size(); ++i)
      if (!has(kept, letters[i])) axes.push_back(static_cast<int64_t>(i));
    return {reshape(b_, reduce_sum(b_, x, axes), c_.shape(kept)), kept};
  }

  Named multiply(const Named& x, const Named& y, const ContractedPair& pair, std::string out) {
    if (pair.summed.empty()) return {mul(b_, spread(x, out), spread(y, out)), out};
    PairLetters letters;
    for (char letter : x.letters) {
      std::string& group = has(pair.summed, letter) ? letters.k
                           : has(y.letters, letter) ? letters.batch
                                                    : letters.m;
      group += letter;
    }
    for (char letter : y.letters)
      if (!has(x.letters, letter)) letters.n += letter;
    return product(arranged(x, letters.batch, letters.m, letters.k),
                   arranged(y, letters.batch, letters.n, letters.k), letters, std::move(out));
  }

  // The same axes in another order.
  ValueId ordered(const Named& x, const std::string& letters) {
    if (x.letters == letters) return x.value;
    std::vector<int64_t> permutation;
    for (char letter : letters) permutation.push_back(static_cast<int64_t>(x.letters.find(letter)));
    return transpose(b_, x.value, permutation);
  }

 private:
  // A product's letters: `batch` are in both operands and the result, `m` in the first operand, `n`
  // in the second, and `k` are summed. They are in the first operand's order, `n` in the second's.
  struct PairLetters {
    std::string batch, m, n, k;
  };

  // Whether the letters are the batch letters in any order, and then one block and the other: then
  // the product is a GEMM for each combination of the batch letters.
  static bool is_in_blocks(const std::string& letters,
                           const std::string& batch,
                           const std::string& one,
                           const std::string& other) {
    const std::string rest = letters.substr(batch.size());
    return std::is_permutation(batch.begin(), batch.end(), letters.begin()) &&
           (rest == one + other || rest == other + one);
  }

  // The operand in blocks. If it is not, a view is, which is copied where a kernel needs it.
  Named arranged(const Named& x,
                 const std::string& batch,
                 const std::string& free,
                 const std::string& k) {
    if (is_in_blocks(x.letters, batch, free, k)) return x;
    const std::string letters = batch + free + k;
    return {ordered(x, letters), letters};
  }

  Named product(Named x, Named y, const PairLetters& l, std::string out) {
    // Kernels take few batch axes: more become one.
    constexpr size_t kMostBatchAxes = 3;
    const bool merges = l.batch.size() > kMostBatchAxes;
    const std::string natural = l.batch + l.m + l.n;
    const std::string made = !merges && is_in_blocks(out, l.batch, l.m, l.n) ? out : natural;
    auto merged = [&](const Named& operand, const std::string& rest) {
      std::vector<int64_t> dims{c_.elements(l.batch)};
      for (char letter : rest) dims.push_back(c_.extent(letter));
      return reshape(b_, ordered(operand, l.batch + rest), Shape(dims));
    };
    // Letters of matmul are a to z; the merged axis has the first one.
    auto renamed = [&](const std::string& letters) {
      std::string names = merges ? "a" : "";
      for (char letter : letters)
        if (!merges || !has(l.batch, letter))
          names += static_cast<char>('b' + (natural + l.k).find(letter));
      return names;
    };
    const std::string notation =
        renamed(x.letters) + "," + renamed(y.letters) + "->" + renamed(made);
    if (merges) {
      x.value = merged(x, x.letters.substr(l.batch.size()));
      y.value = merged(y, y.letters.substr(l.batch.size()));
    }
    const ValueId value = reshape(b_, matmul(b_, notation, x.value, y.value), c_.shape(made));
    return {ordered({value, made}, out), std::move(out)};
  }

  // Views of x with all letters of `out`, repeated along those that it lacks.
  ValueId spread(const Named& x, const std::string& out) {
    std::string mine;
    std::vector<int64_t> dims;
    for (char letter : out) {
      if (has(x.letters, letter)) mine += letter;
      dims.push_back(has(x.letters, letter) ? c_.extent(letter) : 1);
    }
    const ValueId view = reshape(b_, ordered(x, mine), Shape(dims));
    return broadcast(b_, view, c_.shape(out));
  }

  Builder& b_;
  const Contraction& c_;
};

struct EinsumOp {
  static Op declaration() {
    return {.name = "einsum",
            .category = OpCategory::kMatmul,
            .kind = OpKind::kComposite,
            .operands = {1, kAnyNumber},
            .attrs = {{"einsum", std::string()}},
            .formula =
                "of the order of products with the fewest FLOPs: 1 MAC (or 1 FLOP if nothing is "
                "summed) for each combination of a pair's letters, 1 FLOP an element of an "
                "operand whose own letters are summed"};
  }

  static std::vector<Type> infer(const Call& call) {
    for (const Type& operand : call.inputs) {
      expect_float("einsum", operand, "an operand");
      if (operand.dtype != call.inputs[0].dtype)
        throw usage_error("[einsum] expected operands of one element type, got {} and {}",
                          call.inputs[0].str(), operand.str());
    }
    const Contraction c = parse_contraction(call.attrs.text("einsum"), call.inputs);
    if (c.out.size() > static_cast<size_t>(kMaxRank))
      throw usage_error("[einsum] expected a result of at most {} axes, got {}", kMaxRank,
                        c.out.size());
    order_of(c);
    return {{call.inputs[0].dtype, c.shape(c.out)}};
  }

  static Work work(const Call& call) {
    const Contraction c = parse_contraction(call.attrs.text("einsum"), call.inputs);
    return work_of(c, order_of(c));
  }

  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    std::vector<Type> types;
    for (ValueId input : node.inputs) types.push_back(b.type(input));
    const Contraction c = parse_contraction(node.attrs.text("einsum"), types);
    const ContractionOrder order = order_of(c);
    Lowering lower(b, c);
    std::vector<Named> values;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      values.push_back(lower.operand(node.inputs[i], c.operands[i], order.reduced[i]));
    for (size_t i = 0; i < order.pairs.size(); ++i) {
      const ContractedPair& pair = order.pairs[i];
      values.push_back(lower.multiply(values[pair.first], values[pair.second], pair,
                                      i + 1 == order.pairs.size() ? c.out : pair.out));
    }
    return {lower.ordered(values.back(), c.out)};
  }

  // Loops over the letters of the result and, inside, over the others.
  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Contraction c = parse_contraction(call.attrs.text("einsum"), call.inputs);
    std::string others;
    for (const std::string& letters : c.operands)
      for (char letter : letters)
        if (!has(c.out, letter) && !has(others, letter)) others += letter;
    std::array<int64_t, 128> index{};
    auto place = [&](const std::string& letters, int64_t flat) {
      for (size_t i = letters.size(); i-- > 0;) {
        index[static_cast<size_t>(letters[i])] = flat % c.extent(letters[i]);
        flat /= c.extent(letters[i]);
      }
    };
    const int64_t terms = c.elements(others);
    for (size_t o = 0; o < outputs[0].data.size(); ++o) {
      place(c.out, static_cast<int64_t>(o));
      double sum = 0;
      for (int64_t t = 0; t < terms; ++t) {
        place(others, t);
        double product = 1;
        for (size_t i = 0; i < c.operands.size(); ++i) {
          int64_t at = 0;
          for (char letter : c.operands[i])
            at = at * c.extent(letter) + index[static_cast<size_t>(letter)];
          product *= inputs[i]->data[static_cast<size_t>(at)];
        }
        sum += product;
      }
      outputs[0].data[o] = sum;
    }
  }

  static std::vector<Case> cases() {
    auto sample = [](std::string name, std::string einsum, std::vector<Shape> shapes) {
      Case made{std::move(name), {}, {{"einsum", std::move(einsum)}}};
      for (const Shape& shape : shapes) made.inputs.push_back({f32(shape)});
      return made;
    };
    return {sample("chain", "ij,jk,kl->il", {{5, 7}, {7, 3}, {3, 6}}),
            sample("bilinear", "bi,oij,bj->bo", {{4, 5}, {3, 5, 6}, {4, 6}}),
            sample("dots", "...ij,...jk->...ik", {{2, 1, 4, 3}, {5, 3, 2}}),
            sample("outer", "a,b,c->cab", {{3}, {4}, {5}}),
            sample("pointwise", "ij,ji->ij", {{4, 5}, {5, 4}}),
            sample("sums", "ijk,jl->j", {{3, 4, 5}, {4, 6}}),
            sample("transposed", "ijk->kij", {{3, 4, 5}}),
            sample("scalar", "ij,ij->", {{3, 4}, {3, 4}}),
            sample("inner_batch", "ikb,jkb->jib", {{3, 5, 4}, {2, 5, 4}}),
            sample("mixed_sums", "iklj,lmkj->mi", {{3, 4, 5, 2}, {5, 6, 4, 2}}),
            sample("many_batches", "abcdi,dcbai->bacd", {{2, 3, 2, 2, 5}, {2, 2, 3, 2, 5}})};
  }
};

}  // namespace

const Op& einsum_op() { return op_from<EinsumOp>(); }

}  // namespace ridge::ops
