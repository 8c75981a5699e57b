// SPDX-License-Identifier: Apache-2.0
// The exchanges of the ranks of a run: the times of each rank and of each kind of collective, and
// the lanes of a timeline. It is a plain record, which rank_times.h makes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/figures.h"

namespace ridge::record {

// Sums over the steps.
struct RankTimes {
  int64_t rank = 0, steps = 0, step_ns = 0;
  int64_t communication_ns = 0;  // kernels of collectives
  int64_t overlapped_ns = 0;     // the part of it during which other kernels run
  int64_t waiting_ns = 0;        // the part of it until the last rank had arrived
  int64_t late_ns = 0;           // after the first rank had arrived
  int64_t last = 0;              // collectives to which no rank came later
  int64_t owned_bytes = 0, peak_bytes = 0;
  std::string host = {};

  int64_t exposed_ns() const { return communication_ns - overlapped_ns; }
  int64_t transfer_ns() const { return communication_ns - waiting_ns; }
};

// A row for each kind, over the groups of all ranks.
struct CollectiveTimes {
  std::string op, group;
  int64_t ranks = 0, calls = 0;  // one group has so many ranks; calls are of all groups
  int64_t bytes = 0, sent_bytes = 0;
  double transfer_ns = 0;              // median of the calls
  double waiting_ns = 0, skew_ns = 0;  // means of the calls
  double predicted_ns = 0;             // the transfer by the link

  // Bus bandwidth as nccl-tests counts it: what a rank sends, by the time of the transfer.
  double bus_bytes_per_s() const { return per_s(transfer_ns); }
  double predicted_bytes_per_s() const { return per_s(predicted_ns); }

 private:
  double per_s(double ns) const { return ns > 0 ? 1e9 * static_cast<double>(sent_bytes) / ns : 0; }
};

// A rank's kernels in the step that the timeline shows.
struct RankLane {
  int64_t rank = 0;
  std::vector<std::string> ops = {};
  struct Slice {
    size_t op = 0;  // index into ops
    int64_t begin_ns = 0, end_ns = 0;
  };
  std::vector<Slice> slices = {};
  // The events of its trace as text; how many there are, and how many more the size forbade.
  std::string events = {};
  int64_t written = 0, dropped = 0;
};

struct ExchangeRecord {
  std::vector<RankTimes> ranks;
  std::vector<CollectiveTimes> collectives;
  std::string clock;          // how the clocks of the ranks were compared
  double clock_error_ns = 0;  // at most
  std::vector<RankLane> lanes;
};

template <class See, Of<RankTimes> R>
void figures(const See& see, R& r) {
  see("rank", r.rank), see("host", r.host), see({"steps", "", "instrumented ones"}, r.steps),
      see({"step_ns", "ns", "all steps"}, r.step_ns);
  see({"communication_ns", "ns", "kernels of collectives"}, r.communication_ns);
  see({"overlapped_ns", "ns", "the part of it during which other kernels run"}, r.overlapped_ns);
  see({"exposed_ns", "ns", "the rest of it"}, r.exposed_ns());
  see({"waiting_ns", "ns", "the part of it until the last rank had arrived"}, r.waiting_ns);
  see({"transfer_ns", "ns", "the rest of it"}, r.transfer_ns());
  see({"late_ns", "ns", "how much later than the first rank it came, over all collectives"},
      r.late_ns);
  see({"last", "", "collectives to which no rank came later"}, r.last);
  see({"owned_bytes", "", "predicted: arena and store"}, r.owned_bytes),
      see({"peak_bytes", "", "measured"}, r.peak_bytes);
}

template <class See, Of<CollectiveTimes> R>
void figures(const See& see, R& r) {
  see("op", r.op), see({"group", "", "of ranks: data, tensor ..."}, r.group),
      see({"ranks", "", "in a group"}, r.ranks),
      see({"calls", "", "over all steps and groups"}, r.calls);
  see({"bytes", "", "of the whole tensors"}, r.bytes), see("sent_bytes", r.sent_bytes);
  see({"transfer_ns", "ns", "median, from the last rank's arrival on"}, r.transfer_ns);
  see({"waiting_ns", "ns", "mean over calls and ranks, until the last rank's arrival"},
      r.waiting_ns);
  see({"skew_ns", "ns", "mean from the first rank's arrival to the last one's"}, r.skew_ns);
  see({"predicted_ns", "ns", "of the transfer, by the link"}, r.predicted_ns);
  see({"bus_bytes_per_s", "B/s", "bytes that a rank sends over the transfer"}, r.bus_bytes_per_s());
  see({"predicted_bytes_per_s", "B/s", "the same by the link"}, r.predicted_bytes_per_s());
}

template <class See, Of<ExchangeRecord> R>
void figures(const See& see, R& r) {
  see({"clock", "", "how the clocks of the ranks were compared"}, r.clock),
      see({"clock_error_ns", "", "at most"}, r.clock_error_ns), see("ranks", r.ranks),
      see("collectives", r.collectives);
}

}  // namespace ridge::record
