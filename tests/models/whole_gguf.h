// SPDX-License-Identifier: Apache-2.0
// A GGUF model that has every key that Ridge reads, for tests that change its numbers. No tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "files/gguf_file.h"
#include "files/gguf_writer.h"

namespace ridge::models {

// Copies a model and adds the keys that converters need not write, with valid values.
inline void write_whole_gguf(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto model = files::GgufFile::open(from);
  files::GgufWriter writer;
  writer.set(files::kGgufAlignmentKey, uint32_t{32});
  writer.set_all(model.metadata());
  const std::string family(model.metadata().string("general.architecture"));
  auto add = [&](const char* name, auto value) {
    const std::string key = family + "." + name;
    if (!model.metadata().contains(key)) writer.set(key, files::GgufValue(value));
  };
  add("expert_count", uint32_t{0});
  add("rope.scaling.type", "linear");
  add("rope.scaling.factor", 2.0f);
  add("rope.scale_linear", 2.0f);
  if (family == "gemma3") {
    add("rope.freq_base_swa", 1e4f);
    add("attention.sliding_window_pattern", uint32_t{6});
  }
  std::vector<files::TensorSource> tensors;
  for (const files::FileTensor& each : model.tensors().all())
    tensors.push_back(files::source_of(each));
  writer.write(to, tensors);
}

}  // namespace ridge::models
