// SPDX-License-Identifier: Apache-2.0
// Holds parameters, states and inputs by name, in the backend's memory. All graphs of a program
// share it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace ridge::runtime {

class StoreWatcher;

class Store {
 public:
  explicit Store(backends::Backend& backend) : backend_(backend) {}

  // Returns the bytes of a named value, zero-filled if new. The type of a name cannot change
  // (RIDGE_CHECKed).
  std::byte* require(const std::string& name, const Type& type);
  // Allocates one piece of host-readable memory for new values, so that it can use large pages.
  // Values that do not fit into it are allocated separately.
  void reserve(int64_t bytes);
  // Adds a value that uses the host's bytes in place, or a copy if the backend cannot read them
  // there. The bytes must outlive the store.
  void adopt(const std::string& name, const Type& type, std::span<const std::byte> bytes);
  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  const Type& type(std::string_view name) const { return at(name).type; }
  std::vector<std::string> names() const;
  int64_t bytes() const;

  // Copies whole values between host and device. Sizes are RIDGE_CHECKed.
  void write(std::string_view name, const void* data, int64_t bytes);
  void read(std::string_view name, void* data, int64_t bytes) const;
  // Writes a value that only the host writes. Bytes that did not change are not sent again.
  void write_input(std::string_view name, const void* data, int64_t bytes);
  void write_scalar(std::string_view name, float value) { write(name, &value, sizeof value); }
  // Writes `bytes` bytes from `begin_bytes` on.
  void write_part(std::string_view name, int64_t begin_bytes, const void* data, int64_t bytes);
  // A place in a value.
  struct PartAt {
    std::string_view name;
    int64_t begin_bytes = 0;
  };
  // Copies `bytes` bytes from a value to an input after all earlier launches.
  void copy(PartAt from, PartAt to, int64_t bytes);
  // Starts to read a whole value; see backends::Backend::start_copy_out.
  std::unique_ptr<backends::CopyOut> start_read(std::string_view name) const;
  std::vector<float> read_floats(std::string_view name) const;  // f32 values only
  // Tells `watcher` of what write_input and write_part change and of copies; null ends it.
  void watch(StoreWatcher* watcher) { watcher_ = watcher; }

 private:
  struct Entry {
    Type type;
    std::unique_ptr<backends::Memory> memory;
    int64_t bytes = 0;
    std::vector<std::byte> sent = {};  // the bytes last sent by write_input
  };
  const Entry& at(std::string_view name) const;

  std::unique_ptr<backends::Memory> allocate(const std::string& name, int64_t bytes);

  backends::Backend& backend_;
  StoreWatcher* watcher_ = nullptr;
  std::unique_ptr<backends::Memory> reserved_;
  int64_t reserved_used_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
};

class StoreWatcher {
 public:
  virtual ~StoreWatcher() = default;
  virtual void wrote(std::string_view name, int64_t begin, std::span<const std::byte> bytes) = 0;
  virtual void copied(Store::PartAt from, Store::PartAt to, int64_t bytes) = 0;
};

}  // namespace ridge::runtime
