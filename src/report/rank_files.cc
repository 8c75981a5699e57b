// SPDX-License-Identifier: Apache-2.0
// Writes and reads ranks.json, and puts the traces of ranks in the place of the first rank's.
#include "report/rank_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "files/gzip_writer.h"
#include "files/json.h"
#include "report/kineto_trace.h"
#include "report/report_page.h"
#include "report/run_folder.h"

namespace ridge::report {
namespace {

using files::JsonField;

constexpr int kVersion = 1;
constexpr size_t kMostRanks = 4096;

Json lanes_json(const record::ExchangeRecord& exchange) {
  return json_list(exchange.lanes, [](const record::RankLane& lane) {
    Json slices = json_list(lane.slices, [](const record::RankLane::Slice& each) {
      return Json{each.op, each.begin_ns, each.end_ns};
    });
    return Json{{"rank", lane.rank}, {"ops", lane.ops}, {"slices", std::move(slices)}};
  });
}

// Counts and times, small enough that their sums cannot overflow.
void take(const JsonField& field, int64_t& value) {
  value = field.integer(0, 9'000'000'000'000'000);
}
void take(const JsonField& field, double& value) { value = field.real(); }
void take(const JsonField& field, std::string& value) { value = page_text(field); }

// Reads the figures of a record that are members.
template <record::HasFigures R>
void take(const JsonField& part, R& record) {
  figures(
      [&](const record::Figure& figure, auto&& value, auto...) {
        if constexpr (std::is_lvalue_reference_v<decltype(value)>)
          take(part.at(std::string(figure.key)), value);
      },
      record);
}

template <class R>
std::vector<R> read_list(const JsonField& list) {
  if (list.list().size() > kMostRanks)
    throw list.fault(fmt::format("at most {} elements", kMostRanks));
  std::vector<R> all;
  for (const JsonField& each : list.items()) take(each, all.emplace_back());
  return all;
}

record::RankLane read_lane(const JsonField& from) {
  record::RankLane lane;
  lane.rank = from.at("rank").integer(0);
  for (const JsonField& op : from.at("ops").items()) lane.ops.push_back(page_text(op));
  for (const JsonField& each : from.at("slices").items()) {
    if (each.list().size() != 3) throw each.fault("[op, begin_ns, end_ns]");
    const int64_t op = each.at(size_t{0}).integer(0, std::ssize(lane.ops) - 1);
    lane.slices.push_back({static_cast<size_t>(op), each.at(1).integer(), each.at(2).integer()});
  }
  return lane;
}

}  // namespace

std::string ranks_json(const record::ExchangeRecord& exchange) {
  Json json = {{"version", kVersion}};
  json.update(to_json(exchange));
  std::string text = json_text(json);
  text.erase(text.find_last_not_of("} \n") + 1);
  return text + ",\n  \"lanes\": " + json_line(lanes_json(exchange)) + "\n}\n";
}

std::vector<OutputFile> with_ranks(record::LabRecord& lab,
                                   const record::ExchangeRecord& exchange,
                                   const OutputFormat& format,
                                   std::vector<OutputFile> files) {
  if (exchange.ranks.empty()) return files;
  files.push_back({kRanksFile, ranks_json(exchange)});
  const std::string end = format.gzip ? ".json.gz" : ".json";
  const auto put = [&](const std::string& name, int64_t rank) {
    Trace trace = ranks_trace(lab, lab.runs[0], exchange.lanes, name, rank);
    if (!trace.warning.empty()) lab.warnings.push_back(trace.warning);
    std::string text = format.gzip ? files::gzip(trace.text) : std::move(trace.text);
    const auto known = std::ranges::find(files, name, &OutputFile::name);
    if (known == files.end())
      files.push_back({name, std::move(text)});
    else
      known->text = std::move(text);
  };
  if (!exchange.lanes.empty()) put("trace" + end, -1);
  for (int64_t rank = 0; rank < std::ssize(exchange.lanes); ++rank)
    put(fmt::format("ranks/trace-{}{}", rank, end), rank);
  const auto page = std::ranges::find(files, "report.html", &OutputFile::name);
  if (page != files.end()) *page = page_file(files);
  return files;
}

Json add_ranks(const std::optional<record::ExchangeRecord>& exchange, Json summary) {
  if (exchange) summary["ranks"] = to_json(*exchange);
  return summary;
}

record::ExchangeRecord read_exchange(const JsonField& document) {
  record::ExchangeRecord exchange;
  document.at("version").integer(kVersion, kVersion);
  exchange.clock = page_text(document.at("clock"));
  exchange.clock_error_ns = document.at("clock_error_ns").real();
  exchange.ranks = read_list<record::RankTimes>(document.at("ranks"));
  exchange.collectives = read_list<record::CollectiveTimes>(document.at("collectives"));
  if (document.has("lanes"))
    for (const JsonField& each : document.at("lanes").items())
      exchange.lanes.push_back(read_lane(each));
  return exchange;
}

std::optional<record::ExchangeRecord> read_exchange(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / kRanksFile, error)) return {};
  const nlohmann::json document = files::read_json(folder / kRanksFile);
  return read_exchange(JsonField(document, kRanksFile));
}

}  // namespace ridge::report
