// SPDX-License-Identifier: Apache-2.0
// Runs a legal graph through a program on a backend whose memory is checked. Temporaries start as
// NaN, which exposes kernels that read unwritten memory, and guards around each allocation detect
// out-of-bounds writes.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "ops/reference_run.h"
#include "runtime/program.h"

namespace ridge::backends {

// Forwards everything to another backend except allocations.
class GuardedBackend final : public Backend {
 public:
  static constexpr int64_t kGuardBytes = 256;  // keeps the alignment of the memory between guards
  static constexpr std::byte kGuard{0xA5};
  static constexpr std::byte kNan{0xFF};  // NaN in f32 and bf16, -1 in i32

  explicit GuardedBackend(Backend& inner) : inner_(inner) {}

  std::string_view name() const override { return inner_.name(); }
  std::string unsupported(const Graph& g, const Node& n) const override {
    return inner_.unsupported(g, n);
  }
  bool takes_input(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return inner_.takes_input(g, n, i, l);
  }
  bool takes_output(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return inner_.takes_output(g, n, i, l);
  }
  bool takes_start(const Graph& g, const Node& n, int i, int64_t offset) const override {
    return inner_.takes_start(g, n, i, offset);
  }
  bool runs_in_place(const Graph& g, const Node& n, int o, int i) const override {
    return inner_.runs_in_place(g, n, o, i);
  }
  int64_t workspace_bytes(const Graph& g, const Node& n) const override {
    return inner_.workspace_bytes(g, n);
  }
  int launches(const Graph& g, const Node& n) const override { return inner_.launches(g, n); }
  plan::FlashScores flash_scores(const Call& call) const override {
    return inner_.flash_scores(call);
  }

  std::unique_ptr<Memory> allocate(int64_t bytes, const char* what) override {
    auto memory =
        std::make_unique<Guarded>(*this, inner_.allocate(bytes + 2 * kGuardBytes, what), bytes);
    if (std::string_view(what) == "arena of temporaries") {
      fill(memory->data(), bytes, kNan);
      arena_ = memory->data();
    }
    return memory;
  }
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    inner_.copy_in(to, from, bytes);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    inner_.copy_out(to, from, bytes);
  }
  void synchronize() override { inner_.synchronize(); }
  Launch bind(const BindCall& call) override { return inner_.bind(call); }

  std::byte* arena() const { return arena_; }
  bool guards_are_intact() const {
    return std::all_of(live_.begin(), live_.end(),
                       [](const Guarded* memory) { return memory->is_intact(); });
  }

 private:
  class Guarded final : public Memory {
   public:
    Guarded(GuardedBackend& owner, std::unique_ptr<Memory> whole, int64_t bytes)
        : owner_(owner), whole_(std::move(whole)), bytes_(bytes) {
      owner_.fill(whole_->data(), kGuardBytes, kGuard);
      owner_.fill(data() + bytes_, kGuardBytes, kGuard);
      owner_.live_.insert(this);
    }
    ~Guarded() override { owner_.live_.erase(this); }
    std::byte* data() const override { return whole_->data() + kGuardBytes; }
    int64_t bytes() const override { return bytes_; }
    bool is_intact() const {
      auto guarded = [this](const std::byte* at) {
        std::byte found[kGuardBytes];
        owner_.copy_out(found, at, kGuardBytes);
        return std::all_of(found, found + kGuardBytes, [](std::byte b) { return b == kGuard; });
      };
      return guarded(whole_->data()) && guarded(data() + bytes_);
    }

   private:
    GuardedBackend& owner_;
    std::unique_ptr<Memory> whole_;
    int64_t bytes_;
  };

  // The memory may be on a device.
  void fill(std::byte* at, int64_t bytes, std::byte value) {
    std::vector<std::byte> block(static_cast<size_t>(bytes), value);
    inner_.copy_in(at, block.data(), bytes);
  }

  Backend& inner_;
  std::byte* arena_ = nullptr;
  std::set<const Guarded*> live_;
};

