// SPDX-License-Identifier: Apache-2.0
// What a machine can do at best: bandwidths by working set, product rates by size, arithmetic
// rates, the cost of a call. Measured by a backend (`ridge machine`) or taken from a data sheet
// (cost/hardware.h), never from a model's own shapes. Rates are per nanosecond: bytes/ns are GB/s,
// FLOPs/ns are GFLOP/s. The record knows no graphs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace ridge::cost {

// Which machine, as used: a change in any of these makes other ceilings.
struct Machine {
  std::string device;                  // "AMD EPYC 9R14", "NVIDIA H100 SXM"
  std::string isa;                     // "avx512_bf16"; empty for a data sheet
  int cores = 0;                       // physical cores that the process may use
  int threads = 0;                     // threads in use
  std::vector<std::string> libraries;  // "oneDNN 2.7.2"
  double clock_ghz = 0;                // under load; 0 = unknown
  std::string clock_source;            // how the clock was had
  int64_t memory_bytes = 0;            // capacity; 0 = unknown

  std::string str() const;   // one line
  std::string hash() const;  // 16 hex digits over device, isa, cores, threads, libraries
};

// Rates when a working set of this size is walked again and again: each byte comes back after
// `footprint_bytes` others.
struct BandwidthPoint {
  int64_t footprint_bytes = 0;
  double read_bytes_per_ns = 0;  // read only
  double copy_bytes_per_ns = 0;  // bytes read plus bytes written, half each
};

// One level of the memory hierarchy, for people; predictions use the points.
struct MemoryLevel {
  std::string name;            // "L1", "L2", "L3", "memory"
  int64_t capacity_bytes = 0;  // of all cores in use together; memory: the machine's
  double read_bytes_per_ns = 0;
  double copy_bytes_per_ns = 0;
  double theoretical_bytes_per_ns = 0;  // 0 = unknown
};

// How the two operands lie: which of the matrices is stored transposed. C[m,n] = A[m,k] B[k,n].
enum class ProductForm : uint8_t {
  kNN,  // A rows of k, B rows of n
  kNT,  // A rows of k, B columns of k: x W^T
  kTN,  // A columns of m, B rows of n: dY^T X
  kTT,  // A columns of m, B columns of k: dY^T X of an X that was transposed
};
std::string_view name(ProductForm form);

struct ProductExtents {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

// One product measured again and again on the same operands, the call included.
struct ProductSample {
  ProductExtents extents;
  ProductForm form = ProductForm::kNN;
  double ns = 0;
};

// The products of one element type; of i16 those of weights in blocks, whose activations are
// rounded to 16 bits on the way.
struct ProductRates {
  DType dtype = DType::kF32;
  bool is_native = false;  // where kernels of the backend's own may run (matmul's attribute)
  // The best rate among the samples, or the data sheet's times its efficiency
  double peak_flops_per_ns = 0;
  double theoretical_flops_per_ns = 0;  // 0 = unknown
  // How many times longer a product takes where rows lie a power of two of bytes apart (2 KiB or
  // more, as the rows of most models' tensors do): they crowd into few sets of the caches.
  double power_of_two_slowdown = 1;
  // The host's share of a call outside a recording; 0 = that of another launch.
  double stream_call_ns = 0;
  std::vector<ProductSample> samples;  // empty for a data sheet

  std::string name() const;  // "f32", "f32 native"
};

// Flash attention's two parts on a generic shape: products, and what is done per score (scale,
// mask, exp, sums).
struct AttentionRates {
  DType dtype = DType::kF32;
  double forward_flops_per_ns = 0;  // of 4 E FLOPs a score
  double forward_scores_per_ns = 0;
  double backward_flops_per_ns = 0;  // of 10 E FLOPs a score
  double backward_scores_per_ns = 0;
  // A call that computes next to nothing: launches and what waits for one another. 0 = as others'.
  double forward_call_ns = 0;
  double backward_call_ns = 0;
};

struct Ceilings {
  Machine machine;
  std::string source;                     // "measured", "data sheet: ...", "file: ..."
  std::string measured_at;                // ISO 8601, UTC; empty unless measured
  double others_share = 0;                // of the cores, used by other programs meanwhile, 0 to 1
  std::vector<BandwidthPoint> bandwidth;  // by ascending footprint; at least one
  std::vector<MemoryLevel> levels;        // fastest first; the last is memory
  std::vector<ProductRates> products;     // at least f32
  std::vector<AttentionRates> attention;  // may be empty
  // Additions and multiplications one at a time, operands in L1
  double arithmetic_flops_per_ns = 0;
  double fused_flops_per_ns = 0;      // the same many at a time, operands in registers
  double transcendentals_per_ns = 0;  // exp, divisions, roots: evaluations
  // Kernels that walk any layout (pointwise, copies): what an operand costs that is not dense fp32.
  // 0 = nothing.
  double staged_elements_per_ns = 0;  // converted or repeated, a vector at a time
  double strided_reads_per_ns = 0;    // at a step other than 1 or 0, one at a time
  double strided_writes_per_ns = 0;
  double runs_per_ns = 0;  // evenly spaced runs of elements begun
  double launch_ns = 0;    // a kernel call that finds nothing to do
  // A trip to memory and back that a kernel has nothing to do beside; 0 = nothing
  double round_ns = 0;
  // The host's share of a launch outside a recording; 0 = all of launch_ns
  double stream_launch_ns = 0;
  double empty_step_ns = 0;  // a step that computes nothing, where the host waits for each
  double parallel_ns = 0;    // opening and closing a parallel region; 0 where launches include it
  // Kernels smaller than this stay on one thread; attention in a team shares less, unpredicted.
  int64_t parallel_threshold_bytes = 0;
  std::vector<std::string> notes;  // assumptions, in words

  // The products of a type; a type that the machine lacks falls back to f32's, and native
  // kernels to the library's.
  const ProductRates& product(DType dtype, bool is_native = false) const;
  double peak_flops_per_ns(DType dtype) const;  // the best way of multiplying the type
  // The roofs of the memory behind all caches: copies, and reads alone.
  double memory_bytes_per_ns() const {
    return levels.empty() ? bandwidth.back().copy_bytes_per_ns : levels.back().copy_bytes_per_ns;
  }
  double memory_reads_per_ns() const {
    return levels.empty() ? bandwidth.back().read_bytes_per_ns : levels.back().read_bytes_per_ns;
  }
  // Others had so much of the cores that the figures are no ceilings.
  bool disturbed() const { return others_share > 0.1; }
};

// The same with the host's launches at another rate: 1 = as at calibration.
Ceilings at_launch_rate(Ceilings ceilings, double rate);

// Throws an Error (bad file) that names the field for a record that is incomplete or holds numbers
// that no machine has.
void validate(const Ceilings& ceilings);

std::string to_json(const Ceilings& ceilings);
// `origin` names the text in errors (a file's path).
Ceilings ceilings_from_json(std::string_view text, std::string_view origin);

// Roofline against memory: FLOPs/ns at an intensity in FLOPs per byte, and the intensity where the
// roof turns flat.
double attainable_flops_per_ns(const Ceilings& ceilings, DType dtype, double flops_per_byte);
double ridge_point(const Ceilings& ceilings, DType dtype);

}  // namespace ridge::cost
