// SPDX-License-Identifier: Apache-2.0
// Plain loops of attention, of the KV cache and of rotations.
#pragma once

#include <algorithm>

#include "ops/attention.h"
#include "ops/case_data.h"
#include "ops/plain_rows.h"
#include "ops/rope_frequencies.h"

namespace ridge::ops {

// Flash attention computes each score of a tile in which some query sees some key. The real tiles
// belong to the kernels; any do here.
struct ScoreTiles {
  int64_t queries, keys;
};
inline constexpr ScoreTiles kForwardTiles{4, 8}, kBackwardTiles{16, 4}, kQueryGradientTiles{8, 8};

// q [B T,H,E], k and v [B T,K,E]; offsets are those of the first element of a head.
struct Heads {
  Heads(const Call& call, const Shape& q, const Shape& k)
      : length(call.attrs.integer("sequence")),
        sequences(q[0] / length),
        heads(q[1]),
        kv_heads(k[1]),
        size(q[2]),
        window(call.attrs.integer("window")),
        scale(call.attrs.real("scale")),
        causal(call.attrs.flag("causal")) {}

  int64_t query(int64_t s, int64_t t, int64_t h) const {
    return ((s * length + t) * heads + h) * size;
  }
  int64_t key(int64_t s, int64_t t, int64_t h) const {
    return ((s * length + t) * kv_heads + h * kv_heads / heads) * size;
  }
  bool sees(int64_t i, int64_t j) const {
    if (!causal) return true;
    return j <= i && (window == 0 || i - j < window);
  }
  bool computes(const ScoreTiles& tiles, int64_t i, int64_t j) const {
    int64_t first_i = i / tiles.queries * tiles.queries, first_j = j / tiles.keys * tiles.keys;
    for (int64_t a = first_i; a < std::min(first_i + tiles.queries, length); ++a)
      for (int64_t b = first_j; b < std::min(first_j + tiles.keys, length); ++b)
        if (sees(a, b)) return true;
    return false;
  }
  int64_t scores(const ScoreTiles& tiles) const {
    int64_t count = 0;
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j < length; ++j) count += computes(tiles, i, j);
    return count;
  }

  int64_t length, sequences, heads, kv_heads, size, window;
  double scale;
  bool causal;
};

// Where the document of a row's token begins, by the operand `in[index]` if there is one. Tiles are
// counted as if each row were one document.
inline int64_t begin_of(Arrays& in, size_t index, int64_t row, int64_t length, int64_t token) {
  if (in.size() <= index) return 0;
  const auto position = static_cast<int64_t>(Number(in[index][row * length + token]).value());
  return std::clamp<int64_t>(token - position, 0, token);
}

template <typename Array>
Number head_dot(CountedArray& a, int64_t at, Array& b, int64_t bt, int64_t size) {
  Number sum;
  for (int64_t e = 0; e < size; ++e) sum = mac(sum, a[at + e], b[bt + e]);
  return sum;
}

// The scores of one query with keys at the offsets `keys`, those that it does not see hidden, to
// the mixed values. Returns the scores' largest and the sum of their exponentials.
template <typename Array>
std::pair<Number, Number> attend(CountedArray& q,
                                 int64_t query,
                                 Array& k,
                                 Array& v,
                                 const std::vector<int64_t>& keys,
                                 const std::vector<bool>& seen,
                                 double scale,
                                 std::vector<Number>& o) {
  int64_t size = std::ssize(o);
  std::vector<Number> p;
  for (size_t j = 0; j < keys.size(); ++j) {
    Number score = head_dot(q, query, k, keys[j], size) * scale;
    p.push_back(seen[j] ? score : Number(kMinusInfinity));
  }
  auto [top, sum] = exp_row(p);
  for (size_t j = 0; j < keys.size(); ++j) {
    p[j] = p[j] / sum;
    for (int64_t e = 0; e < size; ++e)
      o[static_cast<size_t>(e)] = mac(o[static_cast<size_t>(e)], p[j], v[keys[j] + e]);
  }
  return {top, sum};
}

