// SPDX-License-Identifier: Apache-2.0
// Hashes samples of a model file.
#include "models/model_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "files/hash.h"

namespace ridge::models {

std::string sampled_hash(const ModelFile& file) {
  constexpr size_t kSample = 4096;
  const ModelConfig& config = file.config();
  files::Hash128 hash;
  const auto add = [&](std::string_view text) { hash.update(std::as_bytes(std::span(text))); };
  add(fmt::format("{} {} {} {}\n", config.layers, config.heads, config.hidden,
                  config.parameters()));
  if (!file.has_weights()) return hash.hex();
  for (const files::FileTensor& each : file.tensors().all()) {
    add(fmt::format("{} {} {}\n", each.name, ridge::name(each.dtype), each.shape.str()));
    const std::span<const std::byte> bytes = file.bytes(each.name);
    const size_t last = bytes.size() - std::min(bytes.size(), kSample);
    for (const size_t at : {size_t{0}, last / 2, last})
      hash.update(bytes.subspan(at, std::min(kSample, bytes.size() - at)));
  }
  return hash.hex();
}

}  // namespace ridge::models
