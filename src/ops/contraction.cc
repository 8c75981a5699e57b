// SPDX-License-Identifier: Apache-2.0
// Parses einsum notation and searches the order of products.
#include "ops/contraction.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::ops {
namespace {

constexpr std::string_view kDots = "...";
constexpr double kNever = std::numeric_limits<double>::infinity();

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string without_spaces(std::string_view text) {
  std::string kept;
  for (char c : text)
    if (c != ' ') kept += c;
  return kept;
}

// One term: the letters before and after its dots.
struct Term {
  std::string before, after;
  bool has_dots = false;
  size_t letters() const { return before.size() + after.size(); }
};

Term parse_term(std::string_view text, std::string_view term) {
  Term parsed;
  const size_t dots = term.find(kDots);
  parsed.has_dots = dots != std::string_view::npos;
  parsed.before = term.substr(0, dots);
  if (parsed.has_dots) parsed.after = term.substr(dots + kDots.size());
  const std::string all = parsed.before + parsed.after;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_letter(all[i]))
      throw usage_error("[einsum] expected letters, commas, one ... a term and -> in {}, got {}",
                        printable(text), printable(std::string(1, all[i])));
    if (has(std::string_view(all).substr(0, i), all[i]))
      throw usage_error("[einsum] the letter '{}' stands twice in one term of {}", all[i],
                        printable(text));
  }
  return parsed;
}

// '0' for the last axis of the dots, '1' for the one before it.
std::string dot_letters(int count) {
  std::string letters;
  for (int i = count - 1; i >= 0; --i) letters += static_cast<char>('0' + i);
  return letters;
}

void bind(Contraction& c, char letter, int64_t extent, std::string_view text) {
  int64_t& known = c.extents[static_cast<size_t>(letter)];
  if (known >= 0 && known != extent)
    throw usage_error("[einsum] {} is {} in one operand and {} in another of {}",
                      is_letter(letter) ? fmt::format("'{}'", letter) : "an axis of ...", known,
                      extent, printable(text));
  known = extent;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> terms;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    terms.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return terms;
}

using Mask = uint32_t;

// Searches orders. A set of operands is a mask.
class Search {
 public:
  Search(const Contraction& c, const std::vector<std::string>& operands) : c_(c) {
    for (const std::string& letters : operands)
      values_.push_back({letters, Mask{1} << values_.size()});
  }

  std::vector<ContractedPair> best() {
    const size_t n = values_.size();
    const Mask all = static_cast<Mask>((uint64_t{1} << n) - 1);
    std::vector<Found> found(size_t{1} << n);
    for (size_t i = 0; i < n; ++i) found[size_t{1} << i] = {0, 0, 0};
    for (Mask set = 1; set <= all; ++set) {
      if (std::has_single_bit(set)) continue;
      Found least{kNever, kNever, 0};
      // Each split once: the part with the lowest operand comes first.
      const Mask lowest = set & (~set + 1);
      for (Mask part = (set - 1) & set; part > 0; part = (part - 1) & set) {
        if ((part & lowest) == 0) continue;
        const Found &a = found[part], &b = found[set ^ part];
        if (a.flops == kNever || b.flops == kNever) continue;
        const std::string first = letters(part), second = letters(set ^ part);
        const auto [flops, size] = cost(first, second, letters(set));
        const Found next{a.flops + b.flops + flops, a.size + b.size + size, part};
        if (std::pair(next.flops, next.size) < std::pair(least.flops, least.size)) least = next;
      }
      found[set] = least;
    }
    if (found[all].flops == kNever) fail();
    emit(found, all);
    return std::move(pairs_);
  }

  // Multiplies the cheapest pair of values again and again.
  std::vector<ContractedPair> greedy() {
    std::vector<size_t> left;
    for (size_t i = 0; i < values_.size(); ++i) left.push_back(i);
    while (left.size() > 1) {
      std::pair<double, double> least{kNever, kNever};
      std::pair<size_t, size_t> chosen{0, 0};
      for (size_t i = 0; i < left.size(); ++i)
        for (size_t j = i + 1; j < left.size(); ++j) {
          const Value &a = values_[left[i]], &b = values_[left[j]];
          const auto next = cost(a.letters, b.letters, letters(a.set | b.set));
          if (next < least) std::tie(least, chosen) = std::pair(next, std::pair(i, j));
        }
      if (least.first == kNever) fail();
      const size_t made = add_pair(left[chosen.first], left[chosen.second]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen.second));
      left[chosen.first] = made;
    }
    return std::move(pairs_);
  }

 private:
  struct Found {
    double flops = kNever, size = kNever;
    Mask part = 0;
  };
  struct Value {
    std::string letters;
    Mask set;
  };

  [[noreturn]] static void fail() {
    throw usage_error("[einsum] every order has a result of more than {} axes", kMaxRank);
  }

  // The letters of operands in the set that the result or another operand has too.
  std::string letters(Mask set) const {
    if (std::has_single_bit(set))
      return values_[static_cast<size_t>(std::countr_zero(set))].letters;
    std::string others = c_.out, mine;
    const size_t n = operands();
    for (size_t i = 0; i < n; ++i)
      if ((set >> i & 1) == 0) others += values_[i].letters;
    for (size_t i = 0; i < n; ++i)
      if ((set >> i & 1) != 0)
        for (char letter : values_[i].letters)
          if (has(others, letter) && !has(mine, letter)) mine += letter;
    return mine;
  }
  size_t operands() const { return values_.size() - pairs_.size(); }

  double real_elements(std::string_view letters) const {
    double product = 1;
    for (char letter : letters) product *= static_cast<double>(c_.extent(letter));
    return product;
  }

  // FLOPs of a pair and the elements of its result.
  std::pair<double, double> cost(const std::string& a,
                                 const std::string& b,
                                 const std::string& out) const {
    if (out.size() > static_cast<size_t>(kMaxRank)) return {kNever, kNever};
    std::string all = a;
    bool sums = false;
    for (char letter : b)
      if (!has(a, letter)) all += letter;
    for (char letter : all) sums = sums || !has(out, letter);
    return {(sums ? 2 : 1) * real_elements(all), real_elements(out)};
  }

  size_t add_pair(size_t first, size_t second) {
    const std::string a = values_[first].letters, b = values_[second].letters;
    const Mask set = values_[first].set | values_[second].set;
    ContractedPair pair{first, second, letters(set), ""};
    for (char letter : a)
      if (!has(pair.out, letter)) pair.summed += letter;
    values_.push_back({pair.out, set});
    pairs_.push_back(std::move(pair));
    return values_.size() - 1;
  }

  size_t emit(const std::vector<Found>& found, Mask set) {
    if (std::has_single_bit(set)) return static_cast<size_t>(std::countr_zero(set));
    const size_t first = emit(found, found[set].part), second = emit(found, set ^ found[set].part);
    return add_pair(first, second);
  }

  const Contraction& c_;
  std::vector<Value> values_;  // operands, then results
  std::vector<ContractedPair> pairs_;
};

}  // namespace