// attention computes the full square; flash_attention too while its target is not known.
inline void plain_attention(const Op& op, const Call& call, Arrays& in, Arrays& out) {
  Heads a(call, in[0].shape(), in[1].shape());
  bool in_tiles = op.name == "flash_attention" && call.attrs.integer("scores") > 0;
  for (int64_t s = 0; s < a.sequences; ++s)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.length; ++i) {
        std::vector<int64_t> keys;
        std::vector<bool> seen;
        const int64_t begin = begin_of(in, kForwardPositions, s, a.length, i);
        for (int64_t j = 0; j < a.length; ++j) {
          if (in_tiles && !a.computes(kForwardTiles, i, j)) continue;
          keys.push_back(a.key(s, j, h));
          seen.push_back(j >= begin && a.sees(i, j));
        }
        std::vector<Number> o(static_cast<size_t>(a.size));
        auto [top, sum] = attend(in[0], a.query(s, i, h), in[1], in[2], keys, seen, a.scale, o);
        for (int64_t e = 0; e < a.size; ++e)
          out[0][a.query(s, i, h) + e] = o[static_cast<size_t>(e)];
        if (out.size() > 1) out[1][(s * a.length + i) * a.heads + h] = top + log(sum);
      }
}

// Inputs do, q, k, v, o, lse; outputs dq, dk, dv. `scores_recomputed` gives dq a pass of its own.
inline void plain_flash_attention_backward(const Op&, const Call& call, Arrays& in, Arrays& out) {
  Heads a(call, in[1].shape(), in[2].shape());
  bool in_tiles = call.attrs.integer("scores_backward") > 0;
  bool has_query_pass = call.attrs.integer("scores_recomputed") > 0;
  std::vector<Number> d_q(in[1].data().size()), d_k(in[2].data().size()), d_v(d_k.size());
  for (int64_t s = 0; s < a.sequences; ++s)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.length; ++i) {
        int64_t query = a.query(s, i, h);
        const int64_t begin = begin_of(in, kBackwardPositions, s, a.length, i);
        Number delta, lse = in[5][(s * a.length + i) * a.heads + h];
        for (int64_t e = 0; e < a.size; ++e)
          delta = delta + Number(in[0][query + e]) * in[4][query + e];
        // The probability of a key and the gradient of its score.
        auto score = [&](int64_t j) -> std::pair<Number, Number> {
          int64_t key = a.key(s, j, h);
          Number x = head_dot(in[1], query, in[2], key, a.size) * a.scale;
          Number p = exp((j >= begin && a.sees(i, j) ? x : Number(kMinusInfinity)) - lse);
          Number d_p = head_dot(in[0], query, in[3], key, a.size);
          return {p, p * (d_p - delta) * a.scale};
        };
        auto add_row = [&](std::vector<Number>& to, int64_t at, Number factor, CountedArray& row,
                           int64_t from) {
          for (int64_t e = 0; e < a.size; ++e) {
            Number& sum = to[static_cast<size_t>(at + e)];
            sum = mac(sum, factor, row[from + e]);
          }
        };
        for (int64_t j = 0; j < a.length; ++j) {
          if (in_tiles && !a.computes(kBackwardTiles, i, j)) continue;
          auto [p, d_score] = score(j);
          add_row(d_v, a.key(s, j, h), p, in[0], query);
          add_row(d_k, a.key(s, j, h), d_score, in[1], query);
          if (!has_query_pass) add_row(d_q, query, d_score, in[2], a.key(s, j, h));
        }
        for (int64_t j = 0; has_query_pass && j < a.length; ++j)
          if (a.computes(kQueryGradientTiles, i, j))
            add_row(d_q, query, score(j).second, in[2], a.key(s, j, h));
      }
  for (size_t i = 0; i < d_q.size(); ++i) out[0][static_cast<int64_t>(i)] = d_q[i];
  for (size_t i = 0; i < d_k.size(); ++i) out[1][static_cast<int64_t>(i)] = d_k[i];
  for (size_t i = 0; i < d_v.size(); ++i) out[2][static_cast<int64_t>(i)] = d_v[i];
}

// The model requires of attention the whole matrix of probabilities, or as many keys as a window
// has for each query. Both loops only count.
inline int64_t model_keys(const Heads& a) {
  return a.window > 0 ? std::min(a.window, a.length) : a.length;
}

