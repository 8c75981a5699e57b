// SPDX-License-Identifier: Apache-2.0
// The terms of the law, and the deviations of the samples from it.
#include "cost/product_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/shape.h"
#include "cost/relative_fit.h"

namespace ridge::cost {
namespace {

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

// The tiles of C that libraries have kernels for.
struct Tile {
  int64_t m, n;
  // MACs for each element of A and B that comes into shared memory.
  double intensity() const { return static_cast<double>(m * n) / static_cast<double>(m + n); }
};
constexpr Tile kTiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64},
                           {32, 128},  {128, 32},  {16, 128},  {128, 16}};
// At this intensity, bringing the operands takes as long as multiplying them.
constexpr double kEvenIntensity = 8;
// A product of few tiles is cut along k if each part has so many MACs for an element of C. By these
// three constants, and the shares that a data sheet is assumed to reach, 86% of 1,237 products that
// others measured on an H100 and an H200 are within 20%.
constexpr int64_t kLeastDepth = 2048;

// A tile's share of the peak, which the largest tile reaches.
double rate_share(const Tile& tile) {
  const auto share = [](const Tile& t) { return t.intensity() / (t.intensity() + kEvenIntensity); };
  return share(tile) / share(kTiles[0]);
}

// The multiprocessors compute a tile each, then the next ones; the last wave may have few tiles.
double waves_ns(const Tile& tile,
                const ProductExtents& e,
                double peak_flops_per_ns,
                int64_t multiprocessors) {
  const int64_t tiles = e.batch * ceil_div(e.m, tile.m) * ceil_div(e.n, tile.n);
  const int64_t parts =
      std::max<int64_t>(1, std::min(multiprocessors / tiles, e.k / kLeastDepth));
  const double waves = static_cast<double>(ceil_div(tiles * parts, multiprocessors));
  const double flops = 2 * static_cast<double>(tile.m * tile.n) * static_cast<double>(e.k) /
                       static_cast<double>(parts);
  const double one = peak_flops_per_ns / static_cast<double>(multiprocessors);
  return waves * flops / (one * rate_share(tile));
}

}  // namespace

ProductTime::Terms ProductTime::terms(const ProductExtents& e) const {
  double b = static_cast<double>(e.batch), m = static_cast<double>(e.m),
         n = static_cast<double>(e.n), k = static_cast<double>(e.k);
  if (vector_columns_ > 0) n = std::ceil(n / vector_columns_) * vector_columns_;
  return {1, b * m * n * k, b * m * n, b * m * k, b * n * k};
}

ProductTime::ProductTime(const ProductRates& rates,
                         ProductForm form,
                         bool in_batches,
                         int64_t multiprocessors)
    : peak_flops_per_ns_(rates.peak_flops_per_ns),
      vector_columns_(rates.vector_columns),
      multiprocessors_(multiprocessors) {
  std::vector<ProductSample> samples;
  for (const ProductSample& sample : rates.samples)
    if (sample.form == form && (sample.extents.batch > 1) == in_batches) samples.push_back(sample);
  if (samples.empty()) samples = rates.samples;
  if (samples.empty()) return;
  std::vector<TimedTerms<kTerms>> timed;
  for (const ProductSample& sample : samples) timed.push_back({terms(sample.extents), sample.ns});
  coefficients_ = fit_relative(std::move(timed));
  for (const ProductSample& sample : samples)
    deviations_.push_back({sample.extents, std::log(sample.ns / law(sample.extents))});
}

double ProductTime::law(const ProductExtents& extents) const {
  Terms row = terms(extents);
  double ns = 0;
  for (size_t t = 0; t < kTerms; ++t) ns += coefficients_[t] * row[t];
  return ns;
}

double ProductTime::ns(const ProductExtents& extents) const {
  if (deviations_.empty() && multiprocessors_ > 0) {
    double least = std::numeric_limits<double>::infinity();
    for (const Tile& tile : kTiles)
      least = std::min(least, waves_ns(tile, extents, peak_flops_per_ns_, multiprocessors_));
    return least;
  }
  if (deviations_.empty()) return extents.flops() / peak_flops_per_ns_;
  double sum = 0, weights = weight_at(kLawDistance * kLawDistance);
  for (const Deviation& d : deviations_) {
    double weight = weight_at(squared_distance(extents, d.extents));
    sum += weight * d.log_ratio;
    weights += weight;
  }
  return law(extents) * std::exp(sum / weights);
}

double exposed_memory_share(const ProductRates& rates,
                            ProductForm form,
                            const Bandwidth& bandwidth) {
  std::vector<double> shares;
  for (const ProductSample& from_memory : rates.memory_samples)
    for (const ProductSample& sample : rates.samples) {
      const ProductExtents &e = from_memory.extents, &same = sample.extents;
      if (from_memory.form != form || sample.form != form || e.batch != same.batch ||
          e.m != same.m || e.n != same.n || e.k != same.k)
        continue;
      const int64_t width = storage_bytes(rates.dtype, 1),
                    far = std::numeric_limits<int64_t>::max();
      const double reads = static_cast<double>(width * e.batch * (e.m * e.k + e.k * e.n)),
                   writes = static_cast<double>(width * e.batch * e.m * e.n);
      const double beyond_ns = reads * bandwidth.byte_time(far, false).beyond_caches_ns +
                               writes * bandwidth.byte_time(far, true).beyond_caches_ns;
      if (beyond_ns > 0) shares.push_back(std::max(0.0, from_memory.ns - sample.ns) / beyond_ns);
    }
  if (shares.empty()) return 0;
  std::sort(shares.begin(), shares.end());
  return shares[shares.size() / 2];
}

double ProductTimes::ns(const ProductRates& rates,
                        ProductForm form,
                        const ProductExtents& extents) {
  const std::tuple key{&rates, form, extents.batch > 1};
  auto found = laws_.find(key);
  if (found == laws_.end())
    found =
        laws_.emplace(key, ProductTime(rates, form, extents.batch > 1, multiprocessors_)).first;
  return found->second.ns(extents);
}

}  // namespace ridge::cost
