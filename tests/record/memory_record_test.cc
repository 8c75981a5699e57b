// SPDX-License-Identifier: Apache-2.0
// Planned memory over the nodes of a program, by class, and the process memory that the system
// reports.
#include "record/memory_record.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <numeric>

#include "base/arena.h"
#include "base/process_memory.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "plan/targets.h"
#include "record/measured_step.h"

namespace ridge::record {
namespace {

// Accepts any layout, and needs a little workspace.
class ScratchTarget final : public plan::PlainTarget {
 public:
  bool takes_input(const Graph&, const Node&, int, const Layout&) const override { return true; }
  int64_t workspace_bytes(const Graph&, const Node& node) const override {
    return node.op->name == "matmul" ? 128 : 0;
  }
};

class MemoryRecordTest : public ::testing::Test {
 protected:
  MeasuredStep program_{2};
  ScratchTarget target_;
  std::vector<cost::ProgramGraph> graphs_{
      cost::program_graph("accumulate", program_.accumulate, 2, target_),
      cost::program_graph("update", program_.update, 1, target_)};
  MemoryRecord record_ = planned_memory(graphs_);
};

int64_t class_bytes(const MemoryRecord& record, plan::MemoryClass memory_class) {
  return record.store_bytes[static_cast<size_t>(memory_class)];
}

TEST_F(MemoryRecordTest, StoredValuesCountOnceAndByUse) {
  // The weight and its gradient are in both graphs, 8 x 8 floats each; x is 4 x 8.
  EXPECT_EQ(class_bytes(record_, plan::MemoryClass::kParameters), 256);
  EXPECT_EQ(class_bytes(record_, plan::MemoryClass::kGradients), 256);
  EXPECT_EQ(class_bytes(record_, plan::MemoryClass::kOptimizerState), 256);
  EXPECT_EQ(class_bytes(record_, plan::MemoryClass::kData), 128);
}

TEST_F(MemoryRecordTest, OwnedIsStoreAndTheLargestArena) {
  int64_t store =
      std::accumulate(std::begin(record_.store_bytes), std::end(record_.store_bytes), int64_t{0});
  EXPECT_EQ(record_.arena_bytes,
            std::max(graphs_[0].costed->memory.arena_bytes, graphs_[1].costed->memory.arena_bytes));
  EXPECT_EQ(record_.owned_bytes, store + record_.arena_bytes);
  record_.foreign_bytes = 1000;
  EXPECT_EQ(record_.predicted_peak_bytes(), record_.owned_bytes + 1000);
}

TEST_F(MemoryRecordTest, EveryPointHoldsTheWholeStore) {
  ASSERT_FALSE(record_.timeline.empty());
  int64_t most = 0;
  for (const MemoryPoint& point : record_.timeline) {
    EXPECT_EQ(point.live.bytes[static_cast<size_t>(plan::MemoryClass::kOptimizerState)], 256);
    EXPECT_LE(point.live.total(), record_.owned_bytes);
    EXPECT_GE(point.live.total(), record_.owned_bytes - record_.arena_bytes);
    EXPECT_NE(point.op, "reshape");  // views run nothing
    most = std::max(most, point.live.total());
  }
  ASSERT_NE(record_.peak(), nullptr);
  EXPECT_EQ(record_.peak()->live.total(), most);
  EXPECT_EQ(record_.live_peak_bytes, most);
  EXPECT_EQ(record_.class_peaks().bytes[static_cast<size_t>(plan::MemoryClass::kWorkspace)], 128);
}

TEST_F(MemoryRecordTest, TheTensorsAtThePeakAddUpToIt) {
  int64_t sum = 0, stored = 0;
  for (const LiveTensor& tensor : record_.at_peak) {
    sum += tensor.bytes;
    stored += tensor.name.empty() ? 0 : tensor.bytes;
    EXPECT_NE(tensor.name.empty(), tensor.op.empty());
  }
  EXPECT_EQ(sum, record_.live_peak_bytes);
  EXPECT_EQ(stored, std::accumulate(std::begin(record_.store_bytes), std::end(record_.store_bytes),
                                    int64_t{0}));
  EXPECT_TRUE(
      std::is_sorted(record_.at_peak.begin(), record_.at_peak.end(),
                     [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; }));
}

// Every tensor of the store and, at the peak, the matrices of 4 x 8 floats between the kernels.
TEST_F(MemoryRecordTest, TheTensorsAtThePeakAreThoseOfTheGraph) {
  std::map<std::string, std::string> stored;
  for (const LiveTensor& tensor : record_.at_peak) {
    if (!tensor.name.empty()) {
      EXPECT_TRUE(stored.emplace(tensor.name, tensor.type).second) << tensor.name;
      EXPECT_EQ(tensor.bytes, tensor.name == "x" ? 128 : 256) << tensor.name;
      continue;
    }
    EXPECT_EQ(tensor.type, tensor.memory_class == plan::MemoryClass::kWorkspace ? ""
                           : tensor.bytes == 256                                ? "f32[8,8]"
                                                                                : "f32[4,8]");
    EXPECT_EQ(tensor.phase, tensor.scope == "head" ? "backward" : "forward") << tensor.op;
  }
  EXPECT_EQ(stored, (std::map<std::string, std::string>{{"x", "f32[4,8]"},
                                                        {"weight", "f32[8,8]"},
                                                        {"weight.gradient", "f32[8,8]"},
                                                        {"weight.adamw_m", "f32[8,8]"}}));
}

TEST(MemoryRecord, AStateOfTheForwardPassAloneIsACache) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId cache = b.state("cache", {DType::kF32, {64}});
  graph.outputs = {b.call("add", {cache, cache})};
  MemoryRecord record = planned_memory(
      std::vector<cost::ProgramGraph>{cost::program_graph("decode", graph, 1, ScratchTarget())});
  EXPECT_EQ(class_bytes(record, plan::MemoryClass::kKvCache), 256);
  EXPECT_EQ(class_bytes(record, plan::MemoryClass::kOptimizerState), 0);
}

TEST(MemoryRecord, AnEmptyOneHasNoPeak) {
  MemoryRecord record;
  EXPECT_EQ(record.peak(), nullptr);
  EXPECT_EQ(record.class_peaks().total(), 0);
}

TEST(ProcessMemory, ReadsTheFieldsOfAStatusFile) {
  ProcessMemory memory = parse_process_status(
      "Name:\tridge\nVmPeak:\t  999999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 "
      "kB\nThreads:\t2\n");
  EXPECT_EQ(memory.peak_bytes, 2048 * 1024);
  EXPECT_EQ(memory.resident_bytes, 1024 * 1024);
  EXPECT_EQ(parse_process_status("").peak_bytes, 0);
  EXPECT_EQ(parse_process_status("VmHWM: none").peak_bytes, 0);
}

TEST(ProcessMemory, SeesAnAllocationComeAndThePeakStay) {
  if (read_process_memory().resident_bytes == 0) GTEST_SKIP() << "no /proc/self/status here";
  constexpr int64_t kBytes = int64_t{64} << 20;
  ProcessMemory before = read_process_memory();
  {
    Arena arena(kBytes, "test");
    std::fill(arena.data(), arena.data() + kBytes, std::byte{1});
    EXPECT_GE(read_process_memory().resident_bytes, before.resident_bytes + kBytes * 9 / 10);
  }
  ProcessMemory after = read_process_memory();
  EXPECT_GE(after.peak_bytes, before.resident_bytes + kBytes * 9 / 10);
  EXPECT_LT(after.resident_bytes, before.resident_bytes + kBytes / 2);
  if (!reset_peak_memory()) GTEST_SKIP() << "the peak cannot be reset here";
  EXPECT_LT(read_process_memory().peak_bytes, before.resident_bytes + kBytes / 2);
}

TEST(ProcessMemory, CountsTheResidentPagesOfAPart) {
  constexpr size_t kPages = 5000;  // more than one run of the list
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), bytes = kPages * page;
  void* found = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(found, MAP_FAILED);
  ::madvise(found, bytes, MADV_NOHUGEPAGE);
  std::span<std::byte> part(static_cast<std::byte*>(found), bytes);
  EXPECT_EQ(resident_bytes(part), 0);
  for (size_t i = 0; i < kPages; i += 2) part[i * page] = std::byte{1};
  int64_t touched = resident_bytes(part);
  EXPECT_EQ(resident_bytes(part.subspan(page + 1, 1)), 0);
  EXPECT_EQ(resident_bytes({}), 0);
  ::munmap(found, bytes);
  if (touched == 0) GTEST_SKIP() << "no /proc/self/pagemap here";
  EXPECT_EQ(touched, static_cast<int64_t>(bytes / 2));
}

TEST(ProcessMemory, AvailableIsPlausible) {
  int64_t available = available_memory_bytes();
  if (available == 0) GTEST_SKIP() << "no /proc/meminfo here";
  EXPECT_GT(available, int64_t{1} << 20);
  EXPECT_LT(available, int64_t{1} << 50);
}

}  // namespace
}  // namespace ridge::record
