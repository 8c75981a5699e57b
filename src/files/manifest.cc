// SPDX-License-Identifier: Apache-2.0
// Hashes files as they lie on the disk.
#include "files/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "files/atomic_file.h"
#include "files/hash.h"
#include "files/json.h"
#include "files/json_field.h"
#include "files/mapped_file.h"

namespace ridge::files {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kVersion = 1;

// Hashes a part at a time and lets it go, so that a large file does not fill the memory.
std::string hash_of(const MappedFile& file) {
  constexpr size_t kPartBytes = size_t{16} << 20;
  Hash128 hash;
  const auto bytes = file.bytes();
  for (size_t at = 0; at < bytes.size(); at += kPartBytes) {
    const auto part = bytes.subspan(at, std::min(kPartBytes, bytes.size() - at));
    hash.update(part);
    file.release(part);
  }
  return hash.hex();
}

}  // namespace

void write_manifest(const fs::path& folder, const char* format) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const fs::path& path : paths) {
    const MappedFile file(path);
    files.push_back({{"name", path.filename().string()},
                     {"bytes", file.bytes().size()},
                     {"xxh128", hash_of(file)}});
  }
  const nlohmann::ordered_json all{{"format", format}, {"version", kVersion}, {"files", files}};
  write_file(folder / kManifest, all.dump(2) + "\n", Links::kReplace);
}

void check_manifest(const fs::path& folder, const char* format) {
  const fs::path path = folder / kManifest;
  const nlohmann::json document = read_json(path);
  const JsonField root(document, path.string());
  if (root.at("format").text() != format) throw root.at("format").fault(format);
  if (root.at("version").integer() != kVersion)
    throw root.at("version").fault(fmt::format("version {}", kVersion));
  std::set<std::string> named{kManifest};
  for (const JsonField& each : root.at("files").items()) {
    const std::string& name = each.at("name").text();
    named.insert(name);
    if (name.empty() || name.find('/') != std::string::npos)
      throw each.at("name").fault("the name of a file");
    const MappedFile file(folder / name);
    const int64_t bytes = each.at("bytes").integer();
    if (std::ssize(file.bytes()) != bytes)
      throw file_error("[{}] expected {} bytes, found {}", file.source(), bytes,
                       file.bytes().size());
    const std::string& expected = each.at("xxh128").text();
    if (const std::string found = hash_of(file); found != expected)
      throw file_error("[{}] expected the hash {}, found {}", file.source(), expected, found);
  }
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); !named.contains(name))
      throw file_error("[{}] expected all files of the folder, {} is missing", path.string(),
                       printable(name));
}

}  // namespace ridge::files
