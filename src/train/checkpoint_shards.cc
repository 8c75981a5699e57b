// SPDX-License-Identifier: Apache-2.0
// Names the files, and waits for those of other ranks, which appear when they are complete.
#include "train/checkpoint_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "files/json.h"

namespace ridge::train {
namespace fs = std::filesystem;
namespace {

constexpr auto kLook = std::chrono::milliseconds(5);

}  // namespace

int64_t TensorOwners::of(const std::string& name, int64_t elements) {
  const auto [found, is_new] = owners_.try_emplace(name, 0);
  if (is_new) {
    const auto least = std::ranges::min_element(elements_);
    found->second = least - elements_.begin();
    *least += elements;
  }
  return found->second;
}

std::string TensorOwners::file(std::string_view stem, int64_t rank) const {
  if (ranks() == 1) return fmt::format("{}.safetensors", stem);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, rank + 1, ranks());
}

std::vector<std::string> TensorOwners::files(std::string_view stem) const {
  std::vector<std::string> names;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    if (std::ranges::any_of(owners_, [&](const auto& each) { return each.second == rank; }))
      names.push_back(file(stem, rank));
  return names;
}

std::string TensorOwners::index(std::string_view stem,
                                std::span<const std::string_view> endings) const {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (const auto& [name, rank] : owners_)
    for (const std::string_view ending : endings)
      map[fmt::format("{}{}", name, ending)] = file(stem, rank);
  return files::written_json({{"metadata", nlohmann::ordered_json::object()}, {"weight_map", map}});
}

std::string index_name(std::string_view stem) {
  return fmt::format("{}.safetensors.index.json", stem);
}

files::SafetensorsFile open_tensors(const fs::path& folder, std::string_view stem) {
  std::error_code error;
  const fs::path index = folder / index_name(stem);
  return files::SafetensorsFile::open(
      fs::exists(index, error) ? index : folder / fmt::format("{}.safetensors", stem));
}

void wait_for_files(const fs::path& folder,
                    std::span<const std::string> files,
                    const std::stop_token& stops) {
  for (const std::string& each : files)
    for (std::error_code error; !fs::exists(folder / each, error);
         std::this_thread::sleep_for(kLook))
      if (stops.stop_requested())
        throw runtime_error("[{}] the checkpoint is not complete: {} is missing", folder.string(),
                            each);
}

}  // namespace ridge::train
