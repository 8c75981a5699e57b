// SPDX-License-Identifier: Apache-2.0
// Addresses of operands, the traversal of the schedule, and bandwidths between measured footprints.
#include "cost/memory_time.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <set>
#include <tuple>

#include "base/error.h"
#include "cost/reuse.h"
#include "plan/addresses.h"

namespace ridge::cost {
namespace {

// A range that nodes access is tracked in about this many pieces, because distances matter by their
// logarithm: a piece's distance is wrong by at most its own size.
constexpr int64_t kPieces = 32;
// No piece is smaller, whatever it belongs to.
constexpr int64_t kSmallestPiece = plan::kStoredAlignment;

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

using Schedule = std::vector<std::vector<plan::Access>>;

// The memory of a schedule, cut where any access begins or ends and then into pieces that are small
// against each access of them.
class Pieces {
 public:
  explicit Pieces(const Schedule& schedule);
  int64_t count() const { return std::ssize(begins_) - 1; }
  // The first piece that begins at the address or later.
  size_t at(int64_t address) const {
    return static_cast<size_t>(std::ranges::lower_bound(begins_, address) - begins_.begin());
  }
  int64_t end(size_t piece) const { return begins_[piece + 1]; }

 private:
  std::vector<int64_t> begins_;  // Where each piece begins, and where the last one ends.
};

Pieces::Pieces(const Schedule& schedule) {
  for (const auto& accesses : schedule)
    for (const plan::Access& access : accesses)
      begins_.insert(begins_.end(), {access.begin, access.end});
  if (begins_.empty()) begins_.push_back(0);
  std::ranges::sort(begins_);
  begins_.erase(std::unique(begins_.begin(), begins_.end()), begins_.end());
  std::vector<int64_t> most(begins_.size(), INT64_MAX);  // bytes of a piece in each range
  for (const auto& accesses : schedule)
    for (const plan::Access& access : accesses) {
      const int64_t bytes = std::max((access.end - access.begin) / kPieces, kSmallestPiece);
      for (size_t i = at(access.begin); begins_[i] < access.end; ++i)
        most[i] = std::min(most[i], bytes);
    }
  std::vector<int64_t> cut;
  for (size_t i = 0; i + 1 < begins_.size(); ++i) {
    const int64_t bytes = begins_[i + 1] - begins_[i];
    // Memory that no access covers is one piece.
    const int64_t count = most[i] == INT64_MAX ? 1 : (bytes - 1) / most[i] + 1;
    for (int64_t piece = 0; piece < count; ++piece)
      cut.push_back(begins_[i] +
                    static_cast<int64_t>(static_cast<__int128>(bytes) * piece / count));
  }
  cut.push_back(begins_.back());
  begins_ = std::move(cut);
}

// Visits the operands of a node concurrently, as its kernel does: each operand's pieces in order,
// and next the one whose end is the smallest share of its operand.
template <typename Visit>
void visit_pieces(const std::vector<plan::Access>& accesses,
                  const Pieces& pieces,
                  const Visit& visit) {
  struct Way {
    double end_share = 0;  // The share of the operand that ends with the piece.
    size_t operand = 0;
    size_t piece = 0;
    int64_t moved = 0;  // The bytes in the pieces that were passed.
    bool operator>(const Way& other) const {
      return std::tie(end_share, operand) > std::tie(other.end_share, other.operand);
    }
  };
  const auto end_share = [&](const plan::Access& access, size_t piece) {
    return static_cast<double>(pieces.end(piece) - access.begin) /
           static_cast<double>(access.end - access.begin);
  };
  // A node of an optimizer has thousands of operands.
  std::priority_queue<Way, std::vector<Way>, std::greater<>> ways;
  for (size_t i = 0; i < accesses.size(); ++i) {
    const size_t first = pieces.at(accesses[i].begin);
    ways.push({end_share(accesses[i], first), i, first});
  }
  while (!ways.empty()) {
    Way next = ways.top();
    ways.pop();
    const plan::Access& access = accesses[next.operand];
    const int64_t end = pieces.end(next.piece);
    // Planned shapes may have so many bytes that their product with the extent is no int64_t.
    const auto moved = static_cast<int64_t>(static_cast<__int128>(end - access.begin) *
                                            access.bytes / (access.end - access.begin));
    visit(access, next.piece, moved - next.moved);
    if (end == access.end) continue;
    ++next.piece;
    next.moved = moved;
    next.end_share = end_share(access, next.piece);
    ways.push(next);
  }
}

int64_t touches_of(const Schedule& schedule, const Pieces& pieces) {
  int64_t touches = 0;
  for (const auto& accesses : schedule)
    for (const plan::Access& access : accesses)
      touches += static_cast<int64_t>(pieces.at(access.end) - pieces.at(access.begin));
  return touches;
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

// The time of a node whose bytes all take as long, wherever they come from.
MemoryTime flat_time(const std::vector<plan::Access>& accesses, const Bandwidth& bandwidth) {
  MemoryTime time;
  for (const plan::Access& access : accesses) {
    const double ns = static_cast<double>(access.bytes) * bandwidth.ns_per_byte(0, access.is_write);
    time.ns += ns;
    if (access.is_stored && !access.is_write) time.stored_share = 1, time.stored_ns += ns;
  }
  return time;
}

}  // namespace

std::vector<MemoryTime> memory_times(const CostedGraph& costed, const Ceilings& ceilings) {
  plan::Addresses addresses(costed);
  Bandwidth bandwidth(ceilings);
  Schedule schedule;
  for (size_t i = 0; i < costed.costs.size(); ++i)
    schedule.push_back(accesses_of(costed.graph.nodes[i], costed.costs[i], addresses));
  std::vector<MemoryTime> times(schedule.size());
  if (bandwidth.is_flat()) {
    for (size_t i = 0; i < schedule.size(); ++i) times[i] = flat_time(schedule[i], bandwidth);
    return times;
  }
  const Pieces pieces(schedule);
  ReuseClock clock(pieces.count(), 2 * touches_of(schedule, pieces));
  for (const std::vector<plan::Access>& accesses : schedule)
    visit_pieces(accesses, pieces, [&](const plan::Access&, size_t at, int64_t moved) {
      clock.warm_up(static_cast<int64_t>(at), moved);
    });
  std::vector<PieceUse> uses(static_cast<size_t>(pieces.count()));
  for (size_t i = 0; i < schedule.size(); ++i) {
    double ns = 0, stored_ns = 0, slowest_ns = 0, beyond_ns = 0;
    visit_pieces(schedule[i], pieces, [&](const plan::Access& access, size_t at, int64_t moved) {
      PieceUse& use = uses[at];
      int64_t distance = clock.touch(static_cast<int64_t>(at), moved);
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
    times[i] = {ns, slowest_ns > 0 ? std::min(1.0, stored_ns / slowest_ns) : 0, stored_ns,
                beyond_ns};
  }
  return times;
}

}  // namespace ridge::cost
