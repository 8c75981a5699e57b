// SPDX-License-Identifier: Apache-2.0
// Takes destinations from a free list and returns them when their copy is done.
#include "backends/cuda/copies_out.h"

#include "backends/cuda/device_error.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

Landing make_landing() {
  Landing landing;
  void* host = nullptr;
  check(cudaHostAlloc(&host, static_cast<size_t>(CopiesOut::kMostBytes), cudaHostAllocDefault),
        "allocating pinned memory");
  landing.host = static_cast<std::byte*>(host);
  check(cudaEventCreateWithFlags(&landing.done, cudaEventDisableTiming), "making an event");
  return landing;
}

class LandedCopy final : public CopyOut {
 public:
  LandedCopy(Landing landing, int64_t bytes, std::vector<Landing>& free, IndexFaults& faults)
      : landing_(landing), bytes_(bytes), free_(free), faults_(faults) {}
  ~LandedCopy() override {
    cudaEventSynchronize(landing_.done);  // the next copy must not overlap this one
    free_.push_back(landing_);
  }
  std::span<const std::byte> wait() override {
    check(cudaEventSynchronize(landing_.done), "waiting for the GPU");
    faults_.raise();
    return {landing_.host, static_cast<size_t>(bytes_)};
  }

 private:
  Landing landing_;
  int64_t bytes_;
  std::vector<Landing>& free_;
  IndexFaults& faults_;
};

}  // namespace

CopiesOut::~CopiesOut() {
  for (const Landing& landing : free_) {
    cudaEventDestroy(landing.done);
    cudaFreeHost(landing.host);
  }
}

std::unique_ptr<CopyOut> CopiesOut::start(const std::byte* from,
                                          int64_t bytes,
                                          cudaStream_t stream) {
  RIDGE_CHECK(bytes <= kMostBytes, "{} bytes do not fit into a landing", bytes);
  if (free_.empty()) free_.push_back(make_landing());
  Landing landing = free_.back();
  free_.pop_back();
  auto copy = std::make_unique<LandedCopy>(landing, bytes, free_, faults_);
  if (bytes > 0)
    check(cudaMemcpyAsync(landing.host, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                          stream),
          "copying from the GPU");
  check(cudaEventRecord(landing.done, stream), "copying from the GPU");
  return copy;
}

}  // namespace ridge::backends::cuda