inline void model_attention(const Heads& a) {
  for (int64_t row = 0; row < a.sequences * a.heads * a.length; ++row) {
    std::vector<Number> p(static_cast<size_t>(model_keys(a)));
    for (Number& each : p) {
      for (int64_t e = 0; e < a.size; ++e) each = mac(each, 1, 1);
      each = each * a.scale;
    }
    Number sum = exp_row(p).second;
    for (Number& each : p) {
      each = each / sum;
      for (int64_t e = 0; e < a.size; ++e) mac(0, each, 1);
    }
  }
}

// The gradient with the probabilities in memory, as in an eager framework.
inline void model_attention_backward(const Heads& a) {
  int64_t keys = model_keys(a);
  for (int64_t row = 0; row < a.sequences * a.heads * a.length; ++row) {
    Number dot;
    for (int64_t j = 0; j < keys; ++j) {
      Number p = 0.5, d_p, d_q, d_k, d_v;
      for (int64_t e = 0; e < a.size; ++e) d_v = mac(d_v, p, 1);
      for (int64_t e = 0; e < a.size; ++e) d_p = mac(d_p, 1, 1);
      dot = dot + d_p * p;
      Number d_score = p * (d_p - dot) * a.scale;
      for (int64_t e = 0; e < a.size; ++e) d_q = mac(d_q, d_score, 1);
      for (int64_t e = 0; e < a.size; ++e) d_k = mac(d_k, d_score, 1);
    }
  }
}

inline void plain_causal_mask(const Op&, const Call& call, Arrays& in, Arrays& out) {
  int64_t t = width_of(in[0]), window = call.attrs.integer("window");
  for (int64_t i = 0; i < in[0].shape().elements(); ++i) {
    int64_t query = i / t % t, behind = query - i % t;
    int64_t row = i / (in[0].shape().elements() / in[0].shape()[0]);
    Number x = in[0][i];
    out[0][i] =
        behind < 0 || i % t < begin_of(in, 1, row, t, query) || (window > 0 && behind >= window)
            ? Number(call.attrs.real("value"))
            : x;
  }
}

// Rotates one head of x by the angles of a token.
inline void rotate_head(std::vector<Number>& x,
                        CountedArray& cos,
                        CountedArray& sin,
                        int64_t token,
                        bool interleaved,
                        bool inverse) {
  size_t half = x.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    int64_t at = token * static_cast<int64_t>(half) + static_cast<int64_t>(i);
    Number &first = x[interleaved ? 2 * i : i], &second = x[interleaved ? 2 * i + 1 : i + half];
    Number c = cos[at], s = sin[at], a = first, b = second;
    first = inverse ? a * c + b * s : a * c - b * s;
    second = inverse ? b * c - a * s : b * c + a * s;
  }
}

inline void plain_rope(const Op&, const Call& call, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    std::vector<Number> head = row_of(in[0], r);
    rotate_head(head, in[1], in[2], r / in[0].shape()[1], call.attrs.flag("interleaved"),
                call.attrs.flag("inverse"));
    write_row(out[0], r, head);
  }
}

inline void plain_rope_qkv(const Op& op, const Call& call, Arrays& in, Arrays& out) {
  int64_t heads = call.attrs.integer("heads"), kv_heads = call.attrs.integer("kv_heads");
  int64_t all = heads + 2 * kv_heads, size = width_of(in[0]) / all;
  for (int64_t n = 0; n < rows_of(in[0]); ++n)
    for (int64_t h = 0; h < all; ++h) {
      std::vector<Number> head;
      for (int64_t e = 0; e < size; ++e) head.push_back(in[0][(n * all + h) * size + e]);
      if (h < heads + kv_heads)
        rotate_head(head, in[1], in[2], n, call.attrs.flag("interleaved"),
                    op.name == "rope_qkv_backward");
      for (int64_t e = 0; e < size; ++e)
        out[0][(n * all + h) * size + e] = head[static_cast<size_t>(e)];
    }
}

