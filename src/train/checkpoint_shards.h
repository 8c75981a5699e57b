// SPDX-License-Identifier: Apache-2.0
// How ranks share the writing of a checkpoint: each writes the whole tensors that are its own, into
// files named as transformers names the shards of a model, with an index of all. So any number of
// ranks, in any layout, reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ridge::train {

// Which rank writes each tensor: in the order in which they are asked for, the one with the least
// to write so far. Every rank asks for the same.
class TensorOwners {
 public:
  explicit TensorOwners(int64_t ranks) : elements_(static_cast<size_t>(ranks)) {}

  int64_t of(const std::string& name, int64_t elements);
  int64_t ranks() const { return std::ssize(elements_); }

  // The file of a rank: "model.safetensors" for one rank, else "model-00001-of-00004.safetensors".
  std::string file(std::string_view stem, int64_t rank) const;
  // The files of all ranks that have tensors.
  std::vector<std::string> files(std::string_view stem) const;
  // The index of files whose tensors have these endings behind their names.
  std::string index(std::string_view stem, std::span<const std::string_view> endings) const;

 private:
  std::map<std::string, int64_t> owners_;
  std::vector<int64_t> elements_;  // by rank
};

// Opens STEM.safetensors of a folder, or the shards that STEM.safetensors.index.json lists.
files::SafetensorsFile open_tensors(const std::filesystem::path& folder, std::string_view stem);
std::string index_name(std::string_view stem);

// Returns when all files are there, or throws a run-time Error after a request to stop.
void wait_for_files(const std::filesystem::path& folder,
                    std::span<const std::string> files,
                    const std::stop_token& stops);

}  // namespace ridge::train
