// SPDX-License-Identifier: Apache-2.0
// Addresses of operands, the traversal of the schedule, and bandwidths between measured footprints.
#include "cost/memory_time.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

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
  size_t count() const { return begins_.size() - 1; }
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

// All touches of pieces in a run of the schedule.
struct Run {
  std::vector<Touch> touches;
  std::vector<const plan::Access*> accesses;  // the one that each touch is part of
  std::vector<size_t> ends;                   // per node: where its touches end
  size_t pieces = 0;
};

// A kernel's way through one of its operands.
struct Way {
  const plan::Access* access = nullptr;
  size_t piece = 0;
  int64_t moved = 0;     // The bytes in the pieces that were passed.
  double end_share = 0;  // The share of the operand that ends with the piece.

  void measure(const Pieces& pieces) {
    end_share = static_cast<double>(pieces.end(piece) - access->begin) /
                static_cast<double>(access->end - access->begin);
  }
  bool operator<(const Way& other) const {
    return std::tie(end_share, access) < std::tie(other.end_share, other.access);
  }
};

// Restores the order of a heap with the least in front, after its front has changed.
void sink_front(std::vector<Way>& heap) {
  for (size_t at = 0, child = 1; child < heap.size(); at = child, child = 2 * at + 1) {
    if (child + 1 < heap.size() && heap[child + 1] < heap[child]) ++child;
    if (!(heap[child] < heap[at])) return;
    std::swap(heap[at], heap[child]);
  }
}

// Appends the touches of a node, whose kernel reads and writes its operands concurrently: each
// operand's pieces in order, and next the one whose end is the smallest share of its operand.
void append_touches(const std::vector<plan::Access>& accesses, const Pieces& pieces, Run& run) {
  std::vector<Way> ways;  // a heap, because a node of an optimizer has thousands of operands
  for (const plan::Access& each : accesses) {
    ways.push_back({&each, pieces.at(each.begin)});
    ways.back().measure(pieces);
  }
  std::ranges::sort(ways, std::less<>());
  while (!ways.empty()) {
    Way& next = ways.front();
    const plan::Access& access = *next.access;
    const int64_t end = pieces.end(next.piece);
    // Planned shapes may have so many bytes that their product with the extent is no int64_t.
    const auto moved = static_cast<int64_t>(static_cast<__int128>(end - access.begin) *
                                            access.bytes / (access.end - access.begin));
    run.touches.push_back({next.piece, moved - next.moved});
    run.accesses.push_back(&access);
    if (end == access.end) {
      next = ways.back();
      ways.pop_back();
    } else {
      ++next.piece;
      next.moved = moved;
      next.measure(pieces);
    }
    sink_front(ways);
  }
}

Run run_of(const Schedule& schedule) {
  const Pieces pieces(schedule);
  Run run;
  run.pieces = pieces.count();
  for (const std::vector<plan::Access>& accesses : schedule) {
    append_touches(accesses, pieces, run);
    run.ends.push_back(run.touches.size());
  }
  return run;
}

}  // namespace

Bandwidth::Bandwidth(const Ceilings& ceilings) {
  for (const BandwidthPoint& p : ceilings.bandwidth) {
    double read = 1 / p.read_bytes_per_ns;
    double write = std::max(2 / p.copy_bytes_per_ns - read, kLeastWriteShare * read);
    points_.push_back(
        {p.footprint_bytes, std::log2(static_cast<double>(p.footprint_bytes)), read, write});
  }
  const size_t levels = ceilings.levels.size();
  if (levels <= 1) return;
  cached_bytes_ = ceilings.levels[levels - 2].capacity_bytes / 2;
  cached_read_ns_ = ns_per_byte(cached_bytes_, false);
  cached_write_ns_ = ns_per_byte(cached_bytes_, true);
}

ByteTime Bandwidth::byte_time(int64_t distance_bytes, bool is_write) const {
  const double ns = ns_per_byte(distance_bytes, is_write);
  if (cached_bytes_ == 0 || distance_bytes <= cached_bytes_) return {ns, 0};
  return {ns, std::max(0.0, ns - (is_write ? cached_write_ns_ : cached_read_ns_))};
}

double Bandwidth::ns_per_byte(int64_t distance_bytes, bool is_write) const {
  double Point::*member = is_write ? &Point::write_ns_per_byte : &Point::read_ns_per_byte;
  if (distance_bytes <= points_.front().footprint_bytes) return points_.front().*member;
  if (distance_bytes > points_.back().footprint_bytes) return points_.back().*member;
  const auto high = std::ranges::lower_bound(points_, distance_bytes, {}, &Point::footprint_bytes);
  const auto low = std::prev(high);
  const double at = std::log2(static_cast<double>(distance_bytes));
  const double share = (at - low->log_footprint) / (high->log_footprint - low->log_footprint);
  return (*low).*member + share * ((*high).*member - (*low).*member);
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
    const double ns =
        static_cast<double>(access.bytes) * bandwidth.byte_time(0, access.is_write).ns;
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
  const Run run = run_of(schedule);
  const std::vector<int64_t> distances = reuse_distances(run.touches);
  std::vector<PieceUse> uses(run.pieces);
  for (size_t i = 0, at = 0; i < schedule.size(); ++i) {
    double ns = 0, stored_ns = 0, slowest_ns = 0, beyond_ns = 0;
    for (; at < run.ends[i]; ++at) {
      const plan::Access& access = *run.accesses[at];
      PieceUse& use = uses[run.touches[at].piece];
      int64_t distance = distances[at];
      if (access.is_write && use.reader == static_cast<NodeId>(i))
        distance = use.read_distance_bytes;
      if (!access.is_write) use = {static_cast<NodeId>(i), distance};
      const double bytes = static_cast<double>(run.touches[at].bytes);
      const ByteTime time = bandwidth.byte_time(distance, access.is_write);
      ns += bytes * time.ns;
      beyond_ns += bytes * time.beyond_caches_ns;
      if (access.is_write || !access.is_stored) continue;
      stored_ns += bytes * time.ns;
      slowest_ns += bytes * bandwidth.slowest_read();
    }
    times[i] = {ns, slowest_ns > 0 ? std::min(1.0, stored_ns / slowest_ns) : 0, stored_ns,
                beyond_ns};
  }
  return times;
}

}  // namespace ridge::cost
