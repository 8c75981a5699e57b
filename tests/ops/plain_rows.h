// SPDX-License-Identifier: Apache-2.0
// Plain loops of norms, softmax, losses, sums, updates and moves. Scalars that a loop computes once
// per call are doubles, because docs/accounting.md does not count them.
#pragma once

#include <limits>

#include "ops/counted.h"

namespace ridge::ops {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// A row and its square mean, normed. Returns 1 / rms.
inline Number norm_row(std::vector<Number>& row, CountedArray& weight, const Attrs& attrs) {
  Number squares;
  for (Number x : row) squares = squares + x * x;
  Number rstd = rsqrt(squares * (1.0 / static_cast<double>(row.size())) + attrs.real("eps"));
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = row[i] * rstd * (attrs.real("offset") + weight.plain(static_cast<int64_t>(i)));
  return rstd;
}

inline std::vector<Number> row_of(CountedArray& array, int64_t row) {
  int64_t width = width_of(array);
  std::vector<Number> values;
  for (int64_t i = 0; i < width; ++i) values.push_back(array[row * width + i]);
  return values;
}
inline void write_row(CountedArray& array, int64_t row, const std::vector<Number>& values) {
  int64_t width = width_of(array);
  for (int64_t i = 0; i < width; ++i) array[row * width + i] = values[static_cast<size_t>(i)];
}

inline void plain_rms_norm(const Op&, const Call& call, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> row = row_of(in[0], r);
    out[1][r] = norm_row(row, in[1], call.attrs);
    write_row(out[0], r, row);
  }
}

inline void plain_add_rms_norm(const Op&, const Call& call, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> row = row_of(in[0], r), residual = row_of(in[1], r);
    for (size_t i = 0; i < row.size(); ++i) row[i] = row[i] + residual[i];
    write_row(out[0], r, row);
    out[2][r] = norm_row(row, in[2], call.attrs);
    write_row(out[1], r, row);
  }
}

// Inputs dy, x, weight, rstd and perhaps the residual's gradient; outputs dx, dweight.
inline void plain_rms_norm_backward(const Op&, const Call& call, Arrays& in, Arrays& out) {
  size_t width = static_cast<size_t>(width_of(in[1]));
  std::vector<Number> d_weight(width);
  for (int64_t r = 0; r < rows_of(in[1]); ++r) {
    std::vector<Number> dy = row_of(in[0], r), x = row_of(in[1], r), scaled(width), dx(width);
    Number rstd = in[3][r], dot;
    for (size_t i = 0; i < width; ++i) {
      scaled[i] = dy[i] * (call.attrs.real("offset") + in[2].plain(static_cast<int64_t>(i)));
      x[i] = x[i] * rstd;
      dot = dot + scaled[i] * x[i];
      d_weight[i] = d_weight[i] + dy[i] * x[i];
    }
    Number mean = dot * (1.0 / static_cast<double>(width));
    for (size_t i = 0; i < width; ++i) dx[i] = (scaled[i] - x[i] * mean) * rstd;
    if (in.size() == 5) {
      std::vector<Number> residual = row_of(in[4], r);
      for (size_t i = 0; i < width; ++i) dx[i] = dx[i] + residual[i];
    }
    write_row(out[0], r, dx);
  }
  write_row(out[1], 0, d_weight);
}

// exp(x - largest) of a row; returns the largest and the sum.
inline std::pair<Number, Number> exp_row(std::vector<Number>& row) {
  Number top(kMinusInfinity), sum;
  for (Number x : row) top = max(top, x);
  for (Number& x : row) {
    x = exp(x - top);
    sum = sum + x;
  }
  return {top, sum};
}

inline void plain_softmax(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> row = row_of(in[0], r);
    Number sum = exp_row(row).second;
    for (Number& x : row) x = x / sum;
    write_row(out[0], r, row);
  }
}

inline void plain_softmax_backward(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> y = row_of(in[0], r), dy = row_of(in[1], r);
    Number dot;
    for (size_t i = 0; i < y.size(); ++i) dot = dot + dy[i] * y[i];
    for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * (dy[i] - dot);
    write_row(out[0], r, y);
  }
}

inline void plain_log_softmax(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> row = row_of(in[0], r);
    Number top(kMinusInfinity), sum;
    for (Number x : row) top = max(top, x);
    for (Number& x : row) {
      x = x - top;
      sum = sum + exp(x);
    }
    Number log_sum = log(sum);
    for (Number& x : row) x = x - log_sum;
    write_row(out[0], r, row);
  }
}

