// SPDX-License-Identifier: Apache-2.0
// Plain loops of einsum, pair by pair, and of rearrange.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/contraction.h"
#include "ops/counted.h"
#include "ops/rearrangement.h"

namespace ridge::ops {

// Calls visit(index of each letter) for all combinations of the letters.
template <typename Visit>
void visit_letters(const Contraction& c, const std::string& letters, const Visit& visit) {
  std::map<char, int64_t> at;
  const int64_t combinations = c.elements(letters);
  for (int64_t n = 0; n < combinations; ++n) {
    int64_t rest = n;
    for (char letter : letters) {
      at[letter] = rest % c.extent(letter);
      rest /= c.extent(letter);
    }
    visit(at);
  }
}

inline size_t flat_index(const Contraction& c,
                         const std::string& letters,
                         std::map<char, int64_t>& at) {
  int64_t flat = 0;
  for (char letter : letters) flat = flat * c.extent(letter) + at[letter];
  return static_cast<size_t>(flat);
}

inline void plain_einsum(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const Contraction c = parse_contraction(call.attrs.text("einsum"), call.inputs);
  const ContractionOrder order = order_of(c);
  struct Value {
    std::string letters;
    std::vector<Number> data;
  };
  auto empty = [&](const std::string& letters) {
    return Value{letters, std::vector<Number>(static_cast<size_t>(c.elements(letters)))};
  };
  std::vector<Value> values;
  for (size_t i = 0; i < in.size(); ++i) {
    values.push_back(empty(order.reduced[i]));
    Value& value = values.back();
    const bool sums = order.reduced[i] != c.operands[i];
    visit_letters(c, c.operands[i], [&](auto& at) {
      const Number x = in[i][static_cast<int64_t>(flat_index(c, c.operands[i], at))];
      Number& to = value.data[flat_index(c, value.letters, at)];
      to = sums ? to + x : x;
    });
  }
  for (const ContractedPair& pair : order.pairs) {
    Value made = empty(pair.out);
    visit_letters(c, pair.out + pair.summed, [&](auto& at) {
      const Value &a = values[pair.first], &b = values[pair.second];
      const Number x = a.data[flat_index(c, a.letters, at)],
                   y = b.data[flat_index(c, b.letters, at)];
      Number& to = made.data[flat_index(c, made.letters, at)];
      to = pair.summed.empty() ? x * y : mac(to, x, y);
    });
    values.push_back(std::move(made));
  }
  visit_letters(c, c.out, [&](auto& at) {
    out[0][static_cast<int64_t>(flat_index(c, c.out, at))] =
        values.back().data[flat_index(c, values.back().letters, at)];
  });
}

inline void plain_rearrange(const Op&, const Call& call, Arrays& in, Arrays& out) {
  const Rearrangement r = parse_rearrangement(call.attrs.text("pattern"), call.attrs.text("sizes"),
                                              call.inputs[0].shape);
  const Strides strides = dense_strides(r.split);
  for (int64_t i = 0; i < out[0].shape().elements(); ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = r.permutation.size(); axis-- > 0;) {
      const int from = static_cast<int>(r.permutation[axis]);
      at += rest % r.split[from] * strides[from];
      rest /= r.split[from];
    }
    out[0][i] = in[0][at];
  }
}

}  // namespace ridge::ops
