// SPDX-License-Identifier: Apache-2.0
// Takes pinned buffers from a free list and returns them when their copy is done.
#include "backends/cuda/host_copies.h"

#include "backends/cuda/device_error.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

PinnedBuffer allocate_buffer() {
  PinnedBuffer buffer;
  void* host = nullptr;
  check(cudaHostAlloc(&host, static_cast<size_t>(HostCopies::kMostBytes), cudaHostAllocDefault),
        "allocating pinned memory");
  buffer.host = static_cast<std::byte*>(host);
  check(cudaEventCreateWithFlags(&buffer.done, cudaEventDisableTiming), "making an event");
  return buffer;
}

class PinnedHostCopy final : public CopyOut {
 public:
  PinnedHostCopy(PinnedBuffer buffer,
                 int64_t bytes,
                 std::vector<PinnedBuffer>& free,
                 IndexFaults& faults)
      : buffer_(buffer), bytes_(bytes), free_(free), faults_(faults) {}
  ~PinnedHostCopy() override {
    cudaEventSynchronize(buffer_.done);  // the next copy must not overlap this one
    free_.push_back(buffer_);
  }
  std::span<const std::byte> wait() override {
    check(cudaEventSynchronize(buffer_.done), "waiting for the GPU");
    faults_.raise();
    return {buffer_.host, static_cast<size_t>(bytes_)};
  }

 private:
  PinnedBuffer buffer_;
  int64_t bytes_;
  std::vector<PinnedBuffer>& free_;
  IndexFaults& faults_;
};

}  // namespace

HostCopies::~HostCopies() {
  for (const PinnedBuffer& buffer : free_) {
    cudaEventDestroy(buffer.done);
    cudaFreeHost(buffer.host);
  }
}

std::unique_ptr<CopyOut> HostCopies::start(const std::byte* from,
                                           int64_t bytes,
                                           cudaStream_t stream) {
  RIDGE_CHECK(bytes <= kMostBytes, "{} bytes do not fit into a pinned buffer", bytes);
  if (free_.empty()) free_.push_back(allocate_buffer());
  PinnedBuffer buffer = free_.back();
  free_.pop_back();
  auto copy = std::make_unique<PinnedHostCopy>(buffer, bytes, free_, faults_);
  if (bytes > 0)
    check(cudaMemcpyAsync(buffer.host, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                          stream),
          "copying from the GPU");
  check(cudaEventRecord(buffer.done, stream), "copying from the GPU");
  return copy;
}

}  // namespace ridge::backends::cuda
