// SPDX-License-Identifier: Apache-2.0
// Tokenizes file by file, and remembers in the index where to go on.
#include "train/data_set_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/json_field.h"

namespace ridge::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The size of all inputs, 0 if unknown. Each must be readable before the first is tokenized.
int64_t checked_bytes(const std::vector<std::string>& inputs) {
  int64_t bytes = 0;
  bool is_known = true;
  for (const std::string& each : inputs) {
    if (each == "-") {
      is_known = false;
      continue;
    }
    struct stat status {};
    if (::stat(each.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      files::ByteStream probe(each);
      bytes += status.st_size;
    } else {
      is_known = false;
      if (::stat(each.c_str(), &status) != 0 || S_ISDIR(status.st_mode))
        files::ByteStream probe(each);  // throws the fault
    }
  }
  return is_known ? bytes : 0;
}

}  // namespace

DataSetBuilder::DataSetBuilder(const DataSetOptions& options)
    : o_(options),
      file_(models::read_tokenizer(o_.tokenizer)),
      tokenizer_(models::make_tokenizer(file_)),
      input_bytes_(checked_bytes(o_.files)) {}

std::optional<DataSetBuilder::Begun> DataSetBuilder::begin() {
  begin_ns_ = now_ns();
  start_openmp_threads();
  std::error_code error;
  if (!fs::exists(fs::path(o_.out) / text::kTokenSetIndex, error)) {
    index_ = new_index();
    return {};
  }
  index_ = found_index();
  return Begun{index_.ids(), std::ssize(index_.shards)};
}

record::DataSetSummary DataSetBuilder::run(const std::function<void(int64_t bytes)>& progress) {
  record::DataSetSummary made;
  const int64_t found_ids = index_.ids();
  text::TokenSetWriter writer(o_.out, std::move(index_));
  text::TokenStream stream(tokenizer_, text::document_options(tokenizer_, o_.form),
                           [&](const text::TokenPart& part) { add(writer, part); });
  for (auto input = static_cast<size_t>(first_input_); input < o_.files.size(); ++input) {
    const auto number = static_cast<int64_t>(input);
    text::read_documents(
        o_.files[input], o_.form, number == first_input_ ? start_ : text::DocumentStart{}, number,
        [&](const text::TextPart& part) { stream.add(part); },
        [&](int64_t bytes) {
          progress(bytes);
          made.read_bytes += bytes;
        });
  }
  stream.flush();
  if (writer.index().shards.empty() && writer.shard_ids() == 0)
    throw file_error("[{}] expected documents, found none", o_.files[0]);
  writer.finish();
  const text::TokenSetIndex& index = writer.index();
  made.folder = o_.out;
  made.ids = index.ids();
  made.documents = index.documents();
  made.shards = std::ssize(index.shards);
  made.id_bytes = static_cast<int>(index.width);
  made.vocab_size = index.vocab_size;
  made.seconds = (now_ns() - begin_ns_) / 1e9;
  made.tokens_per_s = static_cast<double>(made.ids - found_ids) / made.seconds;
  return made;
}

// All that the ids depend on.
json DataSetBuilder::origin() const {
  json inputs = json::array();
  for (const std::string& each : o_.files) {
    struct stat status {};
    if (each != "-") ::stat(each.c_str(), &status);
    inputs.push_back({{"path", each},
                      {"bytes", static_cast<int64_t>(status.st_size)},
                      {"modified_s", static_cast<int64_t>(status.st_mtim.tv_sec)},
                      {"modified_ns", static_cast<int64_t>(status.st_mtim.tv_nsec)}});
  }
  return {{"inputs", inputs},
          {"tokenizer", o_.tokenizer},
          {"tokenizer_hash", text::tokenizer_hash(file_.spec)},
          {"format", o_.form.format},
          {"field", o_.form.field},
          {"document_end", o_.form.has_end},
          {"special", o_.form.parse_special},
          {"shard_tokens", o_.shard_tokens}};
}

text::TokenSetIndex DataSetBuilder::new_index() const {
  text::TokenSetIndex index;
  index.vocab_size = tokenizer_.vocab_size();
  index.width = text::smallest_id_width(index.vocab_size);
  index.origin = origin();
  // The folder appears with the tokenizer in it.
  files::AtomicFolder made(o_.out);
  fs::create_directory(made.inside() / text::kTokenSetTokenizer);
  for (const auto& [name, text] : models::tokenizer_files(file_.spec, file_.chat_template))
    files::write_file(made.inside() / text::kTokenSetTokenizer / name, text);
  index.next = json{{"input", 0}, {"place", 0}, {"continues", false}};
  files::write_file(made.inside() / text::kTokenSetIndex, to_json(index));
  made.commit();
  return index;
}

text::TokenSetIndex DataSetBuilder::found_index() {
  text::TokenSetIndex index = text::read_index(o_.out);
  if (index.is_complete)
    throw usage_error("[out] {} has a complete data set already", printable(o_.out));
  if (index.origin != origin())
    throw usage_error("[out] {} has a data set that other files or options began; remove it first",
                      printable(o_.out));
  const files::JsonField next(index.next, (fs::path(o_.out) / text::kTokenSetIndex).string());
  first_input_ = next.at("input").integer(0, std::ssize(o_.files) - 1);
  start_ = {next.at("place").integer(0), next.at("continues").flag()};
  return index;
}

void DataSetBuilder::add(text::TokenSetWriter& writer, const text::TokenPart& part) const {
  writer.add(part.ids, part.begins);
  // An empty text ends at place 0, where another run would begin it again.
  if (part.place <= 0 || writer.shard_ids() < o_.shard_tokens) return;
  writer.end_shard({{"input", part.input}, {"place", part.place}, {"continues", !part.ends}});
}

namespace {

// The text of the first ids, if the set has its tokenizer with it.
std::string beginning(text::TokenSet& set, const fs::path& folder, int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(std::min(count, set.size())));
  set.read(0, ids);
  const fs::path tokenizer = folder / text::kTokenSetTokenizer;
  std::error_code error;
  if (!fs::exists(tokenizer, error)) return fmt::format("{}", fmt::join(ids, " "));
  return models::load_tokenizer(tokenizer).decode(ids, {.special = true});
}

void add_lengths(const text::TokenSet& set, record::DataSetContents& contents) {
  std::vector<int64_t> starts = set.document_starts(), lengths;
  for (size_t i = 0; i < starts.size(); ++i)
    lengths.push_back((i + 1 < starts.size() ? starts[i + 1] : set.size()) - starts[i]);
  if (lengths.empty()) return;
  std::sort(lengths.begin(), lengths.end());
  contents.documents = std::ssize(lengths);
  contents.least_ids = lengths.front();
  contents.median_ids = lengths[lengths.size() / 2];
  contents.most_ids = lengths.back();
}

}  // namespace

record::DataSetContents describe_data_set(text::TokenSet& set,
                                          const std::string& path,
                                          int64_t shown) {
  record::DataSetContents contents;
  contents.path = path;
  contents.ids = set.size();
  contents.vocab_size = set.vocab_size();
  add_lengths(set, contents);
  if (shown > 0) contents.text = beginning(set, path, shown);
  if (!set.index()) return contents;
  for (const text::ShardEntry& each : set.index()->shards)
    contents.shards.push_back({each.name, each.ids, each.documents, each.hash});
  contents.origin = set.index()->origin.dump();
  return contents;
}

}  // namespace ridge::train
