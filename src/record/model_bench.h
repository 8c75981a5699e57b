// SPDX-License-Identifier: Apache-2.0
// A whole model's tokens per second in prefill and decode. It is a plain record, which
// bench/model_bench.h fills.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/samples.h"
#include "cost/ceilings.h"
#include "record/figures.h"
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

template <class See>
void figures(const See& see, const ModelBenchRecord& r) {
  see("program", r.program), see("model", r.setting.model), see("format", r.format),
      see("size_bytes", r.size_bytes), see("parameters", r.parameters),
      see("device", r.setting.device), see("isa", r.setting.isa), see("threads", r.setting.threads),
      see("level", r.setting.level), see("dtype", r.setting.dtype);
  see({"activations", "", "exact, 8 bits or fast"}, r.activations);
  see("cache_dtype", r.setting.cache_dtype), see("batch", r.setting.batch_size);
  see({"read_ms", "ms", "reading the file"}, r.read_ns / 1e6);
  see({"open_ms", "ms", "opening a session"}, r.open_ns / 1e6);
  see({"first_token_ms", "ms", "of a prompt of one token"}, r.first_token_ns / 1e6);
  see("owned_bytes", r.owned_bytes);
}

template <class See>
void figures(const See& see, const ModelTrial& r) {
  const Summary rates = r.summary();
  see("test", r.name), see("tokens", r.tokens), see("tokens_per_s", rates.median),
      see("low", rates.low), see("high", rates.high), see({"coverage", "share"}, rates.coverage),
      see("samples", r.rates);
  see({"read_beside_bytes_per_s", "", "reading memory between the repeats"},
      r.beside_bytes_per_ns * 1e9, Unknown::kNull);
  see({"of_read_beside", "share"}, r.of_beside, Unknown::kNull);
}

}  // namespace ridge::record