inline void plain_rope_table(const Op&, const Call& call, Arrays& in, Arrays& out) {
  std::vector<double> frequencies = rope_frequencies(call.attrs);
  for (int64_t n = 0; n < rows_of(out[0]); ++n)
    for (int64_t i = 0; i < width_of(out[0]); ++i) {
      Number angle = Number(in[0][n]) * frequencies[static_cast<size_t>(i)];
      out[0][n * width_of(out[0]) + i] = cos(angle);
      out[1][n * width_of(out[0]) + i] = sin(angle);
    }
}

// A paged cache [blocks, block_tokens, K, E], and the cells of each slot, read from the block
// table. Position p is in cell p mod ring.
class Cells {
 public:
  Cells(const CountedArray& cache,
        CountedArray& positions,
        CountedArray& slots,
        CountedArray& table)
      : kv_heads(cache.shape()[2]), size(cache.shape()[3]), positions_(positions), slots_(slots) {
    int64_t tokens = cache.shape()[1];
    ring = width_of(table) * tokens;
    for (int64_t i = 0; i < table.shape().elements(); ++i)
      for (int64_t block = table.id(i), t = 0; t < tokens; ++t) rows_.push_back(block * tokens + t);
  }
  int64_t position(int64_t token) { return positions_.id(token); }
  // The offset of a head in the row of the token's slot.
  int64_t at(int64_t token, int64_t cell, int64_t kv_head) {
    int64_t row = rows_[static_cast<size_t>(slots_.id(token) * ring + cell)];
    return (row * kv_heads + kv_head) * size;
  }
  int64_t kv_heads, size, ring = 0;

 private:
  CountedArray &positions_, &slots_;
  std::vector<int64_t> rows_;
};

// The keys or values of a cache, with the scales of quants. Conversions do not count as FLOPs.
class CachedArray {
 public:
  CachedArray(CountedArray& cache, Arrays& all, size_t scales)
      : cache_(cache), scales_(scales < all.size() ? &all[scales] : nullptr) {}
  Number operator[](int64_t at) {
    if (scales_ == nullptr) return cache_[at];
    return cache_.plain(at) * scales_->plain(scale_at(cache_.shape(), at));
  }
  // Where the scale of an element of a cache of this shape is.
  static int64_t scale_at(const Shape& shape, int64_t at) {
    int64_t head = at / shape[3] % shape[2], token = at / shape[3] / shape[2];
    return (token / shape[1] * shape[2] + head) * shape[1] + token % shape[1];
  }

 private:
  CountedArray& cache_;
  CountedArray* scales_;
};

// The quants of a cache's type that are not negative, in ascending order: every second one is even.
inline std::vector<double> quants_of(DType type) {
  std::vector<double> quants;
  for (uint8_t code = 0; code <= (type == DType::kI8 ? 127 : 0x7e); ++code)
    quants.push_back(type == DType::kI8 ? code : static_cast<double>(f8_e4m3_to_float(code)));
  return quants;
}

// Rounds a head to quants of a cache, by another way than the op: each quant is the nearest to the
// value, or the even one of two, and the scale spans the largest.
inline void append_quants(const std::vector<double>& head,
                          CountedArray& cache,
                          int64_t to,
                          CountedArray& scales) {
  const std::vector<double> quants = quants_of(cache.type().dtype);
  float most = 0;
  for (double x : head) most = std::max(most, static_cast<float>(std::abs(x)));
  const float scale = most / static_cast<float>(quants.back()), inverse = 1 / scale;
  scales[CachedArray::scale_at(cache.shape(), to)] = Number(scale);
  for (double x : head) {
    const double exact = static_cast<double>(static_cast<float>(x) * inverse);
    size_t at = 0;
    for (size_t next = 1; next < quants.size(); ++next) {
      const double nearest = std::abs(std::abs(exact) - quants[at]);
      const double distance = std::abs(std::abs(exact) - quants[next]);
      if (distance < nearest || (distance == nearest && next % 2 == 0)) at = next;
    }
    cache[to++] = Number(std::copysign(quants[at], exact));
  }
}

