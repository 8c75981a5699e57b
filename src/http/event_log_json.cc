// SPDX-License-Identifier: Apache-2.0
// Steps as rows of columns, to keep what a page asks for twice a second small.
#include "http/event_log_json.h"

#include <cmath>
#include <optional>

#include "base/clock.h"
#include "http/json_text.h"
#include "report/chart_model.h"
#include "record/run_record.h"
#include "report/json_text.h"

namespace ridge::http {
namespace {

using Json = nlohmann::ordered_json;
using serve::EventLog;
using serve::LoggedRequest;
using serve::LoggedStep;

constexpr size_t kMostSteps = 512;  // in one reply

constexpr const char* kStages[] = {"queued", "prefill", "decode"};
constexpr const char* kStates[serve::kBlockStates] = {"free", "cached", "used", "shared"};
constexpr char kCells[] = ".cus";

class Writer {
 public:
  explicit Writer(const EventLog::Snapshot& log) : log_(log) {}

  Json json() const {
    Json made{{"event", log_.event}, {"now_ns", at(now_ns())}};
    made["steps"] = {
        {"columns",
         {"number", "begin_ns", "end_ns", "sequences", "decode_tokens", "prefill_tokens",
          "model_flops", "executed_flops", "read_bytes", "written_bytes", "product_type"}}};
    Json& rows = made["steps"]["rows"] = Json::array();
    for (const LoggedStep& each : log_.steps)
      rows.push_back({each.number, at(each.begin_ns), at(each.end_ns), each.sequences,
                      each.decode_tokens, each.prefill_tokens, each.cost.model.flops,
                      each.cost.executed_flops, each.cost.read_bytes, each.cost.written_bytes,
                      name(each.product_type)});
    made["requests"] = Json::array();
    for (const LoggedRequest& each : log_.requests) made["requests"].push_back(request(each));
    made["blocks"] = blocks();
    return made;
  }

 private:
  int64_t at(double ns) const { return std::llround(ns - log_.origin_ns); }
  Json known(double ns) const { return ns > 0 ? Json(at(ns)) : Json(); }

  Json request(const LoggedRequest& r) const {
    Json stages = Json::array();
    for (const LoggedRequest::StageBegin& each : r.reached())
      stages.push_back({kStages[static_cast<size_t>(each.stage)], at(each.begin_ns)});
    return {{"id", r.id},
            {"prompt_tokens", r.prompt_tokens},
            {"cached_tokens", r.cached_tokens},
            {"generated_tokens", r.generated_tokens},
            {"stages", std::move(stages)},
            {"first_ns", known(r.first_ns)},
            {"last_ns", known(r.last_ns)},
            {"end_ns", known(r.end_ns)},
            {"finish_reason", r.end_ns > 0 ? Json(serve::finish_name(r.finish)) : Json()}};
  }

  Json blocks() const {
    const serve::BlockMap& map = log_.blocks;
    Json made{{"blocks", map.blocks}, {"blocks_per_cell", map.blocks_per_cell}};
    for (size_t i = 0; i < serve::kBlockStates; ++i) made[kStates[i]] = map.counts[i];
    std::string cells;
    for (serve::BlockState each : map.cells) cells += kCells[static_cast<size_t>(each)];
    made["cells"] = std::move(cells);
    return made;
  }

  const EventLog::Snapshot& log_;
};

Json constants(const ServedModel& model) {
  const cost::Ceilings* ceilings = model.engine.options().ceilings.get();
  return {{"model", model.name()},
          {"has_chat", model.bounds.chat.has_value()},
          {"context", model.bounds.context},
          {"slots", model.engine.session_options().slots},
          {"block_tokens", models::kBlockTokens},
          {"roofs", ceilings != nullptr ? Json(report::rooflines_json(*ceilings)) : Json()}};
}

// Why the last steps read faster than memory delivers; empty if they did not.
std::string mbu_reason(const ServedModel& model, const LoggedStep& last) {
  const cost::Ceilings* ceilings = model.engine.options().ceilings.get();
  const std::optional<double> mbu = model.engine.counts().mbu;
  if (ceilings == nullptr || !mbu) return "";
  return record::over_memory_reason(*mbu, last.cost.needed_bytes, *ceilings);
}

}  // namespace

std::string event_log_json(const ServedModel& model, int64_t after) {
  const EventLog::Snapshot log = model.engine.event_log().since(after, kMostSteps);
  Json made = Writer(log).json();
  if (!log.steps.empty()) made["mbu_reason"] = mbu_reason(model, log.steps.back());
  if (after == 0) made["server"] = constants(model);
  return json_text(made);
}

}  // namespace ridge::http
