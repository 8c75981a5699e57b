// SPDX-License-Identifier: Apache-2.0
// ridge data: makes data sets of token ids from texts, and shows what is in one.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "apps/subcommand.h"
#include "apps/text_io.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/json_field.h"
#include "models/tokenizer_file.h"
#include "text/document_file.h"
#include "text/token_set.h"
#include "text/token_set_writer.h"
#include "text/token_stream.h"

namespace ridge::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kMostShardTokens = int64_t{1} << 40;

struct DataOptions {
  std::vector<std::string> files;
  std::string tokenizer;
  std::string out;
  text::TextForm form;
  bool no_end = false;
  int64_t shard_tokens = 100'000'000;
  std::string data;
  int64_t show = 0;
  bool check = false;
  bool json = false;
};

// Makes a data set, or goes on with one that an earlier run began.
class DataSetMaker {
 public:
  DataSetMaker(const DataOptions& options, const TerminalOptions& terminal)
      : o_(options),
        file_(models::read_tokenizer(o_.tokenizer)),
        tokenizer_(models::make_tokenizer(file_)),
        progress_("tokenize", checked_bytes(), "bytes", terminal) {}

  void run() {
    const double begin = now_ns();
    start_openmp_threads();
    text::TokenSetIndex index = begun_index();
    const int64_t found_ids = index.ids();
    text::TokenSetWriter writer(o_.out, std::move(index));
    text::TokenStream stream(tokenizer_, document_options(tokenizer_, o_.form),
                             [&](const text::TokenPart& part) { add(writer, part); });
    for (auto input = static_cast<size_t>(first_input_); input < o_.files.size(); ++input) {
      const auto number = static_cast<int64_t>(input);
      read_documents(
          o_.files[input], o_.form, number == first_input_ ? start_ : text::DocumentStart{}, number,
          [&](const text::TextPart& part) { stream.add(part); },
          [&](int64_t bytes) {
            progress_.tick(bytes);
            read_bytes_ += bytes;
          });
    }
    stream.flush();
    if (writer.index().shards.empty() && writer.shard_ids() == 0)
      throw file_error("[{}] expected documents, found none", o_.files[0]);
    writer.finish();
    progress_.hide();
    report(writer.index(), found_ids, (now_ns() - begin) / 1e9);
  }

 private:
  // The size of all inputs, 0 if unknown. Each must be readable before the first is tokenized.
  int64_t checked_bytes() const {
    int64_t bytes = 0;
    bool is_known = true;
    for (const std::string& each : o_.files) {
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
          files::ByteStream probe(each);  // says what is wrong
      }
    }
    return is_known ? bytes : 0;
  }

  // All that the ids depend on.
  json origin() const {
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
            {"tokenizer_hash", tokenizer_hash(file_.spec)},
            {"format", o_.form.format},
            {"field", o_.form.field},
            {"document_end", o_.form.has_end},
            {"special", o_.form.parse_special},
            {"shard_tokens", o_.shard_tokens}};
  }

  text::TokenSetIndex begun_index() {
    const fs::path out = o_.out;
    std::error_code error;
    if (fs::exists(out / text::kTokenSetIndex, error)) return found_index();
    text::TokenSetIndex index;
    index.vocab_size = tokenizer_.vocab_size();
    index.width = text::smallest_id_width(index.vocab_size);
    index.origin = origin();
    // The folder appears with the tokenizer in it.
    files::AtomicFolder made(out);
    fs::create_directory(made.inside() / text::kTokenSetTokenizer);
    for (const auto& [name, text] : models::tokenizer_files(file_.spec, file_.chat_template))
      files::write_file(made.inside() / text::kTokenSetTokenizer / name, text);
    index.next = json{{"input", 0}, {"place", 0}, {"continues", false}};
    files::write_file(made.inside() / text::kTokenSetIndex, to_json(index));
    made.commit();
    return index;
  }

  text::TokenSetIndex found_index() {
    text::TokenSetIndex index = text::read_index(o_.out);
    if (index.is_complete)
      throw usage_error("[out] {} has a complete data set already", printable(o_.out));
    if (index.origin != origin())
      throw usage_error(
          "[out] {} has a data set that other files or options began; remove it first",
          printable(o_.out));
    const files::JsonField next(index.next, (fs::path(o_.out) / text::kTokenSetIndex).string());
    first_input_ = next.at("input").integer(0, std::ssize(o_.files) - 1);
    start_ = {next.at("place").integer(0), next.at("continues").flag()};
    fmt::print(stderr, "Going on after {} ids in {} shards.\n", format_integer(index.ids()),
               index.shards.size());
    return index;
  }

  void add(text::TokenSetWriter& writer, const text::TokenPart& part) {
    writer.add(part.ids, part.begins);
    if (part.place < 0 || writer.shard_ids() < o_.shard_tokens) return;
    writer.end_shard({{"input", part.input}, {"place", part.place}, {"continues", !part.ends}});
  }

  void report(const text::TokenSetIndex& index, int64_t found_ids, double seconds) const {
    const double rate = static_cast<double>(index.ids() - found_ids) / seconds;
    if (o_.json)
      return write_json({{"folder", o_.out},
                         {"ids", index.ids()},
                         {"documents", index.documents()},
                         {"shards", index.shards.size()},
                         {"id_bytes", static_cast<int>(index.width)},
                         {"vocab_size", index.vocab_size},
                         {"seconds", seconds},
                         {"tokens_per_s", rate},
                         {"read_bytes", read_bytes_}});
    fmt::print("Wrote {} ids of {} bytes from {} documents in {} shards to {} ({} tokens/s).\n",
               format_integer(index.ids()), static_cast<int>(index.width),
               format_integer(index.documents()), index.shards.size(), terminal_safe(o_.out),
               format_count(rate));
  }

  const DataOptions& o_;
  models::TokenizerFile file_;
  text::Tokenizer tokenizer_;
  Progress progress_;
  int64_t first_input_ = 0;
  text::DocumentStart start_;
  int64_t read_bytes_ = 0;
};

