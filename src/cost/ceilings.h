// SPDX-License-Identifier: Apache-2.0
// The ceilings of a machine: bandwidths by working set, GEMM rates by size, arithmetic rates,
// overhead per call. They are measured by a backend (`ridge machine`) or taken from a data sheet
// (cost/hardware.h), never from a model's own shapes. Rates are per nanosecond: bytes/ns are GB/s,
// FLOPs/ns are GFLOP/s. The record is independent of graphs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace ridge::cost {

// The machine and how it is used; a change in device, isa, cores, threads or libraries changes the
// ceilings.
struct Machine {
  std::string device;                  // "AMD EPYC 9R14", "NVIDIA H100 SXM"
  std::string isa;                     // "avx512_bf16"; empty for a data sheet
  int cores = 0;                       // physical cores that the process may use
  int threads = 0;                     // threads in use
  std::vector<std::string> libraries;  // "oneDNN 2.7.2"
  double clock_ghz = 0;                // under load; 0 = unknown
  std::string clock_source;            // source of clock_ghz
  int64_t memory_bytes = 0;            // capacity; 0 = unknown

  std::string str() const;   // one line
  std::string hash() const;  // 16 hex digits over device, isa, cores, threads, libraries
};

// Rates when a working set of this size is traversed repeatedly: the reuse distance of each byte is
// `footprint_bytes`.
struct BandwidthPoint {
  int64_t footprint_bytes = 0;
  double read_bytes_per_ns = 0;  // read only
  double copy_bytes_per_ns = 0;  // bytes read plus bytes written, half of them each
};

// One level of the memory hierarchy, for display; predictions use the bandwidth points.
struct MemoryLevel {
  std::string name;            // "L1", "L2", "L3", "memory"
  int64_t capacity_bytes = 0;  // the cores in use have it together; memory is the machine's
  double read_bytes_per_ns = 0;
  double copy_bytes_per_ns = 0;
  double theoretical_bytes_per_ns = 0;  // 0 = unknown
};

// The storage order of the two operands of C[m,n] = A[m,k] B[k,n]: which of them is stored
// transposed.
enum class ProductForm : uint8_t {
  kNN,  // A row-major, B row-major
  kNT,  // A row-major, B transposed: x W^T
  kTN,  // A transposed, B row-major: dY^T X
  kTT,  // both transposed: dY^T X with a transposed X
};
std::string_view name(ProductForm form);

struct ProductExtents {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

// One GEMM measured repeatedly on the same operands, including the call.
struct ProductSample {
  ProductExtents extents;
  ProductForm form = ProductForm::kNN;
  double ns = 0;
};

// GEMM rates of one element type. i16 has only a peak: the best GEMM of block-quantized weights
// with activations rounded to 16 bits, unpacking included. QuantizedRates has their times. It is
// the rate of Ridge's own kernel, so it predicts but is no ceiling: MultiplyRates is.
struct ProductRates {
  DType dtype = DType::kF32;
  bool is_native = false;  // native GEMMs may run, not only the library (matmul's attribute)
  // The best rate among the samples, or the data sheet's rate times the assumed efficiency.
  double peak_flops_per_ns = 0;
  double theoretical_flops_per_ns = 0;  // 0 = unknown
  // Slowdown of a GEMM if the distance between rows is a power of two of bytes, 2 KiB or more, as
  // in most models' tensors. Such rows collide in few sets of the caches.
  double power_of_two_slowdown = 1;
  // The host's time for a library call outside a CUDA graph; 0 = the same as for other launches.
  double stream_call_ns = 0;
  double stream_row_call_ns = 0;  // for a product of one row; 0 = the same as for others
  // Products of few rows read their weight from memory at this rate; 0 = as other kernels read.
  double row_bytes_per_ns = 0;
  // Columns of C that one vector holds: kernels compute whole ones. 0 = no matter.
  double vector_columns = 0;
  std::vector<ProductSample> samples;  // empty for a data sheet
  // Their operands come from memory, and `samples` has the same extents: the times differ by what
  // reading adds where GEMMs do not overlap it with arithmetic. Empty: all of it overlaps.
  std::vector<ProductSample> memory_samples;

