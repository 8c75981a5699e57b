// SPDX-License-Identifier: Apache-2.0
// Writes and reads the rings of ranks, and compares them number by number.
#include "record/rank_ring.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "files/json_field.h"
#include "plan/collectives.h"

namespace ridge::record {
namespace {

using Json = nlohmann::ordered_json;
using files::JsonField;

constexpr int kVersion = 1;
constexpr const char *kBegin = "rank-", *kEnd = ".json";

Json collective_json(const RingedCollective& c) {
  return {{"number", c.number},
          {"group", c.group},
          {"graph", c.graph},
          {"node", c.node},
          {"op", c.op},
          {"scope", c.scope},
          {"bytes", c.bytes},
          {"begin_s", c.begin_s},
          {"end_s", c.is_waiting() ? Json("waiting") : Json(c.end_s)},
          {"finite", c.is_finite}};
}

RingedCollective read_collective(const JsonField& r) {
  RingedCollective c;
  c.number = r.at("number").integer(0), c.node = r.at("node").integer(-1);
  c.group = r.at("group").text(), c.graph = r.at("graph").text();
  c.op = r.at("op").text(), c.scope = r.at("scope").text();
  c.bytes = r.at("bytes").integer(0), c.begin_s = r.at("begin_s").real();
  c.end_s = r.at("end_s").value().is_string() ? 0 : r.at("end_s").real();
  c.is_finite = r.at("finite").flag();
  return c;
}

RankRing read_ring(const std::filesystem::path& path) {
  const nlohmann::json document = files::read_json(path);
  const JsonField r(document, path.filename().string());
  r.at("version").integer(kVersion, kVersion);
  RankRing ring;
  ring.job = r.at("job").text(), ring.host = r.at("host").text();
  ring.ranks = r.at("ranks").integer(1), ring.rank = r.at("rank").integer(0, ring.ranks - 1);
  ring.process = r.at("process").integer(0), ring.at_s = r.at("at_s").real();
  ring.state = r.at("state").text(), ring.error = r.at("error").text();
  for (const auto& [group, first] : r.at("groups").object().items())
    ring.groups[group] = JsonField(first, r.place() + ": groups").integer(0);
  for (const JsonField& each : r.at("collectives").items())
    ring.collectives.push_back(read_collective(each));
  return ring;
}

// All that must be equal on every rank. What one rank sends the other receives, in another graph.
auto identity(const RingedCollective& c) {
  const std::string_view op = plan::met_op(c.op);
  return std::tuple(op, std::string_view(c.graph), std::string_view(c.scope),
                    op.empty() ? 0 : c.node, c.bytes);
}

// The ranks of one group, and the collectives of each in it.
struct Group {
  std::vector<const RankRing*> ranks;
  std::vector<std::vector<const RingedCollective*>> collectives;

