// SPDX-License-Identifier: Apache-2.0
// The time of a GEMM at sizes between the measured ones. It is not a table look-up: a law is fitted
// to the samples, and the samples' deviations from the law are carried over to sizes nearby.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cost/ceilings.h"
#include "cost/memory_time.h"

namespace ridge::cost {

// The law is ns = c0 + c1 mnk + c2 mn + c3 mk + c4 nk (each product times the batch, n in whole
// vectors), c >= 0, fitted to relative errors. The terms stand for the work of a GEMM: arithmetic,
// writing C, packing A, packing B. Batched and single GEMMs of a form have separate laws, because
// other kernels compute them. Between samples, the ratio of measured time to law is averaged with
// weights that decrease with the distance in log2 of the extents.
//
// Without samples, a GPU's time is that of tiles of C: each multiprocessor computes one at a time,
// so they take whole waves.
class ProductTime {
 public:
  // `multiprocessors` is 0 if their number is unknown; then the peak holds at every size.
  ProductTime(const ProductRates& rates,
              ProductForm form,
              bool in_batches,
              int64_t multiprocessors = 0);
  double ns(const ProductExtents& extents) const;

 private:
  static constexpr size_t kTerms = 5;
  using Terms = std::array<double, kTerms>;
  struct Deviation {
    ProductExtents extents;
    double log_ratio;
  };
  Terms terms(const ProductExtents& extents) const;
  double law(const ProductExtents& extents) const;

  double peak_flops_per_ns_;
  double vector_columns_;
  int64_t multiprocessors_;
  Terms coefficients_{};
  std::vector<Deviation> deviations_;  // empty without samples
};

// The part of what operands take beyond the caches that a GEMM of the form does not overlap with
// arithmetic: 0 without samples from memory, and above 1 if it reads slower than `bandwidth`.
double exposed_memory_share(const ProductRates& rates,
                            ProductForm form,
                            const Bandwidth& bandwidth);

// The laws of several rates, each fitted on first use. The rates must outlive it.
class ProductTimes {
 public:
  explicit ProductTimes(int64_t multiprocessors = 0) : multiprocessors_(multiprocessors) {}
  double ns(const ProductRates& rates, ProductForm form, const ProductExtents& extents);

 private:
  int64_t multiprocessors_;
  std::map<std::tuple<const ProductRates*, ProductForm, bool>, ProductTime> laws_;
};

}  // namespace ridge::cost