  std::string name() const;  // "f32", "f32 native"
};

// All cores in use put so many elements per nanosecond through one pointwise function, from L1 to
// L1, one function at a time; or through a kernel of rows, from L2 to L2.
struct FunctionRate {
  // Its op; with its conversions "sqrt bf16"; of rows "softmax bf16 768": op, type and width.
  std::string function;
  double elements_per_ns = 0;
};

// The rates at which all cores in use multiply numbers of one type with one instruction, in loops
// that read nothing but registers. One MAC is 2 operations (ops), also where an instruction only
// multiplies or adds products in pairs.
struct MultiplyRates {
  DType dtype = DType::kF32;             // the factors have it: f32, bf16, i16 or i8
  std::string instruction;               // "vpmaddwd ymm"
  double theoretical_ops_per_cycle = 0;  // one core has it; 0 = unknown
  double theoretical_ops_per_ns = 0;  // all used cores have it at Machine::clock_ghz; 0 = unknown
  double multiply_ops_per_ns = 0;     // measured, multiplications alone
  // Measured, with the additions that sum the products; the same if the instruction has them.
  double accumulate_ops_per_ns = 0;
  std::string source;  // the theoretical rate comes from it
};

// Kernels unpack quants and scales of a quantized weight so fast with all threads, from L1, and
// without multiplying them.
struct UnpackRate {
  DType weight = DType::kQ8_0;
  double bytes_per_ns = 0;  // stored bytes
};

// The time of a GEMM of this many tokens with a quantized weight [out, in].
struct QuantizedTime {
  int64_t tokens = 0;
  // Per element of the weight: reading and unpacking it, and multiplying it with all tokens.
  double cached_ns = 0;  // if the weight is in the caches
  double memory_ns = 0;  // if it comes from memory
  double ns_per_in = 0;  // per column: rounding the activations, before any weight is read
};

// GEMMs with a quantized weight (blocks, repacked tiles, 16 bits under fp32 activations),
// by the number of tokens: what the backend runs for that number. Another kernel for the same types
// is compared with these times.
struct QuantizedRates {
  DType weight = DType::kQ8_0;
  DType activations = DType::kF32;  // they are rounded to it; f32 = they are not
  // Above this number of tokens the backend runs one of the GEMMs of ProductRates; 0 = it never
  // does.
  int64_t most_tokens = 0;
  std::vector<QuantizedTime> times;  // ascending tokens, at least one
};

// The time of an op on the cells of a KV cache, one token of each sequence at a time. Its kernel
// loads each key or value once for several heads, so its rate is far from a GEMM's.
struct CacheRates {
  std::string op;             // "cached_attention", "cached_scores", "cached_mask", "cached_mix"
  DType dtype = DType::kF32;  // the cache has it; for cached_mask, the scores
  // If keys and values are in the processor's caches: 2 FLOPs per MAC; a score is a pair of a query
  // head and a key.
  double flops_per_ns = 0;
  double scores_per_ns = 0;
  // If they come from memory, one head at a time; 0 = the op reads none.
  double memory_bytes_per_ns = 0;
};

// The two parts of flash attention on a generic shape: GEMMs and the work per score (scale, mask,
// exp, sums).
struct AttentionRates {
  DType dtype = DType::kF32;
  double forward_flops_per_ns = 0;  // 4 E FLOPs per score
  double forward_scores_per_ns = 0;
  double backward_flops_per_ns = 0;  // 10 E FLOPs per score
  double backward_scores_per_ns = 0;
  // Overhead of a call that computes almost nothing: launches and the waits between them. 0 = the
  // overhead of other ops.
  double forward_call_ns = 0;
  double backward_call_ns = 0;
  // Sequences of kShortTokens take so many times longer than by these rates, which are of
  // kLongTokens. 1 = no longer.
  double forward_short_slowdown = 1;
  double backward_short_slowdown = 1;

