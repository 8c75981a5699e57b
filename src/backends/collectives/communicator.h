// SPDX-License-Identifier: Apache-2.0
// How the ranks of a run exchange data in host memory. The graph's collectives call it; it knows
// neither graphs nor layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/collectives/collective_listener.h"
#include "base/dtype.h"

namespace ridge::backends {

// A dense tensor that each rank has, in place.
struct Exchanged {
  std::byte* data = nullptr;
  int64_t elements = 0;
  DType dtype = DType::kF32;  // f32, bf16 or f16
};

// A dense tensor of which each rank of a group has, or gets, one part. The whole tensor is the
// parts of all ranks, one after the other in their order; it and the part do not overlap.
struct Divided {
  std::byte* part = nullptr;
  std::byte* whole = nullptr;
  int64_t elements = 0;  // the number in a part
  DType dtype = DType::kF32;

  int64_t part_bytes() const { return storage_bytes(dtype, elements); }
};

// A group of ranks. All of them call the same functions in the same order with tensors of the same
// sizes and types.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string library() const = 0;  // "Open MPI 4.1.4"

  // Replaces each tensor by its sum over the ranks, or by their average; every rank gets the same
  // bits. Returns when it is done. `what` names the collective. Throws a run-time Error that has it
  // if another rank does not take part in time.
  virtual void all_reduce(std::span<const Exchanged> tensors,
                          bool average,
                          std::string_view what) = 0;
  // Fills each whole tensor with the parts of all ranks. It moves bytes, of any type.
  virtual void all_gather(std::span<const Divided> tensors, std::string_view what) = 0;
  // Fills each part with this rank's part of the sum, or of the average, of the ranks' whole
  // tensors, which may be overwritten.
  virtual void reduce_scatter(std::span<const Divided> tensors,
                              bool average,
                              std::string_view what) = 0;
  // In a group of two: the tensor goes to the other rank, which receives one of the same size.
  // `send` returns once the bytes may be overwritten.
  virtual void send(const Exchanged& tensor, std::string_view what) = 0;
  virtual void receive(const Exchanged& tensor, std::string_view what) = 0;
  // Whether it is true on any rank. Returns when every rank has called it.
  bool any(bool here) {
    const Told told(listener_, any_);
    return find_any(here);
  }
  // The texts of all ranks, in their order.
  std::vector<std::string> gather(const std::string& text) {
    const Told told(listener_, gather_);
    return gather_texts(text);
  }
  // Fills the whole tensor with the parts of all ranks, beside a run.
  void gather(const Divided& tensor) {
    const Told told(listener_, gather_);
    all_gather({&tensor, 1}, "a gathering of parts");
  }
  // Tells the listener of these from now on; the executor tells it of the graph's collectives.
  void tell(CollectiveListener* listener, const std::string& group) {
    listener_ = listener;
    any_.op = "any", gather_.op = "gather";
    any_.group = gather_.group = group;
  }

 protected:
  virtual bool find_any(bool here) = 0;
  virtual std::vector<std::string> gather_texts(const std::string& text) = 0;

 private:
  CollectiveListener* listener_ = nullptr;
  plan::Collective any_, gather_;
};

// The ranks of a run, which divide themselves into groups. The groups must not outlive it.
class RankWorld {
 public:
  virtual ~RankWorld() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The ranks that give the same number; they are numbered in the order of the world. Every rank of
  // the world calls it.
  virtual std::unique_ptr<Communicator> split(int number) = 0;
};

// The groups of ranks of a run by their names in the graph. A process that runs alone has none.
using Groups = std::map<std::string, std::unique_ptr<Communicator>, std::less<>>;

}  // namespace ridge::backends
