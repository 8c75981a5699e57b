// SPDX-License-Identifier: Apache-2.0
// ridge data: makes data sets of token ids from texts, and shows what is in one.
#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <string>

#include "apps/subcommand.h"
#include "base/error.h"
#include "base/units.h"
#include "report/command_text.h"
#include "report/standard_output.h"
#include "train/data_set_builder.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostShardTokens = int64_t{1} << 40;

struct DataOptions {
  train::DataSetOptions set;
  bool no_end = false;
  std::string data;
  int64_t show = 0;
  bool check = false;
  bool json = false;
};

void tokenize(const DataOptions& o, const TerminalOptions& terminal) {
  train::DataSetBuilder builder(o.set);
  Progress progress("tokenize", builder.input_bytes(), "bytes", terminal);
  if (const auto begun = builder.begin())
    fmt::print(stderr, "Going on after {} ids in {} shards.\n", format_integer(begun->ids),
               begun->shards);
  const record::DataSetSummary made = builder.run([&](int64_t bytes) { progress.tick(bytes); });
  progress.hide();
  if (o.json) return report::write_json(made);
  fmt::print("{}", report::data_set_text(made));
}

void inspect(const DataOptions& o, const TerminalOptions& terminal) {
  if (o.show < 0) throw usage_error("[show] expected a number >= 0, got {}", o.show);
  text::TokenSet set =
      text::TokenSet::open(o.data, static_cast<int32_t>(std::numeric_limits<uint16_t>::max()) + 1);
  if (o.check) {
    Progress progress("check", set.size(), "ids", terminal);
    set.check([&](int64_t ids) { progress.tick(ids); });
  }
  record::DataSetContents contents = train::describe_data_set(set, o.data, o.show);
  contents.checked = o.check;
  if (o.json) return report::write_json(report::data_set_json(contents));
  fmt::print("{}", report::data_set_text(contents, terminal));
  if (!contents.text) return;
  fmt::print("\n");
  report::write_text(*contents.text + "\n");
}

void add_tokenize(Command app, DataOptions& o, const AppContext& context) {
  Command action = app.add_subcommand("tokenize", "Make a data set of token ids from texts");
  action
      .add_option("FILE", o.set.files, "texts or JSON Lines, also packed (gzip, zstd); - is stdin")
      .required();
  action
      .add_option("--tokenizer", o.set.tokenizer,
                  "a .gguf file, a tokenizer.json, or a folder with either")
      .required();
  action.add_option("--out", o.set.out, "folder for the data set").required();
  action.add_option(
      "--text-format", o.set.form.format,
      "form of the files: text (a file is a document), jsonl (a line is one), or auto (by name: .jsonl)");
  action.add_option("--field", o.set.form.field, "the key of the text in a line of JSON Lines");
  action.add_flag("--no-eos", o.no_end, "do not end documents with the tokenizer's EOS token");
  action.add_flag("--special", o.set.form.parse_special,
                  "read special tokens that are written in the text as such, not as text");
  action.add_option("--shard-tokens", o.set.shard_tokens,
                    "tokens in a shard file; an ended run loses at most one shard");
  action.add_json_flag(o.json);
  action.footer(
      "Texts may be of any length; memory is bounded. A run that was ended goes on where its last\n"
      "shard ended if it is started again with the same files and options.\n"
      "Examples:\n"
      "  ridge data tokenize corpus.txt --tokenizer model.gguf --out tokens\n"
      "  ridge data tokenize a.txt b.txt --tokenizer model/ --out tokens --json");
  action.callback([&o, &context] {
    text::expect_form(o.set.form);
    o.set.form.has_end = !o.no_end;
    if (o.set.shard_tokens < 1 || o.set.shard_tokens > kMostShardTokens)
      throw usage_error("[shard-tokens] expected 1 to {}, got {}", kMostShardTokens,
                        o.set.shard_tokens);
    tokenize(o, context.terminal);
  });
}

void add_inspect(Command app, DataOptions& o, const AppContext& context) {
  Command action = app.add_subcommand("inspect", "Show the shards and documents of a data set");
  action.add_option("DATA", o.data, "a folder of ridge data tokenize, or a file of token ids")
      .required();
  action.add_option("--show", o.show,
                    "number of tokens to print as text, from the first (0: none)");
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
