// SPDX-License-Identifier: Apache-2.0
// Fits a law to measured collectives, and writes and reads them.
#include "cost/link_curves.h"

#include <utility>

#include "base/error.h"
#include "cost/relative_fit.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::cost {
namespace {

using files::JsonField;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr size_t kMost = 4096;
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr double kMostNs = 1e15;
constexpr double kLeastByteNs = 1e-9;  // a rate is never infinite

std::vector<JsonField> elements(const JsonField& list) {
  if (list.list().empty() || list.list().size() > kMost)
    throw list.fault(fmt::format("1 to {} elements", kMost));
  return list.items();
}

LinkSample read_sample(const JsonField& from, int64_t before) {
  LinkSample sample{from.at("bytes").integer(before + 1, kMostBytes),
                    from.at("sent_bytes").integer(0, kMostBytes), from.at("ns").real()};
  if (!(sample.ns > 0 && sample.ns < kMostNs)) throw from.at("ns").fault("a time above 0");
  return sample;
}

LinkCurves read_link(const JsonField& from) {
  constexpr int64_t kMostRanks = 1 << 20;
  LinkCurves link{from.at("link").text(), from.at("ranks").integer(2, kMostRanks), {}, {}};
  link.measured_at = from.at("measured_at").text();
  for (const JsonField& c : elements(from.at("curves"))) {
    LinkCurve& curve = link.curves.emplace_back(LinkCurve{c.at("op").text(), {}});
    for (const JsonField& each : elements(c.at("samples")))
      curve.samples.push_back(
          read_sample(each, curve.samples.empty() ? 0 : curve.samples.back().bytes));
  }
  return link;
}

Json link_json(const LinkCurves& link) {
  Json json{{"link", link.link},
            {"ranks", link.ranks},
            {"measured_at", link.measured_at},
            {"curves", Json::array()}};
  for (const LinkCurve& curve : link.curves) {
    Json samples = Json::array();
    for (const LinkSample& each : curve.samples)
      samples.push_back({{"bytes", each.bytes}, {"sent_bytes", each.sent_bytes}, {"ns", each.ns}});
    json["curves"].push_back({{"op", curve.op}, {"samples", std::move(samples)}});
  }
  return json;
}

}  // namespace

LinkRates LinkCurves::rates() const {
  std::vector<TimedTerms<2>> samples;
  for (const LinkCurve& curve : curves)
    for (const LinkSample& each : curve.samples)
      samples.push_back({{1, static_cast<double>(each.sent_bytes)}, each.ns});
  const auto [call_ns, byte_ns] = fit_relative(std::move(samples));
  return {link, ranks, 1 / std::max(byte_ns, kLeastByteNs), call_ns};
}

std::string to_json(const std::vector<LinkCurves>& links) {
  Json json{{"format", kFormat}, {"links", Json::array()}};
  for (const LinkCurves& each : links) json["links"].push_back(link_json(each));
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::vector<LinkCurves> link_curves_from_json(std::string_view text, std::string_view origin) {
  const nlohmann::json json = files::parse_json(text, origin);
  const JsonField root(json, std::string(origin));
  root.at("format").integer(kFormat, kFormat);
  std::vector<LinkCurves> links;
  for (const JsonField& each : root.at("links").items()) links.push_back(read_link(each));
  return links;
}

}  // namespace ridge::cost
