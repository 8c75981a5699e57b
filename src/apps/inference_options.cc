// SPDX-License-Identifier: Apache-2.0
// Options of model files, and what a session needs. Not a subcommand.
#include "apps/inference_options.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/mapped_file.h"

namespace ridge::apps {
namespace {

constexpr size_t kMostTextBytes = size_t{256} << 20;

}  // namespace

void add_inference_options(Command app, InferenceOptions& o) {
  app.add_option("MODEL", o.model, "a .gguf file, or a folder with config.json and safetensors")
      .required();
  app.add_option("--context", o.context,
                 "context length to allocate (default: what the run needs, at most the model's)");
  app.add_option("--chunk", o.chunk, "prefill chunk size, in tokens").show_default();
  app.add_flag("--exact", o.exact, "fp32 activations everywhere");
  app.add_flag("--json", o.json, "print one JSON object on stdout and nothing else");
  app.add_option("--level", o.level.level, "baseline, fused, kernels or compiled")
      .show_default()
      .group("Level");
  app.add_option("--pass", o.level.switches,
                 "passes switched on or off: -flash_attention,-fuse_glu")
      .group("Level");
  add_machine_options(app, o.machine);
}

passes::Selection inference_selection(const InferenceOptions& o, const std::string& level) {
  return inference_selection(chosen_device(o.machine) == "cuda", o.exact, level, o.level.switches);
}

passes::Selection inference_selection(bool on_gpu,
                                      bool exact,
                                      const std::string& level,
                                      const std::string& more) {
  std::string switches = "-tune_gemm,";
  if (!on_gpu)
    switches += exact ? "" : "+quantize_activations,";
  else  // one kernel after the other: a token's graph has no branches
    switches += std::string("-branches,") + (exact ? "+store_f32," : "+store_bf16,+autocast_bf16,");
  return passes::Selection(level, switches + more);
}

void expect_cache_fits(const models::ModelConfig& config,
                       int64_t slots,
                       int64_t capacity,
                       int64_t chunk,
                       const passes::Selection& selection,
                       const backends::Backend& backend) {
  models::CacheShape cache = models::contiguous_cache(
      slots, capacity, config.window, std::clamp<int64_t>(chunk, 1, slots * capacity));
  int64_t wanted = models::cache_bytes(config, cache, selection.activations());
  int64_t available = backend.available_bytes();
  if (available > 0 && wanted > available)
    throw memory_error(
        "[memory] the KV cache of {} sequence(s) of {} positions needs {}, and {} are left on this "
        "{}",
        slots, capacity, format_bytes(wanted), format_bytes(available),
        backend.name() == "cpu" ? "machine" : "GPU");
}

std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& o,
                                      int64_t needed,
                                      bool cached,
                                      int64_t slots) {
  serve::SessionOptions options;
  options.selection = inference_selection(o, o.level.level);
  const models::ModelConfig& config = file.config();
  if (o.context < 0 || o.context > config.context)
    throw usage_error("[context] expected 1 to {} positions, the model's context, got {}",
                      config.context, o.context);
  options.capacity = o.context > 0 ? o.context : std::clamp<int64_t>(needed, 1, config.context);
  options.slots = slots;
  options.chunk = o.chunk;
  options.cached = cached;
  auto model = std::make_unique<OpenModel>(
      OpenModel{std::move(file), make_backend(o.machine, options.selection), nullptr});
  expect_cache_fits(model->file.config(), slots, options.capacity, o.chunk, options.selection,
                    *model->backend);
  model->session = std::make_unique<serve::Session>(model->file, options, *model->backend);
  return model;
}

std::string read_text(const std::string& path) {
  if (path != "-") {
    files::MappedFile file(path);
    if (file.text().size() > kMostTextBytes)
      throw usage_error("[text] expected at most {}, {} has {}",
                        format_bytes(static_cast<int64_t>(kMostTextBytes)), printable(path),
                        format_bytes(static_cast<int64_t>(file.text().size())));
    return std::string(file.text());
  }
  std::string text;
  std::array<char, size_t{1} << 16> part;
  while (size_t size = std::fread(part.data(), 1, part.size(), stdin)) {
    text.append(part.data(), size);
    if (text.size() > kMostTextBytes)
      throw usage_error("[stdin] expected at most {}",
                        format_bytes(static_cast<int64_t>(kMostTextBytes)));
  }
  if (std::ferror(stdin) != 0) throw runtime_error("[stdin] cannot read");
  return text;
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  auto refuse = [&] {
    throw usage_error("[ids] expected numbers with commas between, got {}", printable(text));
  };
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    int32_t id = 0;
    auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc()) refuse();
    ids.push_back(id);
    at = next;
    if (at == end) break;
    if (*at != ',' && *at != ' ') refuse();
    ++at;
    if (at == end) refuse();
  }
  if (ids.empty()) throw usage_error("[ids] expected at least one id, got none");
  return ids;
}

}  // namespace ridge::apps