  static const RingedCollective* find(const std::vector<const RingedCollective*>& of,
                                      int64_t number) {
    const auto found = std::ranges::lower_bound(of, number, {}, &RingedCollective::number);
    return found != of.end() && (*found)->number == number ? *found : nullptr;
  }
  // The first one in which two ranks differ.
  std::optional<int64_t> mismatch() const {
    for (const RingedCollective* each : collectives[0])
      for (const auto& other : collectives)
        if (const RingedCollective* same = find(other, each->number);
            same != nullptr && identity(*same) != identity(*each))
          return each->number;
    return {};
  }
  // The first one in which a rank waits.
  const RingedCollective* waiting() const {
    const RingedCollective* first = nullptr;
    for (const auto& of : collectives)
      for (const RingedCollective* each : of)
        if (each->is_waiting() && (first == nullptr || each->number < first->number)) first = each;
    return first;
  }
};

std::vector<Group> groups_of(std::span<const RankRing> rings) {
  std::map<std::pair<std::string, int64_t>, Group> groups;
  for (const RankRing& ring : rings) {
    std::map<std::string_view, Group*> own;
    for (const auto& [name, first] : ring.groups) {
      Group& group = *(own[name] = &groups[{name, first}]);
      group.ranks.push_back(&ring);
      group.collectives.emplace_back();
    }
    for (const RingedCollective& each : ring.collectives)
      if (const auto group = own.find(each.group); group != own.end())
        group->second->collectives.back().push_back(&each);
  }
  std::vector<Group> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

RankAtHang at_hang(const RankRing& ring,
                   const std::vector<const RingedCollective*>& own,
                   int64_t number) {
  RankAtHang at;
  at.rank = ring;
  at.rank.collectives.clear();
  const RingedCollective* same = Group::find(own, number);
  at.has_arrived = same != nullptr;
  if (same == nullptr && !own.empty()) same = own.back();
  if (same != nullptr) at.own = *same;
  at.waited_s = ring.at_s - (at.has_arrived ? at.own.begin_s : at.own.end_s);
  return at;
}

Hang describe(Hang::Kind kind, const Group& group, int64_t number) {
  Hang hang{.kind = kind};
  bool is_found = false;
  for (size_t i = 0; i < group.ranks.size(); ++i) {
    const RankAtHang& at =
        hang.ranks.emplace_back(at_hang(*group.ranks[i], group.collectives[i], number));
    if (!is_found && at.has_arrived) hang.collective = at.own, is_found = true;
    if (!at.has_arrived && kind == Hang::Kind::kUnfinished) hang.kind = Hang::Kind::kAbsent;
  }
  return hang;
}

// Values that are not finite spread to all ranks by the exchange that first has one.
std::string first_not_finite(std::span<const RankRing> rings) {
  std::vector<int64_t> ranks;
  const RingedCollective* first = nullptr;
  for (const RankRing& ring : rings)
    for (const RingedCollective& each : ring.collectives) {
      if (each.is_finite || (first != nullptr && each.number > first->number)) continue;
      if (first == nullptr || each.number < first->number) ranks.clear();
      first = &each;
      ranks.push_back(ring.rank);
    }
  if (first == nullptr) return "";
  return fmt::format("rank {} was the first with a value that is not finite, in collective {}: {}",
                     fmt::join(ranks, ", "), first->number, first->str());
}

bool takes_part(const RankAtHang& at) { return at.has_arrived && at.rank.state == "runs"; }

std::string waits(const std::vector<RankAtHang>& ranks) {
  std::vector<std::string> all;
  for (const RankAtHang& each : ranks)
    if (takes_part(each))
      all.push_back(fmt::format("rank {} has waited {:.1f} s", each.rank.rank, each.waited_s));
  return fmt::format("{}", fmt::join(all, ", "));
}

// Those that keep the others waiting: they have not arrived, or they do not run.
std::string absences(const std::vector<RankAtHang>& ranks) {
  std::vector<std::string> all;
  for (const RankAtHang& each : ranks) {
    if (takes_part(each)) continue;
    const std::string last =
        each.own.op.empty()
            ? " in any"
            : fmt::format(" (its last one is {}, {:.1f} s ago)", each.own.number, each.waited_s);
    all.push_back(each.rank.str() +
                  (each.has_arrived ? " does not go on" : " has not arrived" + last));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

std::string RingedCollective::str() const {
  if (node < 0) return fmt::format("{} of the hosts", op);
  return fmt::format("{} of {} (node {} of {}, {})", op, scope, node, graph, format_bytes(bytes));
}

std::string RankRing::str() const {
  return fmt::format("rank {} (process {} on {}, {})", rank, process, host, state);
}

void write_ring(const std::filesystem::path& folder, const RankRing& ring) {
  Json collectives = Json::array();
  for (const RingedCollective& each : ring.collectives)
    collectives.push_back(collective_json(each));
  const Json document = {{"version", kVersion},
                         {"job", ring.job},
                         {"rank", ring.rank},
                         {"ranks", ring.ranks},
                         {"host", ring.host},
                         {"process", ring.process},
                         {"state", ring.state},
                         {"error", ring.error},
                         {"at_s", ring.at_s},
                         {"groups", Json(ring.groups)},
                         {"collectives", std::move(collectives)}};
  files::write_file(folder / fmt::format("{}{}{}", kBegin, ring.rank, kEnd),
                    files::written_json(document), files::Links::kReplace);
}

std::vector<RankRing> read_rings(const std::filesystem::path& folder) {
  std::vector<std::pair<std::filesystem::file_time_type, RankRing>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    std::error_code ignored;  // reading the file says more
    if (name.starts_with(kBegin) && name.ends_with(kEnd))
      found.emplace_back(each->last_write_time(ignored), read_ring(each->path()));
  }
  if (found.empty())
    throw file_error("[hang] expected rank-0.json and others in {}, found none", folder.string());
  const std::string job =
      std::ranges::max_element(found, {}, [](auto& f) { return f.first; })->second.job;
  std::vector<RankRing> rings;
  for (auto& [when, ring] : found)
    if (ring.job == job) rings.push_back(std::move(ring));
  std::ranges::sort(rings, {}, &RankRing::rank);
  return rings;
}

std::string_view name(Hang::Kind kind) {
  constexpr std::string_view kNames[] = {"none", "mismatch", "absent", "unfinished"};
  return kNames[static_cast<size_t>(kind)];
}

Hang find_hang(std::span<const RankRing> rings) {
  const std::vector<Group> groups = groups_of(rings);
  Hang hang;
  for (const Group& each : groups)
    if (const auto number = each.mismatch(); number && hang.kind == Hang::Kind::kNone)
      hang = describe(Hang::Kind::kMismatch, each, *number);
  if (hang.kind == Hang::Kind::kNone) {
    const Group* of = nullptr;
    const RingedCollective* first = nullptr;
    for (const Group& each : groups)
      if (const RingedCollective* own = each.waiting();
          own != nullptr && (first == nullptr || own->begin_s < first->begin_s))
        of = &each, first = own;
    if (first != nullptr) hang = describe(Hang::Kind::kUnfinished, *of, first->number);
  }
  // Nobody waits: the last collective of each.
  if (hang.kind == Hang::Kind::kNone && !groups.empty())
    hang.ranks = describe(hang.kind, groups[0], INT64_MAX).ranks;
  hang.not_finite = first_not_finite(rings);
  return hang;
}

std::string Hang::str() const {
  const std::string which = fmt::format("collective {} of group {}: {}", collective.number,
                                        collective.group, collective.str());
  std::vector<std::string> parts;
  if (kind == Kind::kNone) {
    std::vector<std::string> last;
    for (const RankAtHang& each : ranks)
      last.push_back(each.own.op.empty()
                         ? each.rank.str() + " has none yet"
                         : fmt::format("{} ended collective {} {:.1f} s ago: {}", each.rank.str(),
                                       each.own.number, each.waited_s, each.own.str()));
    parts = {fmt::format("no rank waits in a collective; {}", fmt::join(last, ", "))};
  } else if (kind == Kind::kMismatch) {
    for (const RankAtHang& each : ranks)
      if (each.has_arrived && identity(each.own) != identity(collective)) {
        parts = {fmt::format("the ranks differ in {}, but {} has {}", which, each.rank.str(),
                             each.own.str())};
        break;
      }
  } else {
    const std::string absent = absences(ranks);
    parts = {absent.empty() ? "all ranks have arrived in " + which : absent + " in " + which};
    if (const std::string others = waits(ranks); !others.empty()) parts.push_back(others);
  }
  if (!not_finite.empty()) parts.push_back(not_finite);
  return fmt::format("{}", fmt::join(parts, "; "));
}

nlohmann::ordered_json hang_json(const Hang& hang) {
  Json ranks = Json::array();
  for (const RankAtHang& each : hang.ranks)
    ranks.push_back({{"rank", each.rank.rank},
                     {"host", each.rank.host},
                     {"process", each.rank.process},
                     {"state", each.rank.state},
                     {"error", each.rank.error},
                     {"arrived", each.has_arrived},
                     {"waited_s", each.waited_s},
                     {"collective", collective_json(each.own)}});
  return {{"kind", name(hang.kind)},
          {"sentence", hang.str()},
          {"collective", collective_json(hang.collective)},
          {"ranks", std::move(ranks)}};
}

}  // namespace ridge::record
