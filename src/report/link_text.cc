// SPDX-License-Identifier: Apache-2.0
// Formats measured links.
#include "report/link_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "report/line_chart.h"
#include "report/tables.h"

namespace ridge::report {

std::string links_text(std::span<const cost::LinkCurves> links,
                       bool verbose,
                       const TerminalOptions& terminal) {
  std::string text;
  for (const cost::LinkCurves& link : links) {
    Table table(fmt::format("<{} ranks, {} | message | time | bus bandwidth", link.ranks,
                            terminal_safe(link.link)));
    for (const cost::LinkCurve& curve : link.curves)
      for (const cost::LinkSample& each : curve.samples)
        if (verbose || &each == &curve.samples.front() || &each == &curve.samples.back())
          table.add({terminal_safe(curve.op), format_bytes(each.bytes), format_ns(each.ns),
                     rate_cell(each.bus_bytes_per_ns(), "B/s")});
    text += table.text(terminal) + "\n";
  }
  return text;
}

std::string links_chart(std::span<const cost::LinkCurves> links, const std::string& device) {
  nlohmann::json cases = nlohmann::json::array();
  for (const cost::LinkCurves& link : links)
    for (const cost::LinkCurve& curve : link.curves)
      for (const cost::LinkSample& each : curve.samples)
        cases.push_back({{"shape", {{"bytes", each.bytes}}},
                         {"form", fmt::format("{}, {} ranks", curve.op, link.ranks)},
                         {"median_ns", each.ns}});
  if (cases.empty())
    throw usage_error("[chart] expected measured links between ranks (--links), found none");
  const nlohmann::json bench = {{"kind", "links"},
                                {"result",
                                 {{"links", "links between ranks"},
                                  {"device", device},
                                  {"axis", "whole tensors"},
                                  {"cases", std::move(cases)}}}};
  return lines_chart({bench, "links"}, "bytes");
}

std::string ceilings_json(const cost::Ceilings& ceilings, std::span<const cost::LinkCurves> links) {
  const std::string text = cost::to_json(ceilings);
  if (links.empty()) return text;
  auto json = nlohmann::ordered_json::parse(text);
  json["link_curves"] =
      nlohmann::ordered_json::parse(cost::to_json(std::vector(links.begin(), links.end())))
          .at("links");
  return json.dump(1, ' ', true) + "\n";
}

}  // namespace ridge::report
