// SPDX-License-Identifier: Apache-2.0
// Lists each number of the ceilings once. Reading, writing and checking iterate over these lists.
// ceilings.h documents the fields.
#pragma once

#include <array>
#include <cstdint>

#include "cost/ceilings.h"

namespace ridge::cost {

// The unit and the valid range of a number.
enum class NumberKind : uint8_t {
  kRate,           // per nanosecond
  kRateOrUnknown,  // 0: unknown
  kNs,
  kShare,     // 0 to 1
  kSlowdown,  // 1 to 100
};

template <typename Record>
struct NumberField {
  const char* name;  // in JSON and in errors
  double Record::*value;
  NumberKind kind;
};

template <typename Record>
inline constexpr std::array<NumberField<Record>, 0> kNumbers{};

template <>
inline constexpr auto kNumbers<BandwidthPoint> = std::to_array<NumberField<BandwidthPoint>>(
    {{"read_bytes_per_ns", &BandwidthPoint::read_bytes_per_ns, NumberKind::kRate},
     {"copy_bytes_per_ns", &BandwidthPoint::copy_bytes_per_ns, NumberKind::kRate}});

template <>
inline constexpr auto kNumbers<MemoryLevel> = std::to_array<NumberField<MemoryLevel>>(
    {{"read_bytes_per_ns", &MemoryLevel::read_bytes_per_ns, NumberKind::kRate},
     {"copy_bytes_per_ns", &MemoryLevel::copy_bytes_per_ns, NumberKind::kRate},
     {"theoretical_bytes_per_ns", &MemoryLevel::theoretical_bytes_per_ns,
      NumberKind::kRateOrUnknown}});

template <>
inline constexpr auto kNumbers<ProductRates> = std::to_array<NumberField<ProductRates>>(
    {{"peak_flops_per_ns", &ProductRates::peak_flops_per_ns, NumberKind::kRate},
     {"theoretical_flops_per_ns", &ProductRates::theoretical_flops_per_ns,
      NumberKind::kRateOrUnknown},
     {"power_of_two_slowdown", &ProductRates::power_of_two_slowdown, NumberKind::kSlowdown},
     {"stream_call_ns", &ProductRates::stream_call_ns, NumberKind::kNs},
     {"stream_row_call_ns", &ProductRates::stream_row_call_ns, NumberKind::kNs},
     {"row_bytes_per_ns", &ProductRates::row_bytes_per_ns, NumberKind::kRateOrUnknown},
     {"vector_columns", &ProductRates::vector_columns, NumberKind::kRateOrUnknown}});

template <>
inline constexpr auto kNumbers<LinkRates> = std::to_array<NumberField<LinkRates>>(
    {{"bytes_per_ns", &LinkRates::bytes_per_ns, NumberKind::kRate},
     {"call_ns", &LinkRates::call_ns, NumberKind::kNs}});

template <>
inline constexpr auto kNumbers<MultiplyRates> = std::to_array<NumberField<MultiplyRates>>(
    {{"theoretical_ops_per_cycle", &MultiplyRates::theoretical_ops_per_cycle,
      NumberKind::kRateOrUnknown},
     {"theoretical_ops_per_ns", &MultiplyRates::theoretical_ops_per_ns, NumberKind::kRateOrUnknown},
     {"multiply_ops_per_ns", &MultiplyRates::multiply_ops_per_ns, NumberKind::kRate},
     {"accumulate_ops_per_ns", &MultiplyRates::accumulate_ops_per_ns, NumberKind::kRate}});

template <>
inline constexpr auto kNumbers<UnpackRate> = std::to_array<NumberField<UnpackRate>>(
    {{"bytes_per_ns", &UnpackRate::bytes_per_ns, NumberKind::kRate}});

template <>
inline constexpr auto kNumbers<FunctionRate> = std::to_array<NumberField<FunctionRate>>(
    {{"elements_per_ns", &FunctionRate::elements_per_ns, NumberKind::kRate}});

template <>
inline constexpr auto kNumbers<QuantizedTime> = std::to_array<NumberField<QuantizedTime>>(
    {{"cached_ns", &QuantizedTime::cached_ns, NumberKind::kNs},
     {"memory_ns", &QuantizedTime::memory_ns, NumberKind::kNs},
     {"ns_per_in", &QuantizedTime::ns_per_in, NumberKind::kNs}});

template <>
inline constexpr auto kNumbers<CacheRates> = std::to_array<NumberField<CacheRates>>(
    {{"flops_per_ns", &CacheRates::flops_per_ns, NumberKind::kRate},
     {"scores_per_ns", &CacheRates::scores_per_ns, NumberKind::kRate},
     {"memory_bytes_per_ns", &CacheRates::memory_bytes_per_ns, NumberKind::kRateOrUnknown}});

template <>
inline constexpr auto kNumbers<AttentionRates> = std::to_array<NumberField<AttentionRates>>(
    {{"forward_flops_per_ns", &AttentionRates::forward_flops_per_ns, NumberKind::kRate},
     {"forward_scores_per_ns", &AttentionRates::forward_scores_per_ns, NumberKind::kRate},
     {"backward_flops_per_ns", &AttentionRates::backward_flops_per_ns, NumberKind::kRate},
     {"backward_scores_per_ns", &AttentionRates::backward_scores_per_ns, NumberKind::kRate},
     {"forward_call_ns", &AttentionRates::forward_call_ns, NumberKind::kNs},
     {"backward_call_ns", &AttentionRates::backward_call_ns, NumberKind::kNs},
     {"forward_short_slowdown", &AttentionRates::forward_short_slowdown, NumberKind::kSlowdown},
     {"backward_short_slowdown", &AttentionRates::backward_short_slowdown, NumberKind::kSlowdown}});

template <>
inline constexpr auto kNumbers<Ceilings> = std::to_array<NumberField<Ceilings>>(
    {{"arithmetic_flops_per_ns", &Ceilings::arithmetic_flops_per_ns, NumberKind::kRate},
     {"fused_flops_per_ns", &Ceilings::fused_flops_per_ns, NumberKind::kRate},
     {"transcendentals_per_ns", &Ceilings::transcendentals_per_ns, NumberKind::kRate},
     {"staged_elements_per_ns", &Ceilings::staged_elements_per_ns, NumberKind::kRateOrUnknown},
     {"widened_elements_per_ns", &Ceilings::widened_elements_per_ns, NumberKind::kRateOrUnknown},
     {"narrowed_elements_per_ns", &Ceilings::narrowed_elements_per_ns, NumberKind::kRateOrUnknown},
     {"rows_per_ns", &Ceilings::rows_per_ns, NumberKind::kRateOrUnknown},
     {"exponential_rows_per_ns", &Ceilings::exponential_rows_per_ns, NumberKind::kRateOrUnknown},
     {"strided_reads_per_ns", &Ceilings::strided_reads_per_ns, NumberKind::kRateOrUnknown},
     {"strided_writes_per_ns", &Ceilings::strided_writes_per_ns, NumberKind::kRateOrUnknown},
     {"runs_per_ns", &Ceilings::runs_per_ns, NumberKind::kRateOrUnknown},
     {"launch_ns", &Ceilings::launch_ns, NumberKind::kNs},
     {"round_ns", &Ceilings::round_ns, NumberKind::kNs},
     {"stream_launch_ns", &Ceilings::stream_launch_ns, NumberKind::kNs},
     {"empty_step_ns", &Ceilings::empty_step_ns, NumberKind::kNs},
     {"parallel_ns", &Ceilings::parallel_ns, NumberKind::kNs}});

}  // namespace ridge::cost
