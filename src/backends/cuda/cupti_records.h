// SPDX-License-Identifier: Apache-2.0
// CUPTI tells this while it is attached: when each kernel, memset and copy ran, and which graph
// nodes were added for which nodes: one callback notes which graph nodes each binding added during
// capture, another maps the clones that instantiation creates to them.
#pragma once

#include <cupti.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cuda/device_kernels.h"
#include "graph/graph.h"

namespace ridge::backends::cuda {

class CuptiRecords {
 public:
  // One kernel, memset or copy, on CUPTI's clock.
  struct Record {
    uint64_t begin_ns, end_ns;
    uint64_t graph_node;  // 0: on a stream
    int32_t kernel;       // index into the kernels of the run
  };
  // All of it since `begin`.
  struct Recorded {
    std::vector<Record> records;  // in the order in which they began
    std::vector<record::DeviceKernel> kernels;
    int64_t dropped = 0;
  };

  CuptiRecords() = default;
  CuptiRecords(const CuptiRecords&) = delete;
  CuptiRecords& operator=(const CuptiRecords&) = delete;
  ~CuptiRecords() { detach(); }

  // Returns an empty string on success, otherwise the reason for the failure.
  std::string attach();
  void expect_attached();  // attaches unless it is, and throws a device Error if it cannot
  void detach();

  void begin();
  Recorded end();
  static uint64_t now_ns();

  // Graph nodes that are added from now on belong to this node, and so do their clones.
  void mark(NodeId node) { current_ = node; }
  // kNoNode for work that no node launched: a copy from the host, a memset.
  NodeId node_of(const Record& record) const;

 private:
  static void CUPTIAPI notice(void* self,
                              CUpti_CallbackDomain domain,
                              CUpti_CallbackId id,
                              const void* data);
  void notice_graph_node(CUpti_CallbackId id, const CUpti_GraphData& graph);
  static void CUPTIAPI
  take(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid);
  void read(CUcontext context, uint32_t stream, uint8_t* buffer, size_t valid);

  CUpti_SubscriberHandle subscriber_ = nullptr;
  NodeId current_ = kNoNode;
  std::mutex mutex_;
  std::vector<Record> records_;
  DeviceKernels kernels_;
  std::unordered_map<uint64_t, NodeId> node_of_graph_node_;
  int64_t dropped_ = 0;
};

}  // namespace ridge::backends::cuda
