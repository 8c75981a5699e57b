// SPDX-License-Identifier: Apache-2.0
// ridge tokenizer: text to ids and back with the
// tokenizer of a model file, and training of a new one.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/output_folder.h"
#include "apps/subcommand.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/json.h"
#include "files/mapped_file.h"
#include "models/tokenizer_file.h"
#include "text/bpe_trainer.h"
#include "text/utf8.h"

namespace ridge::apps {
namespace {

using nlohmann::ordered_json;

struct TokenizerOptions {
  std::string model;
  bool special = false;
  bool bos = false;
  bool json = false;
  std::string ids;
  std::vector<std::string> files;
  int32_t vocab_size = 0;
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  std::string pre_tokenizer = "gpt2";
  std::string out;
  bool force = false;
};

std::string read_stdin(size_t most_bytes) {
  std::string text;
  std::array<char, size_t{1} << 16> part;
  while (size_t size = std::fread(part.data(), 1, part.size(), stdin)) {
    text.append(part.data(), size);
    if (text.size() > most_bytes)
      throw usage_error("[stdin] expected at most {} bytes", most_bytes);
  }
  if (std::ferror(stdin)) throw runtime_error("[stdin] cannot read");
  return text;
}

// Foreign text: as it is into a file or pipe, without
// control characters but the usual ones onto a terminal.
void print_text(std::string_view text) {
  if (!::isatty(STDOUT_FILENO)) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    fmt::print("{}{}", terminal_safe(text.substr(at, end - at)), "\n");
    at = end + 1;
  }
}

void encode(const TokenizerOptions& o) {
  const text::Tokenizer tokenizer = models::load_tokenizer(o.model);
  const std::vector<int32_t> ids = tokenizer.encode(read_stdin(text::Tokenizer::kMaxTextBytes),
                                                    {.parse_special = o.special, .add_bos = o.bos});
  if (o.json)
    fmt::print("{{\"ids\": [{}]}}\n", fmt::join(ids, ", "));
  else
    fmt::print("{}\n", fmt::join(ids, " "));
}

std::vector<int32_t> ids_of_json(const std::string& text, const char* source) {
  nlohmann::json document = files::parse_json(text, source);
  const nlohmann::json& list =
      document.is_object() && document.contains("ids") ? document["ids"] : document;
  if (!list.is_array())
    throw usage_error("[{}] expected {{\"ids\": [...]}} or a list of numbers", source);
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      throw usage_error("[{}] expected a token id, got {}", source, printable(id.dump(), 20));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// Numbers between spaces and commas, or JSON as `encode --json` prints it.
std::vector<int32_t> parse_ids(const std::string& text, const char* source) {
  constexpr std::string_view kBetween = " ,\t\r\n";
  size_t at = text.find_first_not_of(kBetween);
  if (at != std::string::npos && (text[at] == '{' || text[at] == '['))
    return ids_of_json(text, source);
  std::vector<int32_t> ids;
  while (at != std::string::npos) {
    size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    int32_t id = -1;
    auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end || id < 0)
      throw usage_error("[{}] expected a token id, got {}", source,
                        printable(text.substr(at, end - at), 20));
    ids.push_back(id);
    at = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

void decode(const TokenizerOptions& o, const Command& app) {
  const text::Tokenizer tokenizer = models::load_tokenizer(o.model);
  const bool given = app.given("--ids");
  const std::vector<int32_t> ids =
      given ? parse_ids(o.ids, "ids")
            : parse_ids(read_stdin(text::Tokenizer::kMaxTextBytes), "stdin");
  const std::string text = tokenizer.decode(ids, {.special = o.special});
  if (!o.json) return print_text(text);
  fmt::print("{}\n", ordered_json{{"text", text::to_valid_utf8(text)}}.dump());
}

text::PreTokenizer pre_tokenizer(const std::string& name) {
  if (std::optional<text::PreTokenizer> kind = text::parse_pre_tokenizer(name)) return *kind;
  throw usage_error("[pre-tokenizer] expected none, gpt2, llama3 or smollm, got {}",
                    printable(name));
}

void train(const TokenizerOptions& o, const AppContext& context) {
  text::BpeTrainerOptions options;
  options.vocab_size = o.vocab_size;
  for (const std::string& token : o.special_tokens)
    if (!token.empty()) options.special_tokens.push_back(token);  // "" alone: none
  options.pre_tokenizer = pre_tokenizer(o.pre_tokenizer);
  Progress merging("train", o.vocab_size, "tokens", context.terminal);
  int64_t made = 0;
  options.progress = [&](int64_t tokens, int64_t) {
    merging.tick(tokens - std::exchange(made, tokens));
  };
  text::BpeTrainer trainer(options);
  OutputFolder folder(o.out, o.force);
  int64_t bytes = 0;
  double begin = now_ns();
  for (const std::string& path : o.files) {
    files::MappedFile file(path);
    Progress counting("read", static_cast<int64_t>(file.bytes().size()), "bytes", context.terminal);
    int64_t done = 0;
    trainer.add_text(file.text(),
                     [&](int64_t at, int64_t) { counting.tick(at - std::exchange(done, at)); });
    bytes += static_cast<int64_t>(file.bytes().size());
  }
  double counted = now_ns();
  text::TokenizerSpec spec = trainer.train();
  double merged = now_ns();
  merging.hide();
  if (!options.special_tokens.empty()) {  // the first one parts documents
    spec.bos = spec.eos = 0;
    spec.end_of_generation = {0};
  }
  std::vector<std::string> names;
  for (auto& [name, text] : models::tokenizer_files(spec, "")) {
    names.push_back(name);
    folder.add(name, std::move(text));
  }
  folder.commit();
  if (o.json)
    return fmt::print("{}\n", ordered_json{{"vocab_size", spec.tokens.size()},
                                           {"merges", spec.merges.size()},
                                           {"text_bytes", bytes},
                                           {"timings",
                                            {{"count_s", (counted - begin) / 1e9},
                                             {"merge_s", (merged - counted) / 1e9}}},
                                           {"folder", terminal_safe(folder.path().string())},
                                           {"files", names}}
                                  .dump());
  fmt::print("{} tokens ({} merges) from {} of text, in {}: {}\n",
             format_integer(static_cast<int64_t>(spec.tokens.size())),
             format_integer(static_cast<int64_t>(spec.merges.size())), format_bytes(bytes),
             terminal_safe(folder.path().string()), fmt::join(names, ", "));
  if (static_cast<int64_t>(spec.tokens.size()) < o.vocab_size)
    fmt::print("The text has no more pairs to merge: {} tokens were asked for.\n",
               format_integer(o.vocab_size));
}

Command add_action(Command app,
                   const char* name,
                   const char* summary,
                   TokenizerOptions& o,
                   const char* examples) {
  Command action = app.add_subcommand(name, summary);
  action.add_flag("--json", o.json, "print one JSON object");
  action.footer(examples);
  return action;
}

void add_model(Command action, TokenizerOptions& o) {
  action.add_option("model", o.model, "a .gguf file, a tokenizer.json, or a folder that holds one")
      .required();
}

void add_encode(Command app, TokenizerOptions& o) {
  Command action =
      add_action(app, "encode", "Read text from stdin and print its token ids", o,
                 "Examples:\n"
                 "  echo -n 'Hello, world!' | ridge tokenizer encode model.gguf\n"
                 "  ridge tokenizer encode model.gguf --json --special --bos < prompt.txt");
  add_model(action, o);
  action.add_flag("--special", o.special, "special tokens written in the text become their ids");
  action.add_flag("--bos", o.bos, "begin with the model's BOS token");
  action.callback([&o] { encode(o); });
}

void add_decode(Command app, TokenizerOptions& o) {
  Command action = add_action(
      app, "decode", "Read token ids from stdin and print their text", o,
      "Examples:\n"
      "  echo 9259 236764 1902 | ridge tokenizer decode model.gguf\n"
      "  ridge tokenizer decode model.gguf --ids 9259,236764,1902\n"
      "  ridge tokenizer encode model.gguf --json < a.txt | ridge tokenizer decode model.gguf");
  add_model(action, o);
  action.add_option("--ids", o.ids, "the ids, instead of stdin's");
  action.add_flag("--special", o.special, "show special tokens");
  action.callback([&o, action] { decode(o, action); });
}

void add_train(Command app, TokenizerOptions& o, const AppContext& context) {
  Command action = add_action(
      app, "train", "Train a byte-level BPE tokenizer on text files", o,
      "Examples:\n"
      "  ridge tokenizer train corpus.txt --vocab-size 8192 --out my_tokenizer\n"
      "  ridge tokenizer train a.txt b.txt --vocab-size 32000 --pre-tokenizer llama3 \\\n"
      "      --special-token '<s>' --special-token '</s>' --out my_tokenizer\n"
      "The folder gets tokenizer.json, tokenizer_config.json, generation_config.json, vocab.json "
      "and merges.txt.");
  action.add_option("file", o.files, "text files; a merge never reaches over the end of one")
      .required();
  action.add_option("--vocab-size", o.vocab_size, "special tokens + 256 bytes + merges").required();
  action.add_option("--out", o.out, "a folder for the tokenizer's files").required();
  action
      .add_option("--special-token", o.special_tokens,
                  "ids 0 and up; the first one parts documents ('': none)")
      .show_default();
  action.add_option("--pre-tokenizer", o.pre_tokenizer, "none, gpt2, llama3 or smollm")
      .show_default();
  action.add_flag("--force", o.force, "overwrite files in an existing --out folder");
  action.callback([&o, &context] { train(o, context); });
}

}  // namespace

void register_tokenizer(Command program, const AppContext& context) {
  auto options = std::make_shared<TokenizerOptions>();
  Command app = program.add_subcommand("tokenizer",
                                       "Encode and decode with a model's tokenizer, or train one");
  app.require_subcommand();
  app.footer(
      "Examples:\n"
      "  ridge tokenizer encode model.gguf --json < text.txt\n"
      "  ridge tokenizer decode model.gguf --ids 1,2,3\n"
      "  ridge tokenizer train corpus.txt --vocab-size 8192 --out my_tokenizer");
  add_encode(app, *options);
  add_decode(app, *options);
  add_train(app, *options, context);
  app.callback([options] {});  // keeps the options alive as long as the program
}

}  // namespace ridge::apps
