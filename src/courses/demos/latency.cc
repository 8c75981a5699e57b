// SPDX-License-Identifier: Apache-2.0
// The demo latency: what a load costs whose address is the load before it, by the memory it is in.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/timed_work.h"
#include "base/units.h"
#include "courses/demos/demos.h"

namespace ridge::courses {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kLoads = int64_t{1} << 18;
constexpr int kRounds = 5;  // the fastest counts: others wait for other programs too

// A cycle through all lines of so many bytes, in random order: the first word of a line is the
// place of the next.
std::vector<uint32_t> random_cycle(int64_t bytes) {
  constexpr uint32_t kWords = kLine / sizeof(uint32_t);
  const uint32_t lines = static_cast<uint32_t>(bytes / kLine);
  std::vector<uint32_t> order(lines), cycle(size_t{lines} * kWords);
  for (uint32_t i = 0; i < lines; ++i) order[i] = i;
  Random random(11);
  for (uint32_t i = lines - 1; i > 0; --i) std::swap(order[i], order[random.below(i)]);
  for (uint32_t i = 0; i < lines; ++i)
    cycle[size_t{order[i]} * kWords] = order[(i + 1) % lines] * kWords;
  return cycle;
}

double load_ns(int64_t bytes) {
  const std::vector<uint32_t> cycle = random_cycle(bytes);
  uint32_t at = 0;
  auto follow = [&] {
    for (int64_t i = 0; i < kLoads; ++i) at = cycle[at];
  };
  follow();  // fills the caches
  double ns = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRounds; ++i)
    ns = std::min(ns, timed_ns(follow) / static_cast<double>(kLoads));
  return at == UINT32_MAX ? 0 : ns;  // reads `at`, so that no load is left out
}

void run(Fixture& fixture) {
  // A GPU's clock says nothing of the host, whose loads these are.
  const cost::Machine& machine = fixture.ceilings().machine;
  const double clock_ghz = machine.isa.starts_with("sm_") ? 0 : machine.clock_ghz;
  fixture.record.quantity = clock_ghz > 0 ? "cycles of a load" : "ns of a load";
  for (const int64_t kib : {16, 256, 4096, 128 << 10}) {
    if (fixture.is_stopped()) break;
    fixture.record.values.emplace_back("within " + format_bytes(kib << 10),
                                       load_ns(kib << 10) * (clock_ghz > 0 ? clock_ghz : 1));
  }
  fixture.record.prediction =
      "a load that hits the first cache takes a few cycles, one from memory hundreds.";
  const auto& values = fixture.record.values;
  if (values.empty()) return;
  fixture.record.finding = fmt::format(
      "a load {} takes {:.0f} times as long as one {}.", values.back().first,
      values.back().second / std::max(values.front().second, 1e-9), values.front().first);
  fixture.record.notes.push_back(
      "The lecture's GPU, cycles: global memory 290, L2 200, L1 33, shared memory 23 (load) and 19 (store).");
}

}  // namespace

Demo latency_demo() {
  return {"latency",
          "The further away memory is, the longer one load takes, however much bandwidth there is.",
          {"A load whose address comes from the load before it cannot be fetched ahead.",
           "Caches are near and small: each level costs several times the one before.",
           "A CPU hides latency by caches and prefetching, a GPU by other warps that are ready.",
           "Bandwidth counts when many loads are in flight, latency when each waits for the last."},
          "",
          run};
}

}  // namespace ridge::courses
