// SPDX-License-Identifier: Apache-2.0
// The time of a matrix product between measured sizes. Not a table look-up: a law is fitted to the
// samples, and what they deviate from it is carried to sizes nearby.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cost/ceilings.h"

namespace ridge::cost {

// The law, one for products of a form in batches and one for those by themselves, which other
// kernels compute: ns = c0 + c1 mnk + c2 mn + c3 mk + c4 nk (each times the batch), c >= 0, fitted
// to relative errors. It says what a product does: arithmetic, writing C, packing A, packing B.
// Between samples the ratio of measured to law is averaged with weights that fall with the distance
// in log2 of the extents.
class ProductTime {
 public:
  ProductTime(const ProductRates& rates, ProductForm form, bool in_batches);
  double ns(const ProductExtents& extents) const;

 private:
  static constexpr int kTerms = 5;
  using Terms = std::array<double, kTerms>;
  struct Deviation {
    ProductExtents extents;
    double log_ratio;
  };
  static Terms terms(const ProductExtents& extents);
  double law(const ProductExtents& extents) const;
  void fit(const std::vector<ProductSample>& samples);

  double peak_flops_per_ns_;
  Terms coefficients_{};
  std::vector<Deviation> deviations_;  // empty: no samples, the peak holds at every size
};

// The laws of rates that outlive it, fitted when first asked for.
class ProductTimes {
 public:
  double ns(const ProductRates& rates, ProductForm form, const ProductExtents& extents);

 private:
  std::map<std::tuple<const ProductRates*, ProductForm, bool>, ProductTime> laws_;
};

}  // namespace ridge::cost
