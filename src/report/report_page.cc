// SPDX-License-Identifier: Apache-2.0
// Puts the documents into the page.
#include "report/report_page.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "cost/hardware.h"
#include "report/figure_list.h"
#include "report/json_text.h"

namespace ridge::report {
namespace {

// Roofs of other machines by their data sheets, to lay over a roofline.
Json sheets() {
  return json_list(cost::hardware_table(), [](const cost::Hardware& each) {
    Json peaks = Json::object();
    for (const cost::PeakRate& peak : each.peaks)
      peaks[std::string(name(peak.dtype))] = peak.tera_flops * 1e12;
    if (each.tf32_tera_flops > 0) peaks["tf32"] = each.tf32_tera_flops * 1e12;
    return Json{{"name", each.name},
                {"title", each.title},
                {"bytes_per_s", each.memory_tera_bytes * 1e12},
                {"vector_flops_per_s", each.vector_tera_flops * 1e12},
                {"peak_flops_per_s", std::move(peaks)},
                {"source", each.source}};
  });
}

// JSON without the characters that HTML gives a meaning. They occur only in strings.
std::string inert(const std::string& json) {
  std::string text;
  text.reserve(json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&')
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      text += c;
  }
  return text;
}

std::string data(std::span<const RunFolder> folders, const DocumentLimits& limits) {
  Json document = {{"version", 1},
                   {"figures", figures_json()},
                   {"hardware", sheets()},
                   {"folders", Json::array()}};
  for (const RunFolder& folder : folders)
    document["folders"].push_back(Json(folder_document(folder, limits)));
  return inert(json_line(document));
}

}  // namespace

std::string report_page(std::span<const RunFolder> folders, int64_t cap_bytes) {
  constexpr int kHalvings = 17;  // until one of each is left
  DocumentLimits limits;
  const size_t mark = kPageTemplate.find(kDataMark);
  RIDGE_CHECK(mark != std::string_view::npos, "the page has no {}", kDataMark);
  for (int i = 0; i <= kHalvings; ++i) {
    std::string text(kPageTemplate);
    text.replace(mark, kDataMark.size(), data(folders, limits));
    if (static_cast<int64_t>(text.size()) <= cap_bytes) return text;
    for (size_t* limit : {&limits.kernels, &limits.spans, &limits.memory_points, &limits.samples})
      *limit = (*limit + 1) / 2;
  }
  throw runtime_error("[report] the tables of these runs take more than the {} of a page",
                      format_bytes(cap_bytes));
}

OutputFile page_file(std::span<const OutputFile> files) {
  const RunFolder folder = run_folder(files);
  return {"report.html", report_page(std::span(&folder, 1))};
}

}  // namespace ridge::report
