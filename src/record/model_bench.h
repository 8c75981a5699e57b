// SPDX-License-Identifier: Apache-2.0
// A whole model's tokens per second in prefill and decode. It is a plain record, which
// bench/model_bench.h fills.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/samples.h"
#include "cost/ceilings.h"
#include "record/rate_shares.h"
#include "record/run_record.h"

namespace ridge::record {

// Repeated runs of `tokens` for each sequence of the batch.
struct ModelTrial {
  std::string name;  // "pp512", "tg128"
  int64_t tokens = 0;
  bool is_decode = false;
  std::vector<double> rates = {};  // tokens per second
  RateShares shares = {};          // at the median rate
  // The bytes that are read between the repeats, the bandwidth of these reads, and the median share
  // of it that the repeats reach; 0 if not measured.
  int64_t beside_bytes = 0;
  double beside_bytes_per_ns = 0;
  double of_beside = 0;

  Summary summary() const { return summarize(rates); }
};

// The kernels of one instrumented run, summed by op and the shape of its weight.
struct KernelTimes {
  struct Operation {
    std::string name;
    int64_t kernels = 0;
    double ns = 0;  // an overlapping kernel counts from the end of the one before it
  };
  std::string run;                    // "a decode step"
  std::vector<Operation> operations;  // the longest first
  double kernel_ns = 0;
  double wall_ns = 0;
};

struct ModelBenchRecord {
  std::string program;  // name and version
  Setting setting;
  std::string format;  // "GGUF", "safetensors" or "random weights"
  int64_t size_bytes = 0;
  int64_t parameters = 0;
  std::string activations;  // "exact", "8 bits" or "fast"
  double read_ns = 0, open_ns = 0, first_token_ns = 0;
  int64_t owned_bytes = 0;
  cost::Ceilings ceilings;
  std::vector<ModelTrial> trials;
  std::vector<KernelTimes> kernels;  // if they were asked for
};

}  // namespace ridge::record