inline void plain_log_softmax_backward(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> y = row_of(in[0], r), dy = row_of(in[1], r);
    Number sum;
    for (Number each : dy) sum = sum + each;
    for (size_t i = 0; i < y.size(); ++i) y[i] = dy[i] - exp(y[i]) * sum;
    write_row(out[0], r, y);
  }
}

// No label is -1, so each row has one.
inline void plain_nll_loss(const Op&, const Call&, Arrays& in, Arrays& out) {
  Number sum;
  int64_t rows = rows_of(in[0]);
  for (int64_t r = 0; r < rows; ++r) sum = sum - in[0][r * width_of(in[0]) + in[1].id(r)];
  out[0][0] = sum.value() / static_cast<double>(rows);
  out[1][0] = static_cast<double>(rows);
}

inline void plain_nll_loss_backward(const Op&, const Call&, Arrays& in, Arrays& out) {
  double share = -in[3].plain(0) / in[2].plain(0);
  for (int64_t r = 0; r < rows_of(out[0]); ++r) {
    int64_t label = in[1].id(r);
    for (int64_t i = 0; i < width_of(out[0]); ++i)
      out[0][r * width_of(out[0]) + i] = i == label ? share : 0;
  }
}

inline void plain_softmax_cross_entropy(const Op&, const Call&, Arrays& in, Arrays& out) {
  Number loss;
  int64_t rows = rows_of(in[0]);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<Number> row = row_of(in[0], r);
    Number of_label = row[static_cast<size_t>(in[1].id(r))];
    auto [top, sum] = exp_row(row);
    Number lse = top + log(sum);
    out[1][r] = lse;
    loss = loss + (lse - of_label);
  }
  out[0][0] = loss.value() / static_cast<double>(rows);
  out[2][0] = static_cast<double>(rows);
}

// Inputs logits, labels, lse, the count, the loss's gradient.
inline void plain_softmax_cross_entropy_backward(const Op&, const Call&, Arrays& in, Arrays& out) {
  double share = in[4].plain(0) / in[3].plain(0);
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> row = row_of(in[0], r);
    Number lse = in[2][r];
    for (Number& x : row) x = exp(x - lse) * share;
    Number& at_label = row[static_cast<size_t>(in[1].id(r))];
    at_label = at_label - share;
    write_row(out[0], r, row);
  }
}

// A label may be in the columns of another part.
inline void plain_cross_entropy_part(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> row = row_of(in[0], r);
    const int64_t label = in[1].id(r);
    out[1][r] = label >= 0 && label < std::ssize(row) ? row[static_cast<size_t>(label)] : Number(0);
    auto [top, sum] = exp_row(row);
    out[0][r] = top + log(sum);
  }
}

// Inputs logits, which are not read, labels, and lse and the label's logit of each part.
inline void plain_cross_entropy_of_parts(const Op&, const Call&, Arrays& in, Arrays& out) {
  Number loss;
  int64_t rows = rows_of(in[0]), count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<Number> parts;
    Number of_label;
    for (int64_t at = r; at < rows_of(in[2]); at += rows) {
      parts.push_back(in[2][at]);
      of_label = of_label + in[3][at];
    }
    auto [top, sum] = exp_row(parts);
    Number lse = top + log(sum);
    out[1][r] = lse;
    if (in[1].id(r) < 0) continue;
    loss = loss + (lse - of_label);
    ++count;
  }
  out[0][0] = count > 0 ? loss.value() / static_cast<double>(count) : 0;
  out[2][0] = static_cast<double>(count);
}

// Outputs have extent 1 along the summed axes.
inline void plain_reduce_sum(const Op&, const Call&, Arrays& in, Arrays& out) {
  const Shape &from = in[0].shape(), &to = out[0].shape();
  std::vector<Number> sums(static_cast<size_t>(to.elements()));
  for (int64_t i = 0; i < from.elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      at += to[axis] == 1 ? 0 : rest % from[axis] * stride;
      stride *= to[axis];
      rest /= from[axis];
    }
    Number& sum = sums[static_cast<size_t>(at)];
    sum = sum + in[0][i];
  }
  for (int64_t i = 0; i < to.elements(); ++i) out[0][i] = sums[static_cast<size_t>(i)];
}

inline void plain_sum_squares(const Op&, const Call&, Arrays& in, Arrays& out) {
  Number sum;
  for (CountedArray& each : in)
    for (int64_t i = 0; i < each.shape().elements(); ++i) {
      Number x = each[i];
      sum = sum + x * x;
    }
  out[0][0] = sum;
}

inline void plain_clip_coefficient(const Op&, const Call& call, Arrays& in, Arrays& out) {
  out[0][0] = min(1, Number(call.attrs.real("max_norm")) / (sqrt(in[0][0]) + 1e-6));
}

