// SPDX-License-Identifier: Apache-2.0
// Reads the topology of sysfs trees in tests/data/sysfs, and finds what costs speed there.
#include "measure/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "test_paths.h"

namespace ridge::measure {
namespace {

namespace fs = std::filesystem;

class TopologyTest : public testing::Test {
 protected:
  TopologyTest()
      : root_(fs::temp_directory_path() /
              ("ridge-topology-" + std::to_string(::getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(root_);
  }
  ~TopologyTest() override { fs::remove_all(root_); }

  void add(const std::string& path, std::string content) const {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    if (content.starts_with("-> ")) {
      fs::create_symlink(content.substr(3), file);
      return;
    }
    for (const auto& [escape, c] : {std::pair("\\n", "\n"), std::pair("\\t", "\t")})
      for (size_t at = 0; (at = content.find(escape, at)) != std::string::npos;)
        content.replace(at, 2, c);
    std::ofstream(file) << content << "\n";
  }

  // Makes the tree that a file of tests/data/sysfs lists.
  Topology read(const std::string& name) const {
    std::ifstream list(test_data("sysfs/" + name));
    EXPECT_TRUE(list.good()) << name;
    for (std::string line; std::getline(list, line);) {
      const size_t equals = line.find(" = ");
      if (line.starts_with("#") || equals == std::string::npos) continue;
      add(line.substr(0, equals), line.substr(equals + 3));
    }
    return read_topology(root_);
  }

  fs::path root_;
};

std::vector<std::string> remedies(const Topology& topology, int threads) {
  std::vector<std::string> all;
  for (const Obstacle& each : obstacles(topology, threads)) all.push_back(each.remedy);
  return all;
}

bool mends(const std::vector<std::string>& remedies, const std::string& part) {
  for (const std::string& each : remedies)
    if (each.find(part) != std::string::npos) return true;
  return false;
}

TEST_F(TopologyTest, OfTwoSockets) {
  const Topology t = read("two_sockets.txt");
  EXPECT_EQ(t.sockets, 2);
  EXPECT_EQ(t.cores, 8);
  EXPECT_EQ(t.cpus, 16);
  EXPECT_EQ(t.allowed_cores, 8);
  ASSERT_EQ(t.nodes.size(), 2u);
  EXPECT_EQ(t.nodes[1].cpus, (std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15}));
  EXPECT_EQ(t.nodes[1].distances, (std::vector<int>{21, 10}));
  EXPECT_EQ(t.nodes[0].memory_bytes, int64_t{263929856} * 1024);
  ASSERT_EQ(t.caches.size(), 4u);
  EXPECT_EQ(t.caches[0].level, 1);
  EXPECT_EQ(t.caches[0].type, "Data");
  EXPECT_EQ(t.caches[0].bytes, 48 * 1024);
  EXPECT_EQ(t.caches[0].instances, 8);
  EXPECT_EQ(t.caches[0].cpus, 2);
  EXPECT_EQ(t.caches[3].bytes, 60 << 20);
  EXPECT_EQ(t.caches[3].instances, 2);
  EXPECT_EQ(t.caches[3].cpus, 8);
  EXPECT_EQ(t.numa_balancing, true);
  EXPECT_DOUBLE_EQ(t.quota_cpus, 4.5);  // the least of the groups
  ASSERT_EQ(t.gpus.size(), 4u) << "the console's adapter is none";
  EXPECT_EQ(t.gpus[3].vendor, "AMD");
  EXPECT_EQ(t.gpus[3].node, 1);
  EXPECT_EQ(t.gpus[2].width, 8);
  std::vector<std::string> kinds;
  for (const GpuLink& link : t.links) kinds.push_back(link.kind);
  // 0-1, 0-2, 0-3, 1-2, 1-3, 2-3
  EXPECT_EQ(kinds, (std::vector<std::string>{"PIX", "PHB", "SYS", "PHB", "SYS", "SYS"}));
}

TEST_F(TopologyTest, OfOneSocketInFourNodes) {
  const Topology t = read("one_socket_four_nodes.txt");
  EXPECT_EQ(t.sockets, 1);
  EXPECT_EQ(t.cores, 16);
  EXPECT_EQ(t.allowed_cpus, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(t.allowed_cores, 4);
  ASSERT_EQ(t.nodes.size(), 4u);
  EXPECT_EQ(t.nodes[2].distances, (std::vector<int>{12, 12, 10, 12}));
  EXPECT_EQ(t.allowed_nodes, std::vector<int>{1});
  EXPECT_EQ(t.memory_nodes, std::vector<int>{0});
  EXPECT_EQ(t.caches[3].instances, 4);
  EXPECT_DOUBLE_EQ(t.quota_cpus, 1.5);
  ASSERT_EQ(t.gpus.size(), 1u);
  EXPECT_EQ(t.gpus[0].node, 3);
}

TEST_F(TopologyTest, OfAVirtualMachine) {
  const Topology t = read("virtual_machine.txt");
  EXPECT_EQ(t.sockets, 1);
  EXPECT_EQ(t.cores, 2);
  EXPECT_EQ(t.nodes.size(), 1u);
  EXPECT_EQ(t.caches.size(), 4u);
  EXPECT_EQ(t.quota_cpus, 0);
  EXPECT_TRUE(t.gpus.empty());
  EXPECT_TRUE(obstacles(t, 2).empty());
  EXPECT_TRUE(mends(remedies(t, 3), "--threads 2"));
}

TEST_F(TopologyTest, NamesTheSwitchOfEachObstacle) {
  const std::vector<std::string> two = remedies(read("two_sockets.txt"), 16);
  for (const char* part :
       {"--threads 8", "--threads 4, or a higher quota", "kernel.numa_balancing=0",
        "--cpunodebind=0", "--cpunodebind=1", "another slot"})
    EXPECT_TRUE(mends(two, part)) << part;
}

TEST_F(TopologyTest, FindsAFarGpuAndFarMemory) {
  const std::vector<std::string> four = remedies(read("one_socket_four_nodes.txt"), 4);
  for (const char* part :
       {"--threads 1, or a higher quota", "taskset", "--membind=1", "--cpunodebind=3"})
    EXPECT_TRUE(mends(four, part)) << part;
  EXPECT_FALSE(mends(four, "numa_balancing"));
}

TEST_F(TopologyTest, OfThisMachineIsWhatTheSystemSays) {
  const Topology t = read_topology();
  EXPECT_GE(t.cpus, static_cast<int>(t.allowed_cpus.size()));
  EXPECT_EQ(static_cast<long>(t.cpus), ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GE(t.cores, 1);
  EXPECT_LE(t.allowed_cores, t.cores);
}

TEST_F(TopologyTest, SurvivesWhatIsMissingOrStrange) {
  Topology nothing = read_topology(root_ / "none");
  EXPECT_EQ(nothing.cpus, 0);
  EXPECT_TRUE(obstacles(nothing, 2).empty());
  add_nvlinks(nothing);
  for (const char* file :
       {"sys/devices/system/cpu/online", "sys/devices/system/cpu/cpu0/cache/index0/size",
        "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
        "sys/devices/system/node/node0/distance", "proc/self/status",
        "sys/devices/system/node/node0/meminfo", "proc/self/cgroup"})
    add(file,
        "\\n:::\\n0-99999999999,-1,x 99999999999999999999 MemTotal: 9999999999999999999 kB\\n1:cpu:../..");
  EXPECT_NO_THROW(obstacles(read_topology(root_), 2));
}

TEST(CpuList, IsReadAndWritten) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>());
  EXPECT_EQ(parse_cpu_list("2,x,5"), std::vector<int>{2});
  EXPECT_EQ(parse_cpu_list("5-2"), std::vector<int>());
  EXPECT_EQ(parse_cpu_list("0-4294967295"), std::vector<int>());
  for (const char* text : {"0-3,8", "1", "0,2,4-5", ""})
    EXPECT_EQ(cpu_list(parse_cpu_list(text)), text);
}

}  // namespace
}  // namespace ridge::measure
