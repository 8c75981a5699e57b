// SPDX-License-Identifier: Apache-2.0
// Addresses of operands, the traversal of the schedule, and bandwidths between measured footprints.
#include "cost/memory_time.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "cost/reuse.h"
#include "plan/addresses.h"

namespace ridge::cost {
namespace {

// Sizes of the pieces of memory that are tracked as one unit: small enough for vectors of a model's
// width, but large enough that a plan does not take seconds.
constexpr int64_t kSmallestPiece = plan::kStoredAlignment;
constexpr int64_t kMostTouches = 1 << 21;

// A write costs at least this share of a read of the same bytes. The write time is the copy's time
// less the read's, so it has the error of two measurements.
constexpr double kLeastWriteShare = 0.25;

// The accesses of a node, scaled to the bytes in its cost (a gather touches only part of its
// table).
std::vector<plan::Access> accesses_of(const Node& node,
                                      const NodeCost& cost,
                                      const plan::Addresses& addresses) {
  std::vector<plan::Access> all;
  if (cost.launches == 0) return all;
  int64_t reads = 0, writes = 0;
  std::set<ValueId> seen;
  for (ValueId input : node.inputs)
    if (seen.insert(input).second) all.push_back(addresses.access(input, false));
  for (ValueId output : node.outputs) all.push_back(addresses.access(output, true));
  for (const plan::Access& access : all) (access.is_write ? writes : reads) += access.bytes;
  for (plan::Access& access : all) {
    int64_t whole = access.is_write ? writes : reads,
            moved = access.is_write ? cost.written_bytes : cost.read_bytes;
    double share = whole > 0 ? static_cast<double>(moved) / static_cast<double>(whole) : 0;
    access.bytes = static_cast<int64_t>(std::llround(share * static_cast<double>(access.bytes)));
  }
  std::erase_if(all, [](const plan::Access& access) { return access.bytes == 0; });
  return all;
}

int64_t pieces_of(const plan::Access& access, int64_t piece_bytes) {
  return (access.end - 1) / piece_bytes - access.begin / piece_bytes + 1;
}

// Visits the operands of a node concurrently, as its kernel does: the i-th share of each operand,
// then the next.
template <typename Visit>
void visit_pieces(const std::vector<plan::Access>& accesses,
                  int64_t piece_bytes,
                  const Visit& visit) {
  struct Way {
    int64_t pieces = 0, passed = 0;
    int64_t moved = 0;  // bytes in the pieces that were passed
  };
  std::vector<Way> ways;
  int64_t most = 0;
  for (const plan::Access& access : accesses) {
    ways.push_back({pieces_of(access, piece_bytes)});
    most = std::max(most, ways.back().pieces);
  }
  for (int64_t step = 1; step <= most; ++step)
    for (size_t i = 0; i < ways.size(); ++i) {
      const plan::Access& access = accesses[i];
      Way& way = ways[i];
      const int64_t end = way.pieces == most ? step : step * way.pieces / most;
      while (way.passed < end) {
        const int64_t piece = access.begin / piece_bytes + way.passed++;
        // Planned shapes may have so many bytes that their product with the pieces is no int64_t.
        const auto moved =
            static_cast<int64_t>(static_cast<__int128>(way.passed) * access.bytes / way.pieces);
        visit(access, piece, moved - way.moved);
        way.moved = moved;
      }
    }
}

int64_t choose_piece(const std::vector<std::vector<plan::Access>>& schedule) {
  for (int64_t piece = kSmallestPiece;; piece *= 2) {
    int64_t touches = 0;
    for (const auto& accesses : schedule)
      for (const plan::Access& access : accesses) touches += pieces_of(access, piece);
    if (touches <= kMostTouches || piece > (int64_t{1} << 40)) return piece;
  }
}

}  // namespace

Bandwidth::Bandwidth(const Ceilings& ceilings) {
  for (const BandwidthPoint& p : ceilings.bandwidth) {
    double read = 1 / p.read_bytes_per_ns;
    double write = std::max(2 / p.copy_bytes_per_ns - read, kLeastWriteShare * read);
    points_.push_back({std::log2(static_cast<double>(p.footprint_bytes)), read, write});
  }
  const size_t levels = ceilings.levels.size();
  if (levels > 1) cached_bytes_ = ceilings.levels[levels - 2].capacity_bytes / 2;
}

double Bandwidth::ns_beyond_caches(int64_t distance_bytes, bool is_write) const {
  if (cached_bytes_ == 0 || distance_bytes <= cached_bytes_) return 0;
  return std::max(0.0,
                  ns_per_byte(distance_bytes, is_write) - ns_per_byte(cached_bytes_, is_write));
}

double Bandwidth::ns_per_byte(int64_t distance_bytes, bool is_write) const {
  double Point::*member = is_write ? &Point::write_ns_per_byte : &Point::read_ns_per_byte;
  double at = std::log2(static_cast<double>(std::max<int64_t>(distance_bytes, 1)));
  if (at <= points_.front().log_footprint) return points_.front().*member;
  for (size_t i = 1; i < points_.size(); ++i) {
    const Point &low = points_[i - 1], &high = points_[i];
    if (at > high.log_footprint) continue;
    double share = (at - low.log_footprint) / (high.log_footprint - low.log_footprint);
    return low.*member + share * (high.*member - low.*member);
  }
  return points_.back().*member;
}

namespace {

// A write to a piece that the same node has read is an update in place, so it takes the read's
// distance.
struct PieceUse {
  NodeId reader = kNoNode;
  int64_t read_distance_bytes = 0;  // distance of that read
};

}  // namespace

std::vector<MemoryTime> memory_times(const CostedGraph& costed, const Ceilings& ceilings) {
  plan::Addresses addresses(costed);
  std::vector<std::vector<plan::Access>> schedule;
  for (size_t i = 0; i < costed.costs.size(); ++i)
    schedule.push_back(accesses_of(costed.graph.nodes[i], costed.costs[i], addresses));
  int64_t piece = choose_piece(schedule), touches = 0;
  for (const auto& accesses : schedule)
    for (const plan::Access& access : accesses) touches += pieces_of(access, piece);
  size_t pieces = static_cast<size_t>(addresses.end() / piece + 1);
  ReuseClock clock(static_cast<int64_t>(pieces), 2 * touches);
  std::vector<PieceUse> uses(pieces);
  Bandwidth bandwidth(ceilings);
  std::vector<MemoryTime> times(schedule.size());
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < schedule.size(); ++i) {
      double ns = 0, stored_ns = 0, slowest_ns = 0, beyond_ns = 0;
      visit_pieces(schedule[i], piece, [&](const plan::Access& access, int64_t at, int64_t moved) {
        PieceUse& use = uses[static_cast<size_t>(at)];
        int64_t distance = clock.touch(at, moved);
        if (access.is_write && use.reader == static_cast<NodeId>(i))
          distance = use.read_distance_bytes;
        if (!access.is_write) use = {static_cast<NodeId>(i), distance};
        const double bytes = static_cast<double>(moved);
        const double here = bytes * bandwidth.ns_per_byte(distance, access.is_write);
        ns += here;
        beyond_ns += bytes * bandwidth.ns_beyond_caches(distance, access.is_write);
        if (access.is_write || !access.is_stored) return;
        stored_ns += here;
        slowest_ns += bytes * bandwidth.slowest_read();
      });
      times[i] = {ns, slowest_ns > 0 ? std::min(1.0, stored_ns / slowest_ns) : 0, beyond_ns};
    }
  return times;
}

}  // namespace ridge::cost
