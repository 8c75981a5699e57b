// SPDX-License-Identifier: Apache-2.0
// One row per shard.
#include "report/data_set_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "base/units.h"

namespace ridge::report {

using nlohmann::ordered_json;

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
  Table table({{"shard", Align::kLeft}, {"ids"}, {"documents"}, {"XXH3-128", Align::kLeft}});
  for (const record::DataSetContents::Shard& each : c.shards)
    table.add({terminal_safe(each.name), format_integer(each.ids), format_integer(each.documents),
               terminal_safe(each.hash)});
  if (table.rows() > 0) text += "\n" + table.text(options);
  if (c.checked) text += "\nAll hashes agree.\n";
  return text;
}

ordered_json data_set_json(const record::DataSetSummary& s) {
  return {{"folder", s.folder},        {"ids", s.ids},
          {"documents", s.documents},  {"shards", s.shards},
          {"id_bytes", s.id_bytes},    {"vocab_size", s.vocab_size},
          {"seconds", s.seconds},      {"tokens_per_s", s.tokens_per_s},
          {"read_bytes", s.read_bytes}};
}

ordered_json data_set_json(const record::DataSetContents& c) {
  ordered_json shards = ordered_json::array();
  for (const record::DataSetContents::Shard& each : c.shards)
    shards.push_back({{"name", each.name},
                      {"ids", each.ids},
                      {"documents", each.documents},
                      {"xxh128", each.hash}});
  ordered_json all{
      {"ids", c.ids},
      {"vocab_size", c.vocab_size},
      {"documents", c.documents},
      {"document_ids", {{"least", c.least_ids}, {"median", c.median_ids}, {"most", c.most_ids}}},
      {"shards", shards},
      {"checked", c.checked}};
  if (!c.origin.empty()) all["origin"] = ordered_json::parse(c.origin);
  if (c.text) all["text"] = *c.text;
  return all;
}

}  // namespace ridge::report
