// SPDX-License-Identifier: Apache-2.0
// index.json of a data set.
#include "text/token_set_files.h"

#include "base/error.h"
#include "files/json.h"
#include "files/json_field.h"
#include "text/tokenizer_spec.h"

namespace ridge::text {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kVersion = 1;
constexpr int64_t kMostIds = int64_t{1} << 48;

ordered_json shard_json(const ShardEntry& shard) {
  return {{"name", shard.name},
          {"ids", shard.ids},
          {"documents", shard.documents},
          {"xxh128", shard.hash},
          {"documents_xxh128", shard.documents_hash},
          {"hashes_xxh128", shard.hashes_hash}};
}

ShardEntry read_shard(const files::JsonField& field) {
  ShardEntry shard;
  shard.name = field.at("name").text();
  // The name becomes part of a path.
  if (shard.name.empty() || shard.name.find('/') != std::string::npos || shard.name[0] == '.')
    throw field.at("name").fault("the name of a shard");
  shard.ids = field.at("ids").integer(1, kMostIds);
  shard.documents = field.at("documents").integer(0, shard.ids);
  shard.hash = field.at("xxh128").text();
  shard.documents_hash = field.at("documents_xxh128").text();
  shard.hashes_hash = field.at("hashes_xxh128").text();
  return shard;
}

}  // namespace

int64_t TokenSetIndex::ids() const {
  int64_t all = 0;
  for (const ShardEntry& shard : shards) all += shard.ids;
  return all;
}

int64_t TokenSetIndex::documents() const {
  int64_t all = 0;
  for (const ShardEntry& shard : shards) all += shard.documents;
  return all;
}

std::string to_json(const TokenSetIndex& index) {
  ordered_json shards = ordered_json::array();
  for (const ShardEntry& shard : index.shards) shards.push_back(shard_json(shard));
  return ordered_json{{"format", kTokenSetFormat},
                      {"version", kVersion},
                      {"complete", index.is_complete},
                      {"vocab_size", index.vocab_size},
                      {"id_bytes", static_cast<int>(index.width)},
                      {"ids", index.ids()},
                      {"documents", index.documents()},
                      {"origin", index.origin},
                      {"next", index.next},
                      {"shards", shards}}
             .dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

TokenSetIndex read_index(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTokenSetIndex;
  const nlohmann::json document = files::read_json(path);
  const files::JsonField root(document, path.string());
  if (root.at("format").text() != kTokenSetFormat)
    throw root.at("format").fault("\"" + std::string(kTokenSetFormat) + "\"");
  if (root.at("version").integer() != kVersion)
    throw root.at("version").fault(fmt::format("version {}", kVersion));
  TokenSetIndex index;
  index.is_complete = root.at("complete").flag();
  index.vocab_size =
      static_cast<int32_t>(root.at("vocab_size").integer(1, static_cast<int64_t>(kMaxTokens)));
  const int64_t width = root.at("id_bytes").integer();
  if (width != 2 && width != 4) throw root.at("id_bytes").fault("2 or 4");
  index.width = static_cast<IdWidth>(width);
  index.origin = root.at("origin").value();
  if (root.has("next")) index.next = root.at("next").value();
  for (const files::JsonField& each : root.at("shards").items())
    index.shards.push_back(read_shard(each));
  if (root.at("ids").integer() != index.ids())
    throw root.at("ids").fault(fmt::format("the sum of the shards' ids, {}", index.ids()));
  return index;
}

}  // namespace ridge::text
