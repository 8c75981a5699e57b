// SPDX-License-Identifier: Apache-2.0
// The map of values and the transfers.
#include "runtime/store.h"

#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "base/error.h"

namespace ridge::runtime {

void Store::reserve(int64_t bytes) {
  RIDGE_CHECK(reserved_ == nullptr, "the store has a reserve of {} bytes", reserved_->bytes());
  if (bytes > 0 && backend_.borrow({}) != nullptr) reserved_ = backend_.allocate(bytes, "weights");
}

std::unique_ptr<backends::Memory> Store::allocate(const std::string& name, int64_t bytes) {
  int64_t taken = round_up(std::max<int64_t>(bytes, 1), kAlignmentBytes);
  if (reserved_ == nullptr || reserved_used_ + taken > reserved_->bytes())
    return backend_.allocate(taken, name.c_str());
  std::byte* at = reserved_->data() + reserved_used_;
  reserved_used_ += taken;
  return backend_.borrow({at, static_cast<size_t>(taken)});
}

std::byte* Store::require(const std::string& name, const Type& type) {
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    int64_t bytes = storage_bytes(type.dtype, type.shape.elements());
    Entry entry{type, allocate(name, bytes), bytes};
    found = entries_.emplace(name, std::move(entry)).first;
  }
  RIDGE_CHECK(found->second.type == type, "'{}' is stored as {} and asked for as {}", name,
              found->second.type.str(), type.str());
  return found->second.memory->data();
}

void Store::adopt(const std::string& name, const Type& type, std::span<const std::byte> bytes) {
  RIDGE_CHECK(!has(name), "'{}' is stored already", name);
  RIDGE_CHECK(
      static_cast<int64_t>(bytes.size()) == storage_bytes(type.dtype, type.shape.elements()),
      "'{}' of {} has {} bytes", name, type.str(), bytes.size());
  // Kernels read whole elements, so values that are not aligned in the file are copied.
  int64_t alignment = is_block(type.dtype) ? 2 : info(type.dtype).bytes_per_block;
  bool is_aligned =
      reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(alignment) == 0;
  std::unique_ptr<backends::Memory> borrowed = is_aligned ? backend_.borrow(bytes) : nullptr;
  if (borrowed == nullptr) {
    require(name, type);
    write(name, bytes.data(), static_cast<int64_t>(bytes.size()));
    return;
  }
  entries_.emplace(name, Entry{type, std::move(borrowed), static_cast<int64_t>(bytes.size())});
}

const Store::Entry& Store::at(std::string_view name) const {
  auto found = entries_.find(name);
  RIDGE_CHECK(found != entries_.end(), "nothing is stored as '{}'", name);
  return found->second;
}

std::vector<std::string> Store::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

int64_t Store::bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.memory->bytes();
  return bytes;
}

void Store::write(std::string_view name, const void* data, int64_t bytes) {
  const Entry& entry = at(name);
  RIDGE_CHECK(entry.bytes == bytes, "'{}' has {} bytes, {} were written", name, entry.bytes, bytes);
  backend_.copy_in(entry.memory->data(), data, bytes);
}

void Store::write_input(std::string_view name, const void* data, int64_t bytes) {
  auto found = entries_.find(name);
  RIDGE_CHECK(found != entries_.end(), "nothing is stored as '{}'", name);
  std::vector<std::byte>& sent = found->second.sent;
  size_t size = static_cast<size_t>(bytes);
  if (sent.size() == size && std::memcmp(sent.data(), data, size) == 0) return;
  const auto* from = static_cast<const std::byte*>(data);
  sent.assign(from, from + bytes);
  write(name, data, bytes);
  if (watcher_ != nullptr) watcher_->wrote(name, 0, sent);
}

void Store::write_part(std::string_view name,
                       int64_t begin_bytes,
                       const void* data,
                       int64_t bytes) {
  const Entry& entry = at(name);
  RIDGE_CHECK(begin_bytes >= 0 && bytes >= 0 && begin_bytes + bytes <= entry.bytes,
              "'{}' has {} bytes, {} from {} were written", name, entry.bytes, bytes, begin_bytes);
  backend_.copy_in(entry.memory->data() + begin_bytes, data, bytes);
  if (watcher_ != nullptr)
    watcher_->wrote(name, begin_bytes,
                    {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
}

void Store::copy(PartAt from, PartAt to, int64_t bytes) {
  const Entry& source = at(from.name);
  const auto found = entries_.find(to.name);
  RIDGE_CHECK(found != entries_.end(), "nothing is stored as '{}'", to.name);
  Entry& target = found->second;
  for (const auto& [entry, part] :
       {std::pair(&source, from), std::pair<const Entry*, PartAt>(&target, to)})
    RIDGE_CHECK(part.begin_bytes >= 0 && bytes >= 0 && part.begin_bytes + bytes <= entry->bytes,
                "'{}' has {} bytes, {} from {} were copied", part.name, entry->bytes, bytes,
                part.begin_bytes);
  target.sent.clear();  // The host does not know them.
  backend_.copy(target.memory->data() + to.begin_bytes, source.memory->data() + from.begin_bytes,
                bytes);
  if (watcher_ != nullptr) watcher_->copied(from, to, bytes);
}

std::unique_ptr<backends::CopyOut> Store::start_read(std::string_view name) const {
  const Entry& entry = at(name);
  return backend_.start_copy_out(entry.memory->data(), entry.bytes);
}

void Store::read(std::string_view name, void* data, int64_t bytes) const {
  const Entry& entry = at(name);
  RIDGE_CHECK(entry.bytes == bytes, "'{}' has {} bytes, {} were read", name, entry.bytes, bytes);
  backend_.copy_out(data, entry.memory->data(), bytes);
}

std::vector<float> Store::read_floats(std::string_view name) const {
  RIDGE_CHECK(at(name).type.dtype == DType::kF32, "'{}' is {}", name, at(name).type.str());
  std::vector<float> values(static_cast<size_t>(at(name).type.shape.elements()));
  read(name, values.data(), at(name).bytes);
  return values;
}

}  // namespace ridge::runtime
