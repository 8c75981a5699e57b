// SPDX-License-Identifier: Apache-2.0
// Implements the closed forms of data-parallel training.
#include "cost/data_parallel_plan.h"

#include <algorithm>

namespace ridge::cost {
namespace {

constexpr double kMostModel = 9e18;
constexpr int64_t kMostDevices = 10'000'000;

double share(bool is_shared, int64_t devices) {
  return is_shared ? 1.0 / static_cast<double>(devices) : 1.0;
}

}  // namespace

StateBytes state_bytes(const StateParameters& p,
                       const StateTypes& types,
                       Zero stage,
                       int64_t devices) {
  StateBytes bytes;
  const bool is_spread = devices > 1;
  const double optimizer = share(stage >= Zero::kOptimizer, devices);
  bytes.weights = p.all * types.weights * share(stage >= Zero::kWeights, devices);
  bytes.masters = p.trained * types.masters * optimizer;
  bytes.gradients = p.trained * types.gradients * share(stage >= Zero::kGradients, devices);
  bytes.moments = p.trained * types.moments * optimizer;
  if (is_spread && stage >= Zero::kWeights)
    bytes.weights += (p.largest_part + p.next_part) * types.weights;
  if (is_spread && stage >= Zero::kGradients)
    bytes.gradients += std::min(p.largest_part, p.trained) * types.gradients;
  return bytes;
}

int64_t whole_bytes(double bytes) { return static_cast<int64_t>(std::min(bytes + 0.5, 9e18)); }

int64_t largest_model(int64_t memory_bytes, const StateTypes& types, Zero stage, int64_t devices) {
  const double each = state_bytes({1, 1}, types, stage, devices).total();
  return static_cast<int64_t>(std::min(static_cast<double>(memory_bytes) / each, kMostModel));
}

int64_t fewest_devices(int64_t memory_bytes,
                       double other_bytes,
                       const StateParameters& parameters,
                       const StateTypes& types,
                       Zero stage) {
  auto fits = [&](int64_t devices) {
    return state_bytes(parameters, types, stage, devices).total() + other_bytes <=
           static_cast<double>(memory_bytes);
  };
  if (fits(1)) return 1;
  if (!fits(kMostDevices)) return 0;
  int64_t low = 1, high = kMostDevices;  // high fits; low does not, or is 1
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

double Links::ring_bytes_per_s(int64_t devices) const {
  if (devices <= 1) return 0;
  const double node = node_bytes_per_s > 0 ? node_bytes_per_s : network_bytes_per_s;
  // Bytes that leave a node pass the device's own link first.
  const double slowest = devices <= node_devices ? node : std::min(node, network_bytes_per_s);
  return efficiency * slowest;
}

double sent_bytes(const StateParameters& p,
                  const StateTypes& types,
                  Zero stage,
                  int64_t devices,
                  int64_t micro_batches) {
  const double passes = 1 - 1.0 / static_cast<double>(devices);
  const double gradients = p.trained * types.gradients, weights = p.all * types.weights;
  switch (stage) {
    case Zero::kNone:
      return 2 * passes * gradients;
    case Zero::kWeights:
      return passes * (2 * weights * static_cast<double>(micro_batches) + gradients);
    default:
      return passes * (p.trained * types.weights + gradients);
  }
}

}  // namespace ridge::cost
