// SPDX-License-Identifier: Apache-2.0
// Sums over types: amount / rate.
#include "cost/rate_limits.h"

#include <algorithm>
#include <functional>

#include "base/repacked_tiles.h"
#include "base/shape.h"
#include "cost/predict.h"

namespace ridge::cost {
namespace {

// The sum of amount / rate(type) x `each`; 0 if a rate is 0.
double total_ns(const std::map<DType, int64_t>& amounts,
                double each,
                const std::function<double(DType)>& rate) {
  double ns = 0;
  for (const auto& [dtype, amount] : amounts) {
    if (amount == 0) continue;
    const double per_ns = rate(dtype);
    if (per_ns <= 0) return 0;
    ns += each * static_cast<double>(amount) / per_ns;
  }
  return ns;
}

int64_t sum(const std::map<DType, int64_t>& amounts) {
  int64_t all = 0;
  for (const auto& [dtype, amount] : amounts) all += amount;
  return all;
}

bool is_packed(DType dtype) { return is_block(dtype) || is_repacked(dtype); }

}  // namespace

TypedAmounts& TypedAmounts::operator+=(const TypedAmounts& other) {
  for (const auto& [dtype, count] : other.macs) macs[dtype] += count;
  for (const auto& [dtype, bytes] : other.weight_bytes) weight_bytes[dtype] += bytes;
  return *this;
}

int64_t TypedAmounts::all_macs() const { return sum(macs); }
int64_t TypedAmounts::all_weight_bytes() const { return sum(weight_bytes); }

TypedAmounts typed_amounts(const CostedGraph& costed) {
  TypedAmounts amounts{{}, parameter_bytes_by_type(costed)};
  for (size_t i = 0; i < costed.graph.nodes.size(); ++i) {
    const Node& node = costed.graph.nodes[i];
    if (costed.costs[i].work.macs == 0) continue;
    const DType operand = costed.graph.type(node.inputs[0]).dtype;
    amounts.macs[rounded_to(node).value_or(operand)] += costed.costs[i].work.macs;
  }
  return amounts;
}

TypedAmounts times(int64_t count, const TypedAmounts& amounts) {
  TypedAmounts all = amounts;
  for (auto& [dtype, macs] : all.macs) macs = checked_product(count, macs, "MACs");
  for (auto& [dtype, bytes] : all.weight_bytes) bytes = checked_product(count, bytes, "bytes");
  return all;
}

double theoretical_multiply_ns(const TypedAmounts& amounts, const Ceilings& ceilings) {
  return total_ns(amounts.macs, 2, [&](DType dtype) {
    const MultiplyRates* rates = ceilings.multiply_rates(dtype);
    if (rates != nullptr) return rates->theoretical_ops_per_ns;
    return std::max(ceilings.product(dtype).theoretical_flops_per_ns,
                    ceilings.product(dtype, true).theoretical_flops_per_ns);
  });
}

double multiply_only_ns(const TypedAmounts& amounts, const Ceilings& ceilings) {
  return total_ns(amounts.macs, 2, [&](DType dtype) {
    const MultiplyRates* rates = ceilings.multiply_rates(dtype);
    return rates != nullptr ? rates->multiply_ops_per_ns : 0;
  });
}

double read_and_unpack_ns(const TypedAmounts& amounts,
                          int64_t other_bytes,
                          const Ceilings& ceilings) {
  const double reads = ceilings.mbu_reference().per_ns;
  const double weights_ns = total_ns(amounts.weight_bytes, 1, [&](DType dtype) {
    const double unpacks = ceilings.unpack_bytes_per_ns(dtype);
    return unpacks > 0 ? std::min(unpacks, reads) : reads;
  });
  return weights_ns + (reads > 0 ? static_cast<double>(other_bytes) / reads : 0);
}

double unpack_only_ns(const TypedAmounts& amounts, const Ceilings& ceilings) {
  std::map<DType, int64_t> packed;
  for (const auto& [dtype, bytes] : amounts.weight_bytes)
    if (is_packed(dtype)) packed[dtype] = bytes;
  return total_ns(packed, 1, [&](DType dtype) { return ceilings.unpack_bytes_per_ns(dtype); });
}

}  // namespace ridge::cost
