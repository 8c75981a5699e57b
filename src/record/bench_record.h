// SPDX-License-Identifier: Apache-2.0
// Defines the records of `ridge bench` and `ridge demo`: one point is an op, module or graph at one
// size, planned and perhaps measured. bench/ fills the records, report/ prints them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/samples.h"
#include "cost/ceilings.h"
#include "cost/predict.h"
#include "graph/op.h"

namespace ridge::record {

struct RunRecord;

// Extents by their letters, in the order of the op: n=1024, k=512.
using Extents = std::vector<std::pair<std::string, int64_t>>;
std::string str(const Extents& extents);  // "n=1024,k=512"
// Null if there is no such letter.
const int64_t* find(const Extents& extents, std::string_view letter);

struct BenchPoint {
  std::string name;
  Extents extents;
  std::string form, phase, dtype, inputs, cache, refused;
  bool lacks_memory = false;  // why it was refused
  Work work;                  // executed; for composites, that of their kernels
  int64_t launches = 0, planned_bytes = 0, compulsory_bytes = 0, owned_bytes = 0;
  std::optional<int64_t> unfused_bytes;
  std::map<std::string, int64_t> kernels;
  Summary time;  // per call; no samples if it was only planned
  double predicted_ns = 0;
  // The multiplications at their peak, or the other arithmetic at its rate, or the planned bytes at
  // the bandwidth of the memory that holds them, whichever takes longer. 0 without ceilings.
  double limit_ns = 0;
  cost::Bound bound = cost::Bound::kNone;
  std::optional<double> speedup;  // both times are measured, or both predicted
  std::map<std::string, double> published_ns;
  std::string level;
  std::shared_ptr<const RunRecord> profile;  // null unless one was asked for

  bool is_measured() const { return time.count > 0; }
  // The measured time, or the predicted one.
  double ns() const { return is_measured() ? time.median : predicted_ns; }
  // The predicted time over the measured one, less 1; empty if one of them is unknown.
  std::optional<double> prediction_error() const;
  // The bound of the time: "compute", "overhead", or for memory the level, "L2" for instance.
  std::string_view bound_by() const;
  // Empty if the time is shorter, because such a limit is none, or if one of them is unknown.
  std::optional<double> limit_share() const;
  double planned_intensity() const;     // FLOPs per byte; 0 without bytes
  double compulsory_intensity() const;  // the same
  std::optional<double> unfused_intensity() const;
  double flops_per_s() const;  // 0 without a time, measured or predicted
  double bytes_per_s() const;  // the same, with planned bytes
};

// The law time = factor * size^power over a sweep, by least squares of the logarithms.
struct BenchFit {
  std::string form;    // the points that it is fitted to
  std::string letter;  // the size
  double factor = 0;   // ns
  double power = 0;
  double residual = 0;  // root mean square of log(time / law)
  int64_t points = 0;
};

// A size whose time does not follow its neighbours, and the reason if one is known.
struct BenchCliff {
  std::string point;  // str(extents)
  double ratio = 1;   // the time over what its neighbours' rates give
  std::string reason;
};

struct BenchRecord {
  std::string kind;     // "op", "module", "graph", "attention", "study"
  std::string name;     // the op or the module
  std::string formula;  // its cost in words; may be empty
  std::string dtype;
  std::string device;
  int threads = 1;
  std::string swept;            // the letter that varies, for a chart; empty if none or several do
  std::string axis;             // the meaning of this letter: "tokens of a sequence"
  std::string bytes = "ridge";  // the name of the bytes that the table shows
  bool is_counts = false;       // the table shows counts in full and no times
  std::vector<BenchPoint> points;
  std::vector<BenchFit> fits;
  std::vector<BenchCliff> cliffs;
  std::vector<std::string> notes;
  // A demo says what it claims, what the ceilings predict, what was measured, and what it teaches.
  std::string claim, prediction, finding;
  std::vector<std::string> teaches;
  // Where something else than time is measured: names and values of this quantity.
  std::string quantity;
  std::vector<std::pair<std::string, double>> values;
  bool is_interrupted = false;  // Ctrl-C ended it: the points are those that were complete
};

// The sizes that do not follow their neighbours by more than a quarter, of each form apart.
std::vector<BenchCliff> find_cliffs(const std::vector<BenchPoint>& points, std::string_view letter);
// One law for each form with at least three measured or predicted points of different sizes.
std::vector<BenchFit> fit_laws(const std::vector<BenchPoint>& points, std::string_view letter);

}  // namespace ridge::record
