// SPDX-License-Identifier: Apache-2.0
// One row per shard.
#include "report/data_set_text.h"

#include <fmt/ranges.h>

#include "base/printable.h"
#include "base/units.h"

namespace ridge::report {

std::string data_set_text(const record::DataSetSummary& s) {
  return fmt::format(
      "Wrote {} ids of {} bytes from {} documents in {} shards to {} ({} tokens/s).\n",
      format_integer(s.ids), s.id_bytes, format_integer(s.documents), s.shards,
      terminal_safe(s.folder), format_count(s.tokens_per_s));
}

std::string data_set_text(const record::DataSetContents& c, const TerminalOptions& options) {
  std::string text = fmt::format("{}: {} ids, vocabulary {}\n", terminal_safe(c.path),
                                 format_integer(c.ids), format_integer(c.vocab_size));
  if (c.documents > 0)
    text += fmt::format("{} documents of {} to {} ids, median {}\n", format_integer(c.documents),
                        format_integer(c.least_ids), format_integer(c.most_ids),
                        format_integer(c.median_ids));
  Table table("<shard | ids | documents | <XXH3-128");
  for (const record::DataSetContents::Shard& each : c.shards)
    table.add({terminal_safe(each.name), format_integer(each.ids), format_integer(each.documents),
               terminal_safe(each.hash)});
  if (table.rows() > 0) text += "\n" + table.text(options);
  if (c.checked) text += "\nAll hashes agree.\n";
  return text;
}

Json data_set_json(const record::DataSetContents& c) {
  Json all{
      {"ids", c.ids},
      {"vocab_size", c.vocab_size},
      {"documents", c.documents},
      {"document_ids", {{"least", c.least_ids}, {"median", c.median_ids}, {"most", c.most_ids}}},
      {"shards", value_json(c.shards)},
      {"checked", c.checked}};
  if (!c.origin.empty()) all["origin"] = Json::parse(c.origin);
  if (c.text) all["text"] = *c.text;
  return all;
}

std::string trained_text(const record::TrainedTokenizer& made,
                         int64_t wanted,
                         const TerminalOptions& options) {
  std::string text = fmt::format("Trained {} tokens ({} merges) on {} of text. Wrote to {}: {}.\n",
                                 format_integer(made.tokens), format_integer(made.merges),
                                 format_bytes(made.text_bytes), terminal_safe(made.folder),
                                 fmt::join(made.files, ", "));
  if (made.tokens < wanted)
    text += fmt::format(
        "These are fewer than the {} asked for, because the text has no more pairs to merge.\n",
        format_integer(wanted));
  return options.fit ? wrap_lines(text, options.columns) : text;
}

}  // namespace ridge::report
