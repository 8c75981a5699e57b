// SPDX-License-Identifier: Apache-2.0
// Plain loops of matrix products.
#pragma once

#include <array>
#include <string>

#include "ops/plain_pointwise.h"
#include "ops/plain_rows.h"

namespace ridge::ops {

// The letters of "nd,fd->nf" and their extents: a loop for each.
class EinsumLoops {
 public:
  EinsumLoops(const std::string& text, const Shape& a, const Shape& b)
      : a_(text.substr(0, text.find(','))),
        b_(text.substr(a_.size() + 1, text.find('-') - a_.size() - 1)),
        out_(text.substr(text.find('>') + 1)) {
    for (int axis = 0; axis < a.rank(); ++axis) add(a_[static_cast<size_t>(axis)], a[axis]);
    for (int axis = 0; axis < b.rank(); ++axis) add(b_[static_cast<size_t>(axis)], b[axis]);
  }

  // Calls visit(offset in a, in b, in out) for all combinations of letters.
  template <typename Visit>
  void visit(const Visit& visit) {
    int64_t combinations = 1;
    for (char letter : letters_) combinations *= extent(letter);
    for (int64_t c = 0; c < combinations; ++c) {
      int64_t rest = c;
      for (char letter : letters_) {
        at_[index(letter)] = rest % extent(letter);
        rest /= extent(letter);
      }
      visit(offset(a_), offset(b_), offset(out_));
    }
  }

 private:
  static size_t index(char letter) { return static_cast<size_t>(letter - 'a'); }
  int64_t extent(char letter) const { return extents_[index(letter)]; }
  void add(char letter, int64_t extent) {
    if (letters_.find(letter) == std::string::npos) letters_ += letter;
    extents_[index(letter)] = extent;
  }
  int64_t offset(const std::string& letters) const {
    int64_t flat = 0;
    for (char letter : letters) flat = flat * extent(letter) + at_[index(letter)];
    return flat;
  }

  std::string a_, b_, out_, letters_;
  std::array<int64_t, 26> extents_{}, at_{};
};

inline void plain_matmul(const Op&, const Call& call, Arrays& in, Arrays& out) {
  std::vector<Number> sums(static_cast<size_t>(out[0].shape().elements()));
  EinsumLoops(call.attrs.text("einsum"), in[0].shape(), in[1].shape())
      .visit([&](int64_t a, int64_t b, int64_t o) {
        Number& sum = sums[static_cast<size_t>(o)];
        sum = mac(sum, in[0][a], in[1][b]);
      });
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) {
    Number sum = sums[static_cast<size_t>(i)];
    out[0][i] = in.size() == 3 ? sum + in[2][i] : sum;
  }
}

// One row of x [in] with a row of a weight [out, in].
inline Number row_dot(const std::vector<Number>& x, CountedArray& weight, int64_t row) {
  Number sum;
  for (size_t i = 0; i < x.size(); ++i)
    sum = mac(sum, x[i], weight[row * width_of(weight) + static_cast<int64_t>(i)]);
  return sum;
}

inline void plain_quantized_matmul(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const std::string& glu = call.attrs.text("glu");
  for (size_t w = 0; w < out.size(); ++w)
    for (int64_t n = 0; n < rows_of(in[0]); ++n) {
      std::vector<Number> x = row_of(in[0], n);
      for (int64_t f = 0; f < width_of(out[w]); ++f) {
        Number y = row_dot(x, in[w + 1], f);
        if (!glu.empty()) y = (glu == "silu" ? silu(y) : gelu_tanh(y)) * row_dot(x, in[2], f);
        out[w][n * width_of(out[w]) + f] = y;
      }
    }
}

// x, weight, then what the attributes require: norm; delta and its norm; residual.
inline void plain_skinny_gemm(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const Attrs& attrs = call.attrs;
  const std::string& activation = attrs.text("activation");
  size_t next = 2;
  size_t norm = attrs.flag("norms") ? next++ : 0, delta = attrs.flag("adds") ? next++ : 0,
         delta_norm = attrs.flag("adds") ? next++ : 0,
         residual = attrs.flag("residual") ? next++ : 0;
  int64_t width = width_of(out[0]);
  for (int64_t n = 0; n < rows_of(in[0]); ++n) {
    std::vector<Number> x = row_of(in[0], n);
    if (delta != 0) {
      std::vector<Number> term = row_of(in[delta], n);
      norm_row(term, in[delta_norm], attrs);
      for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] + term[i];
      write_row(out[1], n, x);
    }
    if (norm != 0) norm_row(x, in[norm], attrs);
    for (int64_t f = 0; f < width; ++f) {
      Number y = row_dot(x, in[1], f);
      if (!activation.empty())
        y = (activation == "silu" ? silu(y) : gelu_tanh(y)) * row_dot(x, in[1], width + f);
      if (residual != 0) y = y + in[residual][n * width + f];
      out[0][n * width + f] = y;
    }
  }
}

}  // namespace ridge::ops
