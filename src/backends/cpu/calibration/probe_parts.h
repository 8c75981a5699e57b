// SPDX-License-Identifier: Apache-2.0
// The parts of the CPU calibration. Each one adds its probes and returns a function that computes
// rates from their times. Private to this folder.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/probe.h"
#include "base/arena.h"
#include "base/dtype.h"
#include "cost/relative_fit.h"

namespace ridge::backends::cpu {

// Inputs of random numbers in [-0.5, 0.5), and separate space for results. Results never become
// inputs, so values stay small.
class OperandPool {
 public:
  // `bytes` of inputs and `bytes` of results.
  OperandPool(DType dtype, int64_t bytes);
  std::byte* input(int64_t offset_bytes) const { return inputs_.data() + offset_bytes; }
  std::byte* result(int64_t offset_bytes) const { return results_.data() + offset_bytes; }
  int64_t bytes() const { return inputs_.bytes(); }

 private:
  Arena inputs_;
  Arena results_;
};

// The rates of ns = terms[0] / rate + terms[1] / rate, fitted to relative errors.
std::array<double, 2> two_rates(const std::vector<cost::TimedTerms<2>>& timed);

using Finish = std::function<void(cost::Ceilings&)>;
// Also the machine's clock.
Finish multiply_probes(ProbeList& probes);
Finish gemm_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16);
Finish quantized_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16);
Finish cache_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16);
Finish attention_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16);
Finish memory_probes(ProbeList& probes,
                     const OperandPool& f32,
                     const std::vector<cost::MemoryLevel>& caches);
Finish vector_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16);

}  // namespace ridge::backends::cpu