  static constexpr int64_t kShortTokens = 60, kLongTokens = 600;
};

// A collective of so many ranks takes call_ns and the time of the bytes that a rank sends.
struct LinkRates {
  std::string link;         // "NVLink 4", "Open MPI v4.1.4"
  int64_t ranks = 0;        // 0: any number
  double bytes_per_ns = 0;  // in one direction
  double call_ns = 0;

  double ns(int64_t sent_bytes) const {
    return call_ns + static_cast<double>(sent_bytes) / bytes_per_ns;
  }
};

// The rate that a utilization is a share of: the measured one, or the data sheet's if nothing was
// measured.
struct ReferenceRate {
  double per_ns = 0;
  std::string_view source = "unknown";  // "measured" or "data sheet"
  double data_sheet_per_ns = 0;         // 0 = unknown

  // "of 1.02 TFLOP/s bf16 measured (data sheet: 2.00 TFLOP/s)"; `unit` is "FLOP/s" or "B/s", and
  // `type` may be empty.
  std::string str(const char* unit, std::string_view type) const;
};

// The time of an amount at a rate; 0 if the rate is unknown.
inline double ns_at(double amount, double per_ns) { return per_ns > 0 ? amount / per_ns : 0; }

// Other programs that use more of the cores, or of the GPU's time, than this disturb a measurement.
inline constexpr double kDisturbingShare = 0.1;

struct Ceilings {
  Machine machine;
  std::string source;       // "measured", "measured next to busy programs", "data sheet: ..."
  std::string measured_at;  // ISO 8601, UTC; empty unless measured
  // Share of the cores, or of the GPU's time, that other programs used during the measurement.
  double others_share = 0;
  // Whether GEMMs of quantized weights and ops on a KV cache (`quantized_gemms`, `cache`) were
  // measured too, which only inference needs.
  bool has_inference = true;
  std::vector<BandwidthPoint> bandwidth;        // ascending footprint; at least one
  std::vector<MemoryLevel> levels;              // fastest first; the last is memory
  std::vector<ProductRates> products;           // at least f32
  std::vector<MultiplyRates> multiplies;        // may be empty; one per type and instruction
  std::vector<UnpackRate> unpacks;              // may be empty
  std::vector<QuantizedRates> quantized_gemms;  // may be empty: then the peaks of `products` hold
  std::vector<CacheRates> cache;                // may be empty
  std::vector<AttentionRates> attention;        // may be empty
  // Links between ranks; may be empty: then ranks are taken to copy through this machine's memory.
  std::vector<LinkRates> links;
  // May be empty: then the rates of additions, fused operations and transcendentals below hold.
  std::vector<FunctionRate> functions;
  // Additions and multiplications one at a time, operands in L1.
  double arithmetic_flops_per_ns = 0;
  double fused_flops_per_ns = 0;      // many operations at a time, operands in registers
  double transcendentals_per_ns = 0;  // evaluations of exp, division, square root
  // For kernels that accept any layout (pointwise, copies): the rates at which they pass operands
  // that are not dense fp32. 0 = no cost.
  double staged_elements_per_ns = 0;  // converted or broadcast, a vector at a time
  // Reading and writing bf16 adds conversions in registers at these rates; 0 = no cost.
  double widened_elements_per_ns = 0;
  double narrowed_elements_per_ns = 0;
  double strided_reads_per_ns = 0;  // at a stride other than 1 or 0, one at a time
  double strided_writes_per_ns = 0;
  double runs_per_ns = 0;  // starts of evenly spaced runs of elements
  // Kernels of norms, reductions and softmax start and end so many rows, whatever their width; 0 =
  // no cost. The second rate is that of rows that take exponentials.
  double rows_per_ns = 0;
  double exponential_rows_per_ns = 0;
  double launch_ns = 0;  // a kernel call without work
  // A dependent round trip to memory that a kernel cannot overlap with other work; 0 = no cost.
  double round_ns = 0;
  // The host's share of a launch outside a CUDA graph; 0 = all of launch_ns.
  double stream_launch_ns = 0;
  // Empty-step time, on devices where the host waits for each step.
  double empty_step_ns = 0;
  // Opening and closing a parallel region; 0 if launches include it.
  double parallel_ns = 0;
  // Kernels with less work (plan::Target::shared_bytes) run on one thread.
  int64_t parallel_threshold_bytes = 0;
  std::vector<std::string> notes;  // assumptions, in words

