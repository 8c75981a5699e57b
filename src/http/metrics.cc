// SPDX-License-Identifier: Apache-2.0
// Names and shapes follow vLLM's metrics, with the prefix ridge_.
#include "http/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/printable.h"

namespace ridge::http {
namespace {

using serve::EngineCounts;
using serve::Histogram;

// The value of a label, quoted. The format escapes only the end of a line, quotes and backslashes;
// what else is not harmless to a terminal becomes text, such as \x1b.
std::string label_value(std::string_view text) {
  std::string made = "\"";
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (begin > 0) made += "\\n";
    for (char c : terminal_safe(text.substr(begin, end - begin), kWholeText)) {
      if (c == '"' || c == '\\') made += '\\';
      made += c;
    }
    begin = end + 1;
  }
  return made + '"';
}

class Writer {
 public:
  explicit Writer(const std::string& model) : model_("model_name=" + label_value(model)) {}

  void gauge(const char* name, const char* text, double value) {
    head(name, "gauge", text);
    sample(name, "", value);
  }
  void counter(const char* name, const char* text, int64_t value) {
    head(name, "counter", text);
    sample(name, "", value);
  }
  void histogram(const char* name, const char* text, const Histogram& histogram) {
    head(name, "histogram", text);
    const std::string bucket = std::string(name) + "_bucket";
    int64_t below = 0;
    for (size_t i = 0; i < histogram.counts.size(); ++i) {
      below += histogram.counts[i];
      const bool is_last = i == histogram.bounds.size();
      sample(bucket, is_last ? ",le=\"+Inf\"" : fmt::format(",le=\"{}\"", histogram.bounds[i]),
             below);
    }
    sample(std::string(name) + "_sum", "", histogram.sum);
    sample(std::string(name) + "_count", "", histogram.count);
  }
  void head(const char* name, const char* type, const char* text) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, text, name, type);
  }
  template <typename T>
  void sample(std::string_view name, std::string_view more, T value) {
    text_ += fmt::format("{}{{{}{}}} {}\n", name, model_, more, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string model_, text_;
};

}  // namespace

std::string metrics_text(const EngineCounts& counts, const std::string& model, double now_s) {
  Writer w(model);
  w.gauge("ridge_num_requests_running", "Requests that have a slot.",
          static_cast<double>(counts.running));
  w.gauge("ridge_num_requests_waiting", "Requests that wait for a slot.",
          static_cast<double>(counts.waiting));
  w.gauge("ridge_slots", "Requests that can run at once.", static_cast<double>(counts.slots));
  w.gauge("ridge_kv_cache_usage_perc",
          "Share of the KV cache's blocks that running requests use, 1 = all.",
          static_cast<double>(counts.blocks_in_use) / static_cast<double>(counts.blocks));
  w.gauge("ridge_kv_cache_blocks", "Blocks of the KV cache.", static_cast<double>(counts.blocks));
  w.counter("ridge_prompt_tokens_total", "Tokens of admitted prompts.", counts.prompt_tokens);
  w.counter("ridge_prefix_cache_queries_total", "Tokens of prompts looked up in the KV cache.",
            counts.prompt_tokens);
  w.counter("ridge_prefix_cache_hits_total", "Tokens of prompts that the KV cache held.",
            counts.cached_tokens);
  w.counter("ridge_generation_tokens_total", "Generated tokens.", counts.generated_tokens);
  w.counter("ridge_engine_steps_total", "Steps of the engine.", counts.steps);
  w.counter("ridge_num_preemptions_total", "Sequences that lost their blocks to others.",
            counts.preemptions);
  w.counter("ridge_internal_errors_total", "Faults of Ridge; each ended at most one request.",
            counts.internal_errors);
  w.counter("ridge_model_flops_total", "FLOPs of the model's definition, for what was computed.",
            counts.cost.model.flops);
  w.counter("ridge_executed_flops_total", "FLOPs of the kernels, with padding.",
            counts.cost.executed_flops);
  w.counter("ridge_discarded_tokens_total", "Tokens computed ahead for requests that had ended.",
            counts.discarded_tokens);
  w.counter("ridge_discarded_flops_total", "FLOPs of the kernels for discarded tokens.",
            counts.discarded_cost.executed_flops);
  w.counter("ridge_read_bytes_total", "Bytes that the kernels' plan reads.",
            counts.cost.read_bytes);
  w.counter("ridge_written_bytes_total", "Bytes that the kernels' plan writes.",
            counts.cost.written_bytes);
  if (counts.mfu)
    w.gauge("ridge_mfu_ratio", "Model FLOP/s of the last steps over the peak of GEMMs, 1 = all.",
            *counts.mfu);
  if (counts.mbu)
    w.gauge("ridge_mbu_ratio",
            "Bytes of weights and attended KV entries of the last steps, over their time and the "
            "read bandwidth of memory, 1 = all.",
            *counts.mbu);
  w.counter("ridge_requests_refused_total", "Requests that the queue had no room for.",
            counts.refused);
  w.head("ridge_request_success_total", "counter", "Ended requests by reason.");
  for (serve::Finish each : serve::kFinishes)
    w.sample("ridge_request_success_total",
             fmt::format(",finished_reason=\"{}\"", serve::finish_name(each)),
             counts.finished[static_cast<size_t>(each)]);
  w.gauge("ridge_last_step_age_seconds", "Time since the last step ended.",
          now_s - counts.last_step_s);
  w.histogram("ridge_request_queue_time_seconds", "Time in the queue.", counts.queue);
  w.histogram("ridge_time_to_first_token_seconds", "From submission to the first token.",
              counts.ttft);
  w.histogram("ridge_time_per_output_token_seconds", "A request's mean time per later token.",
              counts.tpot);
  w.histogram("ridge_inter_token_latency_seconds", "Time between two tokens of a request.",
              counts.inter_token);
  w.histogram("ridge_e2e_request_latency_seconds", "From submission to the end of the answer.",
              counts.end_to_end);
  return w.take();
}

}  // namespace ridge::http