// Comparisons are no arithmetic, and a scale is doubled or halved in its exponent.
inline void plain_loss_scale(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const double max_norm = call.attrs.real("max_norm"), scale = in[1].plain(0);
  const Number squares = in[0][0], good = Number(in[2][0]) + 1;
  const bool overflows = std::isinf(in[0].plain(0));
  const bool grows =
      in[2].plain(0) + 1 >= static_cast<double>(call.attrs.integer("growth_interval"));
  const Number norm = sqrt(squares) / scale;
  Number factor = 1;
  if (max_norm > 0) factor = min(1, Number(max_norm) / (norm + 1e-6));
  factor = factor / scale;
  const double skipped = in[3].plain(0) + (overflows ? 1 : 0);
  out[0][0] = overflows ? std::fmax(scale / 2, 1) : grows ? std::fmin(scale * 2, 0x1p24) : scale;
  out[1][0] = overflows || grows ? Number(0) : good;
  out[2][0] = skipped;
  out[3][0] = overflows ? Number(-1) : factor;
  out[4][0] = Number(in[4][0]) - skipped;
  out[5][0] = norm * norm;
}

// Inputs: learning rate, step, perhaps the clipping factor; then parameter, gradient, moments and
// perhaps a copy of each tensor.
inline void plain_adamw(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const Attrs& attrs = call.attrs;
  double rate = in[0].plain(0), step = in[1].plain(0);
  double b1 = attrs.real("beta1"), b2 = attrs.real("beta2");
  double keep = 1 - rate * attrs.real("weight_decay");
  double size = rate / (1 - std::pow(b1, step));
  double correction = 1 / std::sqrt(1 - std::pow(b2, step));
  bool clips = attrs.flag("clip");
  double factor = clips ? in[2].plain(0) : 1;
  size_t from = clips ? 3 : 2, to = 0;
  for (int64_t copies : attrs.integers("copies")) {
    for (int64_t i = 0; i < in[from].shape().elements(); ++i) {
      Number g = in[from + 1][i];
      if (clips) g = g * factor;
      Number m = Number(in[from + 2][i]) * b1 + g * (1 - b1);
      Number v = Number(in[from + 3][i]) * b2 + g * g * (1 - b2);
      Number p = Number(in[from][i]) * keep - m * size / (sqrt(v) * correction + attrs.real("eps"));
      if (factor < 0) {  // the step is skipped
        p = in[from][i];
        m = in[from + 2][i];
        v = in[from + 3][i];
      }
      out[to][i] = p;
      out[to + 1][i] = m;
      out[to + 2][i] = v;
      if (copies != 0) out[to + 3][i] = p;
    }
    from += copies != 0 ? 5 : 4;
    to += copies != 0 ? 4 : 3;
  }
}

inline void plain_accumulate(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) out[0][i] = Number(in[0][i]) + in[1][i];
}

// A rank's part of a ring: it adds up one part of each tensor, and gets the others as sums. All
// ranks have the same tensors here.
inline void plain_all_reduce(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const int64_t ranks = call.attrs.integer("ranks");
  for (size_t t = 0; t < out.size(); ++t) {
    const int64_t all = out[t].shape().elements();
    for (int64_t i = 0; i < all; ++i) {
      const Number own = in[t][i];
      Number sum = own;
      for (int64_t rank = 1; i < all / ranks && rank < ranks; ++rank) sum = sum + own;
      out[t][i] = i < all / ranks ? sum : Number(static_cast<double>(ranks) * own.value());
    }
  }
}

inline void plain_all_reduce_add_rms_norm(const Op& op, const Call& call, Arrays& in, Arrays& out) {
  Arrays sum{in[0]};
  plain_all_reduce(op, call, in, sum);
  std::swap(in[0], sum[0]);
  plain_add_rms_norm(op, call, in, out);
  std::swap(in[0], sum[0]);
}

// The rank reads what it sends, and the other one, which sends zeros here, fills what it receives.
inline void plain_send(const Op&, const Call&, Arrays& in, Arrays&) {
  for (int64_t i = 0; i < in[0].shape().elements(); ++i) (void)Number(in[0][i]);
}
inline void plain_receive(const Op&, const Call&, Arrays&, Arrays& out) {
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) out[0][i] = Number(0);
}

// The parts of all ranks take turns along the axis. All ranks have the same parts here.
inline void plain_all_gather(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const int axis = static_cast<int>(call.attrs.integer("axis"));
  for (size_t t = 0; t < out.size(); ++t) {
    const int64_t run = in[t].shape().elements() / around(in[t].shape(), axis).outer;
    for (int64_t i = 0; i < out[t].shape().elements(); ++i)
      out[t][i] = in[t][i / (run * call.attrs.integer("ranks")) * run + i % run];
  }
}

