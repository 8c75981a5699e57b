// SPDX-License-Identifier: Apache-2.0
// A topology as text and JSON, of a machine with two nodes and two GPUs.
#include "report/command_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ridge::report {
namespace {

record::Topology machine() {
  record::Topology t;
  t.cpus = 4;
  t.cores = 2;
  t.sockets = 1;
  t.caches = {{3, "Unified", int64_t{8} << 20, 2, 2}};
  t.nodes = {{0, {0, 1}, int64_t{1} << 30, {10, 20}}, {1, {}, 0, {20, 10}}};
  t.gpus = {{"0000:17:00.0", "NVIDIA", "H\x1b[1m100", 0, "", "32.0 GT/s PCIe", 16, 16},
            {"0000:65:00.0", "AMD", "", -1, "", "", 0, 0}};
  t.links = {{0, 1, "SYS"}};
  t.allowed_cpus = {0, 1, 2, 3};
  t.allowed_cores = 2;
  t.allowed_nodes = {0, 1};
  t.memory_nodes = {0, 1};
  return t;
}

TEST(TopologyText, SaysWhatThereIsInALine) {
  record::Topology t = machine();
  EXPECT_EQ(topology_line(t),
            "1 socket, 2 cores, 4 CPUs, 2 NUMA nodes; L3 8.00 MiB x 2; 2 GPUs (SYS)");
  t.allowed_cpus = {0, 1, 3};
  EXPECT_NE(topology_line(t).find("; this process may use CPUs 0-1,3;"), std::string::npos);
}

TEST(TopologyText, HasATableOfEachKind) {
  const std::string text = topology_text(machine(), 2, {});
  for (const char* part :
       {"NUMA node", "CPUs that share one", "0-1", "none", "1.00 GiB", "  10  20", "0 0000:17:00.0",
        "32.0 GT/s PCIe x16", "SYS", "1 0000:65:00.0", "AMD",
        "automatic NUMA balancing: not in this kernel; quota of the control groups: none"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  record::Topology small = machine();
  small.gpus.clear();
  small.nodes.clear();
  EXPECT_EQ(topology_text(small, 2, {}).find("NUMA node "), std::string::npos);
}

TEST(TopologyText, IsJsonToo) {
  const auto json = nlohmann::json::parse(topology_json(machine(), 2));
  EXPECT_EQ(json["cpus"], 4);
  EXPECT_EQ(json["threads"], 2);
  EXPECT_TRUE(json["numa_balancing"].is_null());
  EXPECT_EQ(json["nodes"][0]["distances"], (std::vector<int>{10, 20}));
  EXPECT_EQ(json["gpus"][0]["width"], 16);
  EXPECT_EQ(json["links"][0]["kind"], "SYS");
  EXPECT_EQ(json["performance_warnings"].size(), record::performance_warnings(machine(), 2).size());
}

}  // namespace
}  // namespace ridge::report
