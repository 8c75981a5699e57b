// SPDX-License-Identifier: Apache-2.0
// Takes topologies from hwloc's descriptions and from files of tests/data/hwloc, and finds
// what costs speed there.
#include "measure/topology.h"

#include <gtest/gtest.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/hwloc_topology.h"
#include "test_paths.h"

namespace ridge::measure {
namespace {

using record::cpu_list;
using record::CpuCache;
using record::GpuLink;
using record::performance_warnings;
using record::PerformanceWarning;
using record::Topology;

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

  void add(const std::string& path, const std::string& content) const {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << content << "\n";
  }

  Topology with_settings(Topology topology) const {
    add_linux_settings(topology, root_);
    return topology;
  }

  fs::path root_;
};

template <class Choose>
Topology load(const Choose& choose) {
  hwloc_topology_t raw = nullptr;
  EXPECT_EQ(hwloc_topology_init(&raw), 0);
  const HwlocTopology topology(raw);
  EXPECT_EQ(choose(raw), 0);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  EXPECT_EQ(hwloc_topology_load(raw), 0);
  return topology_of(raw);
}

Topology synthetic(const char* description) {
  return load([&](hwloc_topology_t raw) { return hwloc_topology_set_synthetic(raw, description); });
}

Topology file(const std::string& name) {
  const std::string path = test_data("hwloc/" + name);
  return load([&](hwloc_topology_t raw) { return hwloc_topology_set_xml(raw, path.c_str()); });
}

std::vector<std::string> remedies(const Topology& topology, int threads) {
  std::vector<std::string> all;
  for (const PerformanceWarning& each : performance_warnings(topology, threads))
    all.push_back(each.remedy);
  return all;
}

bool mends(const std::vector<std::string>& remedies, const std::string& part) {
  for (const std::string& each : remedies)
    if (each.find(part) != std::string::npos) return true;
  return false;
}

void expect_cache(const CpuCache& cache, int level, int64_t bytes, int instances, int cpus) {
  EXPECT_EQ(cache.level, level);
  EXPECT_EQ(cache.bytes, bytes);
  EXPECT_EQ(cache.instances, instances);
  EXPECT_EQ(cache.cpus, cpus);
}

TEST_F(TopologyTest, OfTwoSocketsWithGpus) {
  const Topology t = file("two_sockets.xml");
  EXPECT_EQ(t.sockets, 2);
  EXPECT_EQ(t.cores, 8);
  EXPECT_EQ(t.cpus, 16);
  EXPECT_EQ(t.allowed_cores, 8);
  ASSERT_EQ(t.nodes.size(), 2u);
  EXPECT_EQ(t.nodes[1].cpus, (std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15}));
  EXPECT_EQ(t.nodes[1].distances, (std::vector<int>{21, 10}));
  EXPECT_EQ(t.nodes[0].memory_bytes, int64_t{263929856} * 1024);
  EXPECT_EQ(t.memory_nodes, (std::vector<int>{0, 1}));
  ASSERT_EQ(t.caches.size(), 4u);
  EXPECT_EQ(t.caches[0].type, "Data");
  EXPECT_EQ(t.caches[1].type, "Instruction");
  EXPECT_EQ(t.caches[3].type, "Unified");
  expect_cache(t.caches[0], 1, 48 << 10, 8, 2);
  expect_cache(t.caches[3], 3, 60 << 20, 2, 8);
  ASSERT_EQ(t.gpus.size(), 4u) << "the console's adapter is none";
  EXPECT_EQ(t.gpus[0].address, "0000:18:00.0");
  EXPECT_EQ(t.gpus[0].node, 0);
  EXPECT_EQ(t.gpus[3].vendor, "AMD");
  EXPECT_EQ(t.gpus[3].node, 1);
  std::vector<std::string> kinds;
  for (const GpuLink& link : t.links) kinds.push_back(link.kind);
  // 0-1, 0-2, 0-3, 1-2, 1-3, 2-3
  EXPECT_EQ(kinds, (std::vector<std::string>{"PIX", "PHB", "SYS", "PHB", "SYS", "SYS"}));
}