// The first rank's part of a ring: it adds what arrives to its own part. All ranks have the same
// tensors here.
inline void plain_reduce_scatter(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const int axis = static_cast<int>(call.attrs.integer("axis"));
  const int64_t ranks = call.attrs.integer("ranks");
  for (size_t t = 0; t < out.size(); ++t) {
    const int64_t run = out[t].shape().elements() / around(out[t].shape(), axis).outer;
    for (int64_t i = 0; i < in[t].shape().elements(); ++i) {
      const Number own = in[t][i];
      if (i % (run * ranks) >= run) continue;
      Number sum = own;
      for (int64_t rank = 1; rank < ranks; ++rank) sum = sum + own;
      out[t][i / (run * ranks) * run + i % run] = sum;
    }
  }
}

// In repacked tiles, a row shares its cache lines with the other 15 rows.
inline void plain_embedding(const Op&, const Call&, Arrays& in, Arrays& out) {
  int64_t width = width_of(in[0]);
  bool repacked = name(in[0].type().dtype).ends_with("x16");
  for (int64_t n = 0; n < rows_of(out[0]); ++n) {
    int64_t row = in[1].id(n), first = repacked ? row / 16 * 16 : row;
    for (int64_t i = first * width; i < (repacked ? first + 16 : row + 1) * width; ++i)
      in[0].plain(i);
    for (int64_t i = 0; i < width; ++i) out[0][n * width + i] = in[0][row * width + i];
  }
}

inline void plain_embedding_backward(const Op&, const Call&, Arrays& in, Arrays& out) {
  int64_t width = width_of(out[0]);
  std::vector<Number> table(static_cast<size_t>(out[0].shape().elements()));
  for (int64_t n = 0; n < rows_of(in[1]); ++n)
    for (int64_t i = 0; i < width; ++i) {
      int64_t at = in[0].id(n) * width + i;
      Number gradient = in[1][n * width + i];
      if (in.size() == 3)
        out[0][at] = Number(out[0][at]) + gradient;
      else
        table[static_cast<size_t>(at)] = table[static_cast<size_t>(at)] + gradient;
    }
  if (in.size() == 2) {
    for (int64_t i = 0; i < out[0].shape().elements(); ++i)
      out[0][i] = table[static_cast<size_t>(i)];
  }
}

inline void plain_copy(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) out[0][i] = in[0][i];
}

inline void plain_transpose_multi(const Op&, const Call&, Arrays& in, Arrays& out) {
  for (size_t m = 0; m < in.size(); ++m)
    for (int64_t r = 0; r < rows_of(in[m]); ++r)
      for (int64_t c = 0; c < width_of(in[m]); ++c)
        out[m][c * rows_of(in[m]) + r] = in[m][r * width_of(in[m]) + c];
}

inline void plain_concat(const Op&, const Call& call, Arrays& in, Arrays& out) {
  int axis = static_cast<int>(call.attrs.integer("axis"));
  int64_t outer = 1, to = 0;
  for (int i = 0; i < axis; ++i) outer *= out[0].shape()[i];
  for (int64_t o = 0; o < outer; ++o)
    for (CountedArray& part : in)
      for (int64_t run = part.shape().elements() / outer, i = 0; i < run; ++i)
        out[0][to++] = part[o * run + i];
}

inline void plain_fill(const Op&, const Call& call, Arrays&, Arrays& out) {
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) out[0][i] = call.attrs.real("value");
}

inline void plain_zero(const Op&, const Call&, Arrays&, Arrays& out) {
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) out[0][i] = 0;
}

// Greedy: one comparison per logit. The other operands are read and written whole, but for the
// biases, of which there are none.
inline void plain_sample(const Op&, const Call&, Arrays& in, Arrays& out) {
  int64_t recent = width_of(in[2]), vocabulary = width_of(in[0]);
  for (size_t i = 1; i < 6; ++i) in[i].touch_all();
  if (in.size() == 9) in[8].touch_all();
  for (int64_t i = 0; i < in[2].shape().elements(); ++i) out[1][i] = in[2][i];
  for (int64_t s = 0; s < rows_of(in[0]); ++s) {
    Number best(kMinusInfinity);
    int64_t token = 0;
    for (int64_t i = 0; i < vocabulary; ++i) {
      Number logit = in[0][s * vocabulary + i];
      if (!exceeds(logit, best)) continue;
      best = logit;
      token = i;
    }
    out[0][s] = static_cast<double>(token);
    out[1][s * recent + in[3].id(s) % recent] = static_cast<double>(token);
  }
}

}  // namespace ridge::ops
