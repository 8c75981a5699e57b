// SPDX-License-Identifier: Apache-2.0
// ridge tokenizer: encodes text and decodes ids with a model's tokenizer, and trains a new one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/output_options.h"
#include "apps/subcommand.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/mapped_file.h"
#include "files/text_input.h"
#include "models/tokenizer_file.h"
#include "report/command_text.h"
#include "report/standard_output.h"
#include "text/bpe_trainer.h"
#include "text/id_list.h"
#include "text/utf8.h"

namespace ridge::apps {
namespace {

struct TokenizerOptions {
  std::string model;
  bool special = false;
  bool bos = false;
  bool json = false;
  std::string ids;
  std::vector<std::string> files;
  int32_t vocab_size = 8192;
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  std::string pre_tokenizer = "gpt2";
  bool pairs = false;
  OutputOptions output;
};

void encode(const TokenizerOptions& o) {
  const text::Tokenizer tokenizer = models::load_tokenizer(o.model);
  const std::vector<int32_t> ids =
      tokenizer.encode(files::read_stdin(text::Tokenizer::kMaxTextBytes),
                       {.parse_special = o.special, .add_bos = o.bos});
  if (o.json)
    fmt::print("{{\"ids\": [{}]}}\n", fmt::join(ids, ", "));
  else
    fmt::print("{}\n", fmt::join(ids, " "));
}

void decode(const TokenizerOptions& o, const Command& app) {
  const text::Tokenizer tokenizer = models::load_tokenizer(o.model);
  const std::vector<int32_t> ids =
      app.given("--ids")
          ? text::parse_ids(o.ids, "ids")
          : text::parse_ids(files::read_stdin(text::Tokenizer::kMaxTextBytes), "stdin");
  const std::string text = tokenizer.decode(ids, {.special = o.special});
  if (!o.json) return report::write_text(text);
  report::write_json({{"text", text::to_valid_utf8(text)}});
}

text::PreTokenizer pre_tokenizer(const std::string& name) {
  if (std::optional<text::PreTokenizer> kind = text::parse_pre_tokenizer(name)) return *kind;
  throw usage_error("[pre-tokenizer] expected {}, got {}", text::pre_tokenizer_names(),
                    printable(name));
}

// "2 merges: est 13, lo 5": the first pairs, of which the first is merged next.
void print_pairs(int64_t merges, const std::vector<text::PairCount>& pairs, int64_t all) {
  std::string line = counted(merges, "merge") + ":";
  for (size_t i = 0; i < pairs.size(); ++i)
    line += fmt::format("{} {} {} {}", i == 0 ? "" : ",", pairs[i].left, pairs[i].right,
                        pairs[i].count);
  if (const int64_t more = all - std::ssize(pairs); more > 0)
    line += fmt::format(", {} more", more);
  fmt::print("{}\n", line);
}

void train(const TokenizerOptions& o, const AppContext& context) {
  text::BpeTrainerOptions options;
  options.vocab_size = o.vocab_size;
  for (const std::string& token : o.special_tokens)
    if (!token.empty()) options.special_tokens.push_back(token);  // "" alone: none
  options.pre_tokenizer = pre_tokenizer(o.pre_tokenizer);
  Progress merging("train", o.vocab_size, "tokens", context.terminal);
  options.progress = [&](int64_t tokens, int64_t) { merging.reach(tokens); };
  int64_t merges = 0;
  if (o.pairs)
    options.pairs = [&](const std::vector<text::PairCount>& pairs, int64_t all) {
      print_pairs(merges++, pairs, all);
    };
  text::BpeTrainer trainer(options);
  start_openmp_threads();
  OutputFolder folder(*o.output.folder, o.output.overwrite);
  int64_t bytes = 0;
  double begin = now_ns();
  for (const std::string& path : o.files) {
    files::MappedFile file(path);
    Progress counting("read", static_cast<int64_t>(file.bytes().size()), "bytes", context.terminal);
    trainer.add_text(file.text(), [&](int64_t at, int64_t) { counting.reach(at); });
    bytes += static_cast<int64_t>(file.bytes().size());
  }
  double counted = now_ns();
  text::TokenizerSpec spec = trainer.train();
  double merged = now_ns();
  merging.hide();
  if (!options.special_tokens.empty()) {  // the first one separates documents
    spec.bos = spec.eos = 0;
    spec.end_of_generation = {0};
  }
  record::TrainedTokenizer made{std::ssize(spec.tokens),
                                std::ssize(spec.merges),
                                bytes,
                                {(counted - begin) / 1e9, (merged - counted) / 1e9},
                                terminal_safe(folder.path().string(), kWholeText),
                                {}};
  for (auto& [name, text] : models::tokenizer_files(spec, "")) {
    made.files.push_back(name);
    folder.add(name, std::move(text));
  }
  folder.commit();
  if (o.json)
    report::write_json(made);
  else
    fmt::print("{}", report::trained_text(made, o.vocab_size, context.terminal));
}

Command add_model_action(Command app, const char* name, const char* summary, TokenizerOptions& o) {
  Command action = app.add_subcommand(name, summary);
  action.add_option("MODEL", o.model, "a .gguf file, a tokenizer.json, or a folder with either")
      .required();
  action.add_json_flag(o.json);
  return action;
}

void add_encode(Command app, TokenizerOptions& o) {
  Command action =
      add_model_action(app, "encode", "Read text from stdin and print its token ids", o);
  action.add_flag("--special", o.special,
                  "read special tokens that are written in the text as such, not as text");
  action.add_flag("--bos", o.bos, "start with the model's BOS token");
  action.footer(
      "Examples:\n"
      "  echo -n 'Hello, world!' | ridge tokenizer encode model.gguf\n"
      "  ridge tokenizer encode model.gguf --json --special --bos < prompt.txt");
  action.callback([&o] { encode(o); });
}

void add_decode(Command app, TokenizerOptions& o) {
  Command action =
      add_model_action(app, "decode", "Read token ids from stdin and print their text", o);
  action.add_option("--ids", o.ids, "token ids to decode instead of stdin: 1,2,3").numbers();
  action.add_flag("--special", o.special, "print special tokens too");
  action.footer(
      "Examples:\n"
      "  echo 1 2 3 | ridge tokenizer decode model.gguf\n"
      "  ridge tokenizer decode model.gguf --ids 1,2,3\n"
      "  ridge tokenizer encode model.gguf --json < a.txt | ridge tokenizer decode model.gguf");
  action.callback([&o, action] { decode(o, action); });
}

void add_train(Command app, TokenizerOptions& o, const AppContext& context) {
  Command action = app.add_subcommand("train", "Train a byte-level BPE tokenizer on text files");
  action.add_option("FILE", o.files, "text files; merges do not cross the end of a file")
      .required();
  action.add_option(
      "--vocab-size", o.vocab_size,
      "number of tokens: special ones, 256 bytes and merges; more make texts shorter and models larger");
  action
      .add_option("--special-token", o.special_tokens,
                  "special tokens, with ids from 0; the first separates documents ('': none)")
      .one_value()
      .may_be_empty();
  action.add_option("--pre-tokenizer", o.pre_tokenizer,
                    "rules that cut a text into words before merging, as these models do: " +
                        text::pre_tokenizer_names());
  add_output_options(action, o.output, "folder for the tokenizer's files").required();
  const Option json = action.add_json_flag(o.json);
  action
      .add_flag("--pairs", o.pairs,
                "print the counts of pairs after each merge, first what is merged next: for "
                "small texts, to see the algorithm")
      .excludes(json);
  action.footer(
      "Writes tokenizer.json, tokenizer_config.json, generation_config.json, vocab.json and\n"
      "merges.txt.\n"
      "Examples:\n"
      "  ridge tokenizer train corpus.txt --vocab-size 8192 --out my_tokenizer\n"
      "  ridge tokenizer train a.txt b.txt --vocab-size 32000 --pre-tokenizer llama3 \\\n"
      "      --special-token '<s>' --special-token '</s>' --out my_llama3_tokenizer");
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
  app.callback([options] {});  // keeps the options alive
}

}  // namespace ridge::apps