TEST_F(TopologyTest, OfAContainerOnOneSocketInFourNodes) {
  const Topology t = file("one_socket_four_nodes.xml");
  EXPECT_EQ(t.sockets, 1);
  EXPECT_EQ(t.cores, 16);
  EXPECT_EQ(t.allowed_cpus, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(t.allowed_cores, 4);
  ASSERT_EQ(t.nodes.size(), 4u);
  EXPECT_EQ(t.nodes[2].distances, (std::vector<int>{12, 12, 10, 12}));
  EXPECT_EQ(t.allowed_nodes, std::vector<int>{1});
  EXPECT_EQ(t.memory_nodes, std::vector<int>{0});
  ASSERT_EQ(t.caches.size(), 2u);
  expect_cache(t.caches[1], 3, 32 << 20, 8, 2);
  ASSERT_EQ(t.gpus.size(), 1u);
  EXPECT_EQ(t.gpus[0].node, 3);
}

TEST_F(TopologyTest, OfLargeAndSmallCores) {
  const Topology t = file("hybrid.xml");
  EXPECT_EQ(t.cpus, 8);
  EXPECT_EQ(t.cores, 6);
  EXPECT_EQ(t.nodes.size(), 1u);
  ASSERT_EQ(t.caches.size(), 5u);
  expect_cache(t.caches[0], 1, 32 << 10, 4, 1);
  expect_cache(t.caches[1], 1, 48 << 10, 2, 2);
  expect_cache(t.caches[2], 2, 2 << 20, 2, 2);
  expect_cache(t.caches[3], 2, 4 << 20, 1, 4);
  expect_cache(t.caches[4], 3, 24 << 20, 1, 8);
}

TEST_F(TopologyTest, OfCoreComplexesWithAnL3CacheEach) {
  const Topology t = synthetic("Package:2 NUMANode:1 L3Cache:8(size=33554432) Core:8 PU:2");
  EXPECT_EQ(t.sockets, 2);
  EXPECT_EQ(t.cores, 128);
  EXPECT_EQ(t.cpus, 256);
  EXPECT_EQ(t.nodes.size(), 2u);
  ASSERT_EQ(t.caches.size(), 1u);
  expect_cache(t.caches[0], 3, 32 << 20, 16, 16);
}

// hwloc says that such memory lies near all CPUs of its parent.
TEST_F(TopologyTest, OfMemoryWithoutCores) {
  const Topology t = synthetic("[NUMANode(memory=1073741824)] [NUMANode(memory=4096)] Core:2 PU:1");
  ASSERT_EQ(t.nodes.size(), 2u);
  EXPECT_EQ(t.nodes[0].cpus, (std::vector<int>{0, 1}));
  EXPECT_TRUE(t.nodes[1].cpus.empty());
  EXPECT_EQ(t.allowed_nodes, std::vector<int>{0});
}

TEST_F(TopologyTest, OfAVirtualMachine) {
  const Topology t = synthetic("NUMANode:1(memory=1073741824) PU:2");
  EXPECT_EQ(t.sockets, 1);
  EXPECT_EQ(t.cores, 2) << "without cores each CPU is one";
  ASSERT_EQ(t.nodes.size(), 1u);
  EXPECT_EQ(t.nodes[0].distances, std::vector<int>{10});
  EXPECT_TRUE(t.gpus.empty());
  EXPECT_TRUE(performance_warnings(t, 2).empty());
  EXPECT_TRUE(mends(remedies(t, 3), "--threads 2"));
}

TEST_F(TopologyTest, NamesTheSwitchOfEachWarning) {
  add("proc/sys/kernel/numa_balancing", "1");
  add("proc/self/cgroup", "0::/user.slice/run.scope");
  add("sys/fs/cgroup/cpu.max", "max 100000");
  add("sys/fs/cgroup/user.slice/cpu.max", "800000 100000");
  add("sys/fs/cgroup/user.slice/run.scope/cpu.max", "450000 100000");
  add("sys/bus/pci/devices/0000:1a:00.0/current_link_width", "8");
  add("sys/bus/pci/devices/0000:1a:00.0/max_link_width", "16");
  add("sys/bus/pci/devices/0000:1a:00.0/max_link_speed", "32.0 GT/s PCIe");
  const Topology t = with_settings(file("two_sockets.xml"));
  EXPECT_EQ(t.numa_balancing, true);
  EXPECT_DOUBLE_EQ(t.quota_cpus, 4.5);  // the least of the groups
  EXPECT_EQ(t.gpus[2].width, 8);
  EXPECT_EQ(t.gpus[2].most_speed, "32.0 GT/s PCIe");
  const std::vector<std::string> found = remedies(t, 16);
  for (const char* part :
       {"--threads 8", "--threads 4, or a higher quota", "kernel.numa_balancing=0",
        "--cpunodebind=0", "--cpunodebind=1", "another slot"})
    EXPECT_TRUE(mends(found, part)) << part;
}

TEST_F(TopologyTest, FindsAFarGpuAndFarMemory) {
  add("proc/self/cgroup", "4:cpu,cpuacct:/docker/box\n3:cpuset:/docker/box");
  add("sys/fs/cgroup/cpu,cpuacct/docker/box/cpu.cfs_quota_us", "150000");
  add("sys/fs/cgroup/cpu,cpuacct/docker/box/cpu.cfs_period_us", "100000");
  const std::vector<std::string> found =
      remedies(with_settings(file("one_socket_four_nodes.xml")), 4);
  for (const char* part :
       {"--threads 1, or a higher quota", "taskset", "--membind=1", "--cpunodebind=3"})
    EXPECT_TRUE(mends(found, part)) << part;
  EXPECT_FALSE(mends(found, "numa_balancing"));
}

TEST_F(TopologyTest, OfThisMachineIsWhatTheSystemSays) {
  const Topology t = read_topology();
  EXPECT_EQ(static_cast<long>(t.cpus), ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GE(t.cores, 1);
  EXPECT_LE(t.allowed_cores, t.cores);
  cpu_set_t allowed, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_EQ(static_cast<int>(t.allowed_cpus.size()), CPU_COUNT(&allowed));
  CPU_ZERO(&one);
  CPU_SET(t.allowed_cpus.back(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  const Topology bound = read_topology();
  EXPECT_EQ(::sched_setaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_EQ(bound.allowed_cpus, std::vector<int>{t.allowed_cpus.back()});
  EXPECT_EQ(bound.allowed_cores, 1);
  EXPECT_EQ(bound.cpus, t.cpus);
}

TEST_F(TopologyTest, SurvivesSettingsThatAreMissingOrStrange) {
  Topology t = with_settings(file("two_sockets.xml"));
  EXPECT_EQ(t.quota_cpus, 0);
  EXPECT_FALSE(t.numa_balancing);
  for (const char* name :
       {"proc/self/cgroup", "proc/sys/kernel/numa_balancing", "sys/fs/cgroup/cpu.max",
        "sys/bus/pci/devices/0000:1a:00.0/max_link_width"})
    add(name, "\n:::\n0-99999999999,-1,x 99999999999999999999\n1:cpu:../..\n0::");
  EXPECT_NO_THROW(performance_warnings(with_settings(t), 2));
}

TEST(CpuList, NamesRanges) {
  EXPECT_EQ(cpu_list({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(cpu_list({1}), "1");
  EXPECT_EQ(cpu_list({0, 2, 4, 5}), "0,2,4-5");
  EXPECT_EQ(cpu_list({}), "");
}

}  // namespace
}  // namespace ridge::measure