Shape Contraction::shape(std::string_view letters) const {
  std::vector<int64_t> dims;
  for (char letter : letters) dims.push_back(extent(letter));
  return Shape(dims);
}

int64_t Contraction::elements(std::string_view letters) const {
  int64_t product = 1;
  for (char letter : letters) product = checked_product(product, extent(letter), "einsum");
  return product;
}

Contraction parse_contraction(std::string_view notation, std::span<const Type> operands) {
  const std::string text = without_spaces(notation);
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos)
    throw usage_error("[einsum] expected 'a,b,...->out', got {}", printable(notation));
  const std::vector<std::string_view> terms = split(std::string_view(text).substr(0, arrow));
  if (terms.size() != operands.size())
    throw usage_error("[einsum] expected {} operands for {}, got {}", terms.size(),
                      printable(notation), operands.size());
  if (terms.size() > kMostContracted)
    throw usage_error("[einsum] expected at most {} operands, got {}", kMostContracted,
                      terms.size());
  Contraction c;
  c.extents.fill(-1);
  int most_dots = 0;
  std::vector<Term> parsed;
  for (size_t i = 0; i < terms.size(); ++i) {
    parsed.push_back(parse_term(notation, terms[i]));
    const Term& term = parsed.back();
    const int dots = operands[i].shape.rank() - static_cast<int>(term.letters());
    if (dots < 0 || (dots > 0 && !term.has_dots))
      throw usage_error("[einsum] {} names {} axes, the operand is {}", printable(terms[i]),
                        term.letters(), operands[i].shape.str());
    most_dots = std::max(most_dots, dots);
    // Longer axes of the dots win over those of 1.
    const std::string letters = dot_letters(dots);
    for (int axis = 0; axis < dots; ++axis) {
      const int64_t extent = operands[i].shape[static_cast<int>(term.before.size()) + axis];
      int64_t& known = c.extents[static_cast<size_t>(letters[static_cast<size_t>(axis)])];
      if (known < 0 || known == 1) known = extent;
    }
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    const Shape& shape = operands[i].shape;
    const int dots = shape.rank() - static_cast<int>(parsed[i].letters());
    const std::string letters = parsed[i].before + dot_letters(dots) + parsed[i].after;
    std::string kept;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const char letter = letters[static_cast<size_t>(axis)];
      if (!is_letter(letter) && shape[axis] == 1 && c.extent(letter) != 1) continue;
      bind(c, letter, shape[axis], notation);
      kept += letter;
    }
    c.operands.push_back(kept);
  }
  const Term out = parse_term(notation, std::string_view(text).substr(arrow + 2));
  if (!out.has_dots && most_dots > 0)
    throw usage_error("[einsum] expected ... in the result of {}, as in its operands",
                      printable(notation));
  c.out = out.before + dot_letters(out.has_dots ? most_dots : 0) + out.after;
  for (char letter : c.out)
    if (c.extent(letter) < 0)
      throw usage_error("[einsum] '{}' of the result of {} is in no operand", letter,
                        printable(notation));
  return c;
}

ContractionOrder order_of(const Contraction& c) {
  ContractionOrder order;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    std::string others = c.out, left;
    for (size_t j = 0; j < c.operands.size(); ++j)
      if (j != i) others += c.operands[j];
    for (char letter : c.operands[i])
      if (has(others, letter)) left += letter;
    order.reduced.push_back(left);
  }
  if (c.operands.size() > 1) {
    Search search(c, order.reduced);
    order.pairs = c.operands.size() <= kBestOrder ? search.best() : search.greedy();
  }
  return order;
}

Work work_of(const Contraction& c, const ContractionOrder& order) {
  Work work;
  std::vector<std::string> values = order.reduced;
  for (size_t i = 0; i < c.operands.size(); ++i)
    if (order.reduced[i] != c.operands[i]) work += arithmetic(c.elements(c.operands[i]));
  for (const ContractedPair& pair : order.pairs) {
    const int64_t count = c.elements(pair.out + pair.summed);
    work += pair.summed.empty() ? arithmetic(count) : products(count);
    values.push_back(pair.out);
  }
  return work;
}

}  // namespace ridge::ops