  // The rates for a type. Falls back to the library's GEMMs if the type has no native rates, and to
  // f32 if the machine lacks the type.
  const ProductRates& product(DType dtype, bool is_native = false) const;
  // The fastest instruction that multiplies such numbers, or f32's if none does: 16-bit floats are
  // then widened. Null if no rate was measured.
  const MultiplyRates* multiply_rates(DType dtype) const;
  double function_elements_per_ns(std::string_view function) const;  // 0 if it was not measured
  double unpack_bytes_per_ns(DType weight) const;                    // 0 if it was not measured
  // Null if they were not measured.
  const QuantizedRates* quantized_rates(DType weight, DType activations) const;
  const CacheRates* cache_rates(std::string_view op, DType dtype) const;
  // The link between so many ranks, or the one that was measured with the next number of them.
  LinkRates link(int64_t ranks) const;
  double peak_flops_per_ns(DType dtype) const;  // the faster of library and native GEMMs
  // Bandwidth of the memory behind all caches, for copies and for reads alone.
  double memory_bytes_per_ns() const {
    return levels.empty() ? bandwidth.back().copy_bytes_per_ns : levels.back().copy_bytes_per_ns;
  }
  double memory_reads_per_ns() const {
    return levels.empty() ? bandwidth.back().read_bytes_per_ns : levels.back().read_bytes_per_ns;
  }
  // The capacity of the cache nearest to memory; 0 without caches.
  int64_t last_cache_bytes() const {
    return levels.size() > 1 ? levels[levels.size() - 2].capacity_bytes : 0;
  }
  bool is_measured() const { return !measured_at.empty(); }
  // GEMMs of the type; of i16, whose GEMMs are only Ridge's own, multiplications alone.
  ReferenceRate mfu_reference(DType dtype) const;
  ReferenceRate mbu_reference() const;  // reads of memory
  // Whether other programs used so much of the machine that the rates are provisional: too low,
  // until they are measured on a quiet machine.
  bool disturbed() const { return others_share > kDisturbingShare; }
};

// The levels of the memory hierarchy that are slower than one behind them, as sentences. No machine
// is like that, so something disturbed the measurement.
std::vector<std::string> implausible_levels(const Ceilings& ceilings);

// The same ceilings at another launch rate; 1 = as at calibration.
Ceilings at_launch_rate(Ceilings ceilings, double rate);

// A guess of the ceilings with another number of threads, for a machine on which they were not
// measured: arithmetic and the caches of cores follow the threads, the last cache and memory keep
// their bandwidth, and one thread opens no parallel regions.
Ceilings at_threads(Ceilings ceilings, int threads);

// Throws a bad-file Error that names the field if the record is incomplete or holds impossible
// values.
void validate(const Ceilings& ceilings);

std::string to_json(const Ceilings& ceilings);
// `origin` names the text in errors (for example, a file's path).
Ceilings ceilings_from_json(std::string_view text, std::string_view origin);
// Whether the text is such a record rather than a data sheet. Throws an Error if it is no JSON.
bool is_ceilings_json(std::string_view text, std::string_view origin);

// The intensity in FLOPs per byte at which the roof of memory meets that of GEMMs of the type.
double ridge_point(const Ceilings& ceilings, DType dtype);

}  // namespace ridge::cost
