// SPDX-License-Identifier: Apache-2.0
// Memory and communication of data-parallel training in closed form: what a device holds of
// weights, gradients and moments with and without ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054),
// and what it exchanges in a step. docs/accounting.md has the formulas. It leaves out activations.
#pragma once

#include <cstdint>

namespace ridge::cost {

// The devices share these out instead of holding a copy each. Each stage includes those before it.
enum class Zero : uint8_t {
  kNone,       // plain data parallelism: every device holds everything
  kOptimizer,  // stage 1: moments and master weights
  kGradients,  // stage 2
  kWeights     // stage 3: a device gathers the weights of a layer when it needs them
};
inline constexpr int kZeroStages = 4;

// Bytes of one parameter. A parameter without a gradient has weights only.
struct StateTypes {
  double weights = 4;  // GEMMs read them
  double masters = 0;  // fp32 weights that the optimizer updates, next to `weights`
  double gradients = 4;
  double moments = 8;  // AdamW has two
  double total() const { return weights + masters + gradients + moments; }
};

struct StateParameters {
  double all = 0;
  double trained = 0;
  // The largest part that is gathered or reduced at once has so many, and the one after it
  // next_part; 0: unknown.
  double largest_part = 0;
  double next_part = 0;
};

// Bytes that one device holds.
struct StateBytes {
  double weights = 0, masters = 0, gradients = 0, moments = 0;
  double total() const { return weights + masters + gradients + moments; }
};

// A count of bytes, rounded and within 64 bits.
int64_t whole_bytes(double bytes);

// With stage 3, `weights` has two gathered parts besides the device's own; from stage 2 on,
// `gradients` has those of one part besides. A single device holds no part twice.
StateBytes state_bytes(const StateParameters& parameters,
                       const StateTypes& types,
                       Zero stage,
                       int64_t devices);

// The most parameters, all of them trained, whose state fits into `memory_bytes` of each device.
// Parts are not counted.
int64_t largest_model(int64_t memory_bytes, const StateTypes& types, Zero stage, int64_t devices);
// The fewest devices whose memory holds the state and `other_bytes` each; 0 if no number does.
int64_t fewest_devices(int64_t memory_bytes,
                       double other_bytes,
                       const StateParameters& parameters,
                       const StateTypes& types,
                       Zero stage);

// How devices are connected. Rates are of one device in one direction.
struct Links {
  double node_bytes_per_s = 0;     // 0: not known; then the network's holds
  int64_t node_devices = 8;        // devices of a node, among which the link is used
  double network_bytes_per_s = 0;  // between nodes
  double efficiency = 0.8;         // the share of a rate that is assumed to be reached

  // The rate at which a ring over all devices passes: that of its slowest link.
  double ring_bytes_per_s(int64_t devices) const;
};

// Bytes that a device sends in a step, by ring algorithms: it reduces and distributes gradients, or
// with stages 1 and 2 scatters sums of gradients and gathers weights, or with stage 3 gathers
// weights twice in each micro-batch and scatters sums of gradients.
double sent_bytes(const StateParameters& parameters,
                  const StateTypes& types,
                  Zero stage,
                  int64_t devices,
                  int64_t micro_batches = 1);

}  // namespace ridge::cost
