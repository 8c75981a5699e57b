// SPDX-License-Identifier: Apache-2.0
// Fits the law by coordinate descent on the normal equations; there are only a few terms and
// samples.
#include "cost/product_time.h"

#include <algorithm>
#include <cmath>

namespace ridge::cost {
namespace {

// Rounds of coordinate descent; the five terms converge within some hundreds.
constexpr int kRounds = 4000;

// The law itself has the weight of a sample at a distance of three doublings.
constexpr double kLawDistance = 3;
// Keeps the weight of a sample at the same size finite; the square of a quarter of a doubling.
constexpr double kNearness = 0.0625;

double weight_at(double squared_distance) {
  double spread = kNearness + squared_distance;
  return 1 / (spread * spread);
}

double squared_distance(const ProductExtents& a, const ProductExtents& b) {
  auto step = [](int64_t x, int64_t y) {
    return std::log2(static_cast<double>(x) / static_cast<double>(y));
  };
  double batch = step(a.batch, b.batch), m = step(a.m, b.m), n = step(a.n, b.n), k = step(a.k, b.k);
  return batch * batch + m * m + n * n + k * k;
}

}  // namespace

ProductTime::Terms ProductTime::terms(const ProductExtents& e) {
  double b = static_cast<double>(e.batch), m = static_cast<double>(e.m),
         n = static_cast<double>(e.n), k = static_cast<double>(e.k);
  return {1, b * m * n * k, b * m * n, b * m * k, b * n * k};
}

ProductTime::ProductTime(const ProductRates& rates, ProductForm form, bool in_batches)
    : peak_flops_per_ns_(rates.peak_flops_per_ns) {
  std::vector<ProductSample> samples;
  for (const ProductSample& sample : rates.samples)
    if (sample.form == form && (sample.extents.batch > 1) == in_batches) samples.push_back(sample);
  if (samples.empty()) samples = rates.samples;
  if (samples.empty()) return;
  fit(samples);
  for (const ProductSample& sample : samples)
    deviations_.push_back({sample.extents, std::log(sample.ns / law(sample.extents))});
}

// Minimizes the sum over samples of (law / ns - 1)^2 with coefficients >= 0: sets each in turn to
// its best value with the others fixed.
void ProductTime::fit(const std::vector<ProductSample>& samples) {
  std::vector<Terms> rows;
  Terms norms{};
  for (const ProductSample& sample : samples) {
    Terms row = terms(sample.extents);
    for (int t = 0; t < kTerms; ++t) {
      row[static_cast<size_t>(t)] /= sample.ns;
      norms[static_cast<size_t>(t)] += row[static_cast<size_t>(t)] * row[static_cast<size_t>(t)];
    }
    rows.push_back(row);
  }
  std::vector<double> left(samples.size(), 1.0);  // 1 - law / ns
  for (int round = 0; round < kRounds; ++round)
    for (size_t t = 0; t < kTerms; ++t) {
      double slope = 0;
      for (size_t i = 0; i < rows.size(); ++i) slope += rows[i][t] * left[i];
      double next = std::max(0.0, coefficients_[t] + slope / norms[t]);
      double change = next - coefficients_[t];
      coefficients_[t] = next;
      for (size_t i = 0; i < rows.size(); ++i) left[i] -= change * rows[i][t];
    }
}

double ProductTime::law(const ProductExtents& extents) const {
  Terms row = terms(extents);
  double ns = 0;
  for (size_t t = 0; t < kTerms; ++t) ns += coefficients_[t] * row[t];
  return ns;
}

double ProductTime::ns(const ProductExtents& extents) const {
  if (deviations_.empty()) return extents.flops() / peak_flops_per_ns_;
  double sum = 0, weights = weight_at(kLawDistance * kLawDistance);
  for (const Deviation& d : deviations_) {
    double weight = weight_at(squared_distance(extents, d.extents));
    sum += weight * d.log_ratio;
    weights += weight;
  }
  return law(extents) * std::exp(sum / weights);
}

double ProductTimes::ns(const ProductRates& rates,
                        ProductForm form,
                        const ProductExtents& extents) {
  const std::tuple key{&rates, form, extents.batch > 1};
  auto found = laws_.find(key);
  if (found == laws_.end())
    found = laws_.emplace(key, ProductTime(rates, form, extents.batch > 1)).first;
  return found->second.ns(extents);
}

}  // namespace ridge::cost