// The text of the first ids, if the set has its tokenizer beside it.
std::string beginning(text::TokenSet& set, const fs::path& folder, int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(std::min(count, set.size())));
  set.read(0, ids);
  const fs::path tokenizer = folder / text::kTokenSetTokenizer;
  std::error_code error;
  if (!fs::exists(tokenizer, error)) return fmt::format("{}", fmt::join(ids, " "));
  return models::load_tokenizer(tokenizer).decode(ids, {.special = true});
}

struct Lengths {
  int64_t documents = 0, least = 0, median = 0, most = 0;
};
Lengths document_lengths(const text::TokenSet& set) {
  std::vector<int64_t> starts = set.document_starts(), lengths;
  for (size_t i = 0; i < starts.size(); ++i)
    lengths.push_back((i + 1 < starts.size() ? starts[i + 1] : set.size()) - starts[i]);
  if (lengths.empty()) return {};
  std::sort(lengths.begin(), lengths.end());
  return {std::ssize(lengths), lengths.front(), lengths[lengths.size() / 2], lengths.back()};
}

void inspect(const DataOptions& o, const TerminalOptions& terminal) {
  if (o.show < 0) throw usage_error("[show] expected a number >= 0, got {}", o.show);
  text::TokenSet set =
      text::TokenSet::open(o.data, static_cast<int32_t>(std::numeric_limits<uint16_t>::max()) + 1);
  if (o.check) {
    Progress progress("check", set.size(), "ids", terminal);
    set.check([&](int64_t ids) { progress.tick(ids); });
  }
  const Lengths lengths = document_lengths(set);
  const std::string text = o.show == 0 ? "" : beginning(set, o.data, o.show);
  ordered_json shards = ordered_json::array();
  Table table({{"shard", Align::kLeft}, {"ids"}, {"documents"}, {"XXH3-128", Align::kLeft}});
  if (set.index())
    for (const text::ShardEntry& each : set.index()->shards) {
      table.add({terminal_safe(each.name), format_integer(each.ids), format_integer(each.documents),
                 terminal_safe(each.hash)});
      shards.push_back({{"name", each.name},
                        {"ids", each.ids},
                        {"documents", each.documents},
                        {"xxh128", each.hash}});
    }
  if (o.json) {
    ordered_json all{
        {"ids", set.size()},
        {"vocab_size", set.vocab_size()},
        {"documents", lengths.documents},
        {"document_ids",
         {{"least", lengths.least}, {"median", lengths.median}, {"most", lengths.most}}},
        {"shards", shards},
        {"checked", o.check}};
    if (set.index()) all["origin"] = set.index()->origin;
    if (o.show > 0) all["text"] = text;
    return write_json(all);
  }
  fmt::print("{}: {} ids, vocabulary {}\n", terminal_safe(o.data), format_integer(set.size()),
             format_integer(set.vocab_size()));
  if (lengths.documents > 0)
    fmt::print("{} documents of {} to {} ids, median {}\n", format_integer(lengths.documents),
               format_integer(lengths.least), format_integer(lengths.most),
               format_integer(lengths.median));
  if (table.rows() > 0) fmt::print("\n{}", table.text(terminal));
  if (o.check) fmt::print("\nAll hashes agree.\n");
  if (o.show > 0) {
    fmt::print("\n");
    std::fflush(stdout);
    write_text(text + "\n");
  }
}