// Inputs: caches of keys and values, k, v, positions, slots, table, and scales of caches of
// quants.
inline void plain_kv_append(const Op&, const Call&, Arrays& in, Arrays& out) {
  Cells cells(in[0], in[4], in[5], in[6]);
  const bool narrows = in[0].type().dtype != in[2].type().dtype;
  for (size_t part : {size_t{0}, size_t{1}})
    for (int64_t n = 0; n < in[4].shape()[0]; ++n)
      for (int64_t h = 0; h < cells.kv_heads; ++h) {
        std::vector<double> head;
        for (int64_t e = 0; e < cells.size; ++e)
          head.push_back(in[2 + part].plain((n * cells.kv_heads + h) * cells.size + e));
        const int64_t to = cells.at(n, cells.position(n) % cells.ring, h);
        if (out.size() > 2) {
          append_quants(head, out[part], to, out[2 + part]);
          continue;
        }
        for (int64_t e = 0; e < cells.size; ++e) {
          double& x = head[static_cast<size_t>(e)];
          if (narrows) x = rounded(x, out[part].type().dtype);
          out[part][to + e] = Number(x);
        }
      }
}

// Rotates and norms the heads of a token's merged projection, and appends k and v to the caches
// out[0] and out[1]. Returns the heads of q.
inline std::vector<std::vector<Number>> append_token(const Call& call,
                                                     Arrays& in,
                                                     Arrays& out,
                                                     Cells& cells,
                                                     int64_t n) {
  int64_t heads = call.attrs.integer("heads"), all = heads + 2 * cells.kv_heads;
  std::vector<std::vector<Number>> queries;
  for (int64_t h = 0; h < all; ++h) {
    std::vector<Number> head;
    for (int64_t e = 0; e < cells.size; ++e) head.push_back(in[2][(n * all + h) * cells.size + e]);
    if (h < heads + cells.kv_heads) {
      if (call.attrs.flag("norms")) norm_row(head, in[h < heads ? 8 : 9], call.attrs);
      rotate_head(head, in[3], in[4], n, call.attrs.flag("interleaved"), false);
    }
    if (h < heads) {
      queries.push_back(head);
      continue;
    }
    size_t part = h < heads + cells.kv_heads ? 0 : 1;
    int64_t to = cells.at(n, cells.position(n) % cells.ring, (h - heads) % cells.kv_heads);
    for (int64_t e = 0; e < cells.size; ++e) out[part][to + e] = head[static_cast<size_t>(e)];
  }
  return queries;
}

inline void plain_rope_append(const Op&, const Call& call, Arrays& in, Arrays& out) {
  Cells cells(in[0], in[5], in[6], in[7]);
  for (int64_t n = 0; n < in[5].shape()[0]; ++n) {
    std::vector<std::vector<Number>> queries = append_token(call, in, out, cells, n);
    for (size_t h = 0; h < queries.size(); ++h)
      write_row(out[2], n * std::ssize(queries) + static_cast<int64_t>(h), queries[h]);
  }
}

// One head of a token at its position: attends to the last `window` positions that the ring still
// holds.
inline std::vector<Number> attend_cached(const Call& call,
                                         CountedArray& q,
                                         int64_t query,
                                         CachedArray keys,
                                         CachedArray values,
                                         Cells& cells,
                                         int64_t n,
                                         int64_t kv_head) {
  int64_t window = call.attrs.integer("window"), position = cells.position(n);
  int64_t held = std::min(position + 1, cells.ring);
  if (window > 0) held = std::min(held, window);
  std::vector<int64_t> at;
  for (int64_t p = position - held + 1; p <= position; ++p)
    at.push_back(cells.at(n, p % cells.ring, kv_head));
  std::vector<Number> o(static_cast<size_t>(cells.size));
  attend(q, query, keys, values, at, std::vector<bool>(at.size(), true), call.attrs.real("scale"),
         o);
  return o;
}

// Inputs q, keys, values, positions, slots, table, and scales of i8 caches.
inline void plain_cached_attention(const Op&, const Call& call, Arrays& in, Arrays& out) {
  Cells cells(in[1], in[3], in[4], in[5]);
  int64_t heads = in[0].shape()[1];
  for (int64_t n = 0; n < in[3].shape()[0]; ++n)
    for (int64_t h = 0; h < heads; ++h)
      write_row(out[0], n * heads + h,
                attend_cached(call, in[0], (n * heads + h) * cells.size, {in[1], in, 6},
                              {in[2], in, 7}, cells, n, h * cells.kv_heads / heads));
}