// Converts one element at `at` to and from double.
inline double load_element(const std::byte* at, DType dtype) {
  auto as = [&]<typename T>(T value) { return std::memcpy(&value, at, sizeof value), value; };
  switch (dtype) {
    case DType::kF32:
      return as(float{});
    case DType::kF64:
      return as(double{});
    case DType::kI32:
      return as(int32_t{});
    case DType::kI8:
      return as(int8_t{});
    case DType::kF8E4M3:
      return f8_e4m3_to_float(as(uint8_t{}));
    case DType::kBF16:
      return bf16_to_float(as(uint16_t{}));
    case DType::kF16:
      return f16_to_float(as(uint16_t{}));
    default:
      throw InternalError("the tests hold no such element type");
  }
}

inline void store_element(std::byte* at, DType dtype, double value) {
  auto put = [&](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  switch (dtype) {
    case DType::kF32:
      return put(static_cast<float>(value));
    case DType::kF64:
      return put(value);
    case DType::kI32:
      return put(static_cast<int32_t>(value));
    case DType::kI8:
      return put(static_cast<int8_t>(value));
    case DType::kF8E4M3:
      return put(float_to_f8_e4m3(static_cast<float>(value)));
    case DType::kBF16:
      return put(float_to_bf16(static_cast<float>(value)));
    case DType::kF16:
      return put(float_to_f16(static_cast<float>(value)));
    default:
      throw InternalError("the tests hold no such element type");
  }
}

// A program of one graph with its store; the graph must be legal for the backend.
class GraphRun {
 public:
  GraphRun(Backend& backend, Graph graph)
      : guarded_(backend), store_(guarded_), program_(guarded_, store_) {
    program_.add("test", std::move(graph));
    program_.bind();
  }

  void write(const std::string& name, const Tensor64& tensor) {
    std::byte* to = store_.require(name, tensor.type);
    int64_t element = storage_bytes(tensor.type.dtype, 1);
    std::vector<std::byte> bytes(tensor.data.size() * static_cast<size_t>(element));
    for (size_t i = 0; i < tensor.data.size(); ++i)
      store_element(bytes.data() + static_cast<int64_t>(i) * element, tensor.type.dtype,
                    tensor.data[i]);
    guarded_.copy_in(to, bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  void write(const ops::NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) write(name, tensor);
  }

  void run() { program_.run(0); }

  Tensor64 read(ValueId value) {
    const plan::PlannedGraph& planned = *program_.graph(0).costed;
    const plan::Place& place = plan::at(planned.places, value);
    const Value& root = planned.graph.value(place.root);
    std::byte* base = nullptr;
    if (root.storage == Storage::kTemporary) {
      int buffer = planned.memory.buffer_of[static_cast<size_t>(place.root)];
      base = guarded_.arena() + planned.memory.buffers[static_cast<size_t>(buffer)].offset;
    } else {
      base = store_.require(root.name, root.type);
    }
    // Copies the whole buffer to the host and extracts the value from it.
    int64_t bytes = storage_bytes(root.type.dtype, root.type.shape.elements());
    std::vector<std::byte> host(static_cast<size_t>(bytes));
    guarded_.copy_out(host.data(), base, bytes);
    return read(host.data(), planned.graph.type(value), place.layout);
  }

  std::vector<Tensor64> outputs() {
    std::vector<Tensor64> outputs;
    for (ValueId output : program_.graph(0).graph().outputs) outputs.push_back(read(output));
    return outputs;
  }

  bool guards_are_intact() const { return guarded_.guards_are_intact(); }
  const Graph& graph() const { return program_.graph(0).graph(); }
  runtime::Store& store() { return store_; }

 private:
  static Tensor64 read(const std::byte* base, const Type& type, const Layout& layout) {
    Tensor64 tensor{type, {}};
    Strides dense = dense_strides(type.shape);
    for (int64_t i = 0; i < type.shape.elements(); ++i) {
      int64_t at = layout.offset;
      for (int axis = 0; axis < type.shape.rank(); ++axis)
        at += i / dense[axis] % type.shape[axis] * layout.strides[axis];
      tensor.data.push_back(load_element(base + at * storage_bytes(type.dtype, 1), type.dtype));
    }
    return tensor;
  }

  GuardedBackend guarded_;
  runtime::Store store_;
  runtime::Program program_;
};

}  // namespace ridge::backends