void add_tokenize(Command app, DataOptions& o, const AppContext& context) {
  Command action = app.add_subcommand("tokenize", "Make a data set of token ids from texts");
  action.add_option("FILE", o.files, "texts or JSON Lines, also packed (gzip, zstd); - is stdin")
      .required();
  action
      .add_option("--tokenizer", o.tokenizer,
                  "a .gguf file, a tokenizer.json, or a folder with either")
      .required();
  action.add_option("--out", o.out, "folder for the data set").required();
  action
      .add_option(
          "--text-format", o.form.format,
          "form of the files: text (a file is a document), jsonl (a line is one), or auto (by name: .jsonl)")
      .show_default();
  action.add_option("--field", o.form.field, "the key of the text in a line of JSON Lines")
      .show_default();
  action.add_flag("--no-eos", o.no_end, "do not end documents with the tokenizer's EOS token");
  action.add_flag("--special", o.form.parse_special,
                  "read special tokens that are written in the text as such, not as text");
  action
      .add_option("--shard-tokens", o.shard_tokens,
                  "tokens in a shard file; an ended run loses at most one shard")
      .show_default();
  action.add_json_flag(o.json);
  action.footer(
      "Texts may be of any length; memory is bounded. A run that was ended goes on where its last\n"
      "shard ended if it is started again with the same files and options.\n"
      "Examples:\n"
      "  ridge data tokenize corpus.txt --tokenizer model.gguf --out tokens\n"
      "  ridge data tokenize a.txt b.txt --tokenizer model/ --out tokens --json");
  action.callback([&o, &context] {
    text::expect_form(o.form);
    o.form.has_end = !o.no_end;
    if (o.shard_tokens < 1 || o.shard_tokens > kMostShardTokens)
      throw usage_error("[shard-tokens] expected 1 to {}, got {}", kMostShardTokens,
                        o.shard_tokens);
    DataSetMaker(o, context.terminal).run();
  });
}

void add_inspect(Command app, DataOptions& o, const AppContext& context) {
  Command action = app.add_subcommand("inspect", "Show the shards and documents of a data set");
  action.add_option("DATA", o.data, "a folder of ridge data tokenize, or a file of token ids")
      .required();
  action.add_option("--show", o.show, "number of tokens to print as text, from the first (0: none)")
      .show_default();
  action.add_flag("--check", o.check, "read all ids and compare the hashes");
  action.add_json_flag(o.json);
  action.footer(
      "Examples:\n"
      "  ridge data inspect my_tokens --check\n"
      "  ridge data inspect my_tokens --show 20 --json");
  action.callback([&o, &context] { inspect(o, context.terminal); });
}

}  // namespace

void register_data(Command program, const AppContext& context) {
  auto options = std::make_shared<DataOptions>();
  Command app = program.add_subcommand("data", "Make and inspect data sets of token ids");
  app.require_subcommand();
  app.footer(
      "Examples:\n"
      "  ridge data tokenize corpus.txt --tokenizer model.gguf --out tokens\n"
      "  ridge data inspect tokens");
  add_tokenize(app, *options, context);
  add_inspect(app, *options, context);
  app.callback([options] {});  // keeps the options alive
}

}  // namespace ridge::apps