inline void plain_append_attention(const Op&, const Call& call, Arrays& in, Arrays& out) {
  Cells cells(in[0], in[5], in[6], in[7]);
  for (int64_t n = 0; n < in[5].shape()[0]; ++n) {
    std::vector<std::vector<Number>> queries = append_token(call, in, out, cells, n);
    int64_t heads = std::ssize(queries);
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<double> query;
      for (Number x : queries[static_cast<size_t>(h)]) query.push_back(x.value());
      CountedArray q({DType::kF32, {cells.size}}, query);
      write_row(out[2], n * heads + h,
                attend_cached(call, q, 0, {out[0], out, out.size()}, {out[1], out, out.size()},
                              cells, n, h * cells.kv_heads / heads));
    }
  }
}

// Inputs q or probabilities, keys or values, positions, slots, table, and scales of an i8 cache. A
// padding token has no cells.
inline void plain_cached_product(const Op& op, const Call&, Arrays& in, Arrays& out) {
  Cells cells(in[1], in[2], in[3], in[4]);
  CachedArray cached(in[1], in, 5);
  bool mixes = op.name == "cached_mix";
  int64_t heads = in[0].shape()[1], columns = width_of(mixes ? in[0] : out[0]);
  for (int64_t row = 0; row < in[2].shape()[0] * heads; ++row) {
    int64_t n = row / heads, kv_head = row % heads * cells.kv_heads / heads;
    std::vector<Number> o(static_cast<size_t>(cells.size));
    for (int64_t c = 0; c < columns && cells.position(n) >= 0; ++c) {
      int64_t at = cells.at(n, c, kv_head);
      if (!mixes)
        out[0][row * columns + c] = head_dot(in[0], row * cells.size, cached, at, cells.size);
      for (int64_t e = 0; mixes && e < cells.size; ++e)
        o[static_cast<size_t>(e)] =
            mac(o[static_cast<size_t>(e)], in[0][row * columns + c], cached[at + e]);
    }
    if (mixes) write_row(out[0], row, o);
  }
}

// Whether a token at a position sees the key in a cell, the last one written to it.
inline bool sees_cell(const Attrs& attrs, int64_t position, int64_t cell) {
  int64_t window = attrs.integer("window"), ring = attrs.integer("ring"), key = cell;
  while (key + ring <= position) key += ring;
  return key <= position && (window == 0 || key > position - window);
}

// Inputs scores [N,H,C] and positions: hides the cells that hold no key that the token sees.
inline void plain_cached_mask(const Op&, const Call& call, Arrays& in, Arrays& out) {
  int64_t heads = in[0].shape()[1], columns = width_of(in[0]);
  for (int64_t i = 0; i < in[0].shape().elements(); ++i) {
    bool seen = sees_cell(call.attrs, in[1].id(i / columns / heads), i % columns);
    Number score = in[0][i];
    out[0][i] = seen ? score : Number(kMinusInfinity);
  }
}

// The same inputs, to probabilities, computed in every cell. Those of a token that sees no cell are
// zero.
inline void plain_cached_softmax(const Op&, const Call& call, Arrays& in, Arrays& out) {
  for (int64_t r = 0; r < rows_of(in[0]); ++r) {
    const int64_t position = in[1].id(r / in[0].shape()[1]);
    std::vector<Number> row = row_of(in[0], r);
    bool sees_any = false;
    for (size_t c = 0; c < row.size(); ++c) {
      const bool seen = sees_cell(call.attrs, position, static_cast<int64_t>(c));
      const Number score = row[c] * call.attrs.real("scale");
      row[c] = seen ? score : Number(kMinusInfinity);
      sees_any = sees_any || seen;
    }
    const Number sum = exp_row(row).second;
    for (Number& x : row) {
      const Number probability = x / sum;
      x = sees_any ? probability : Number(0);
    }
    write_row(out[0], r, row);
  }
}

}  // namespace ridge::ops
