// SPDX-License-Identifier: Apache-2.0
// Implements mapped files with mmap, with a message for each failure.
#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "base/error.h"
#include "files/system_reason.h"

namespace ridge::files {
namespace {

uint64_t page_bytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// The mapped files, in a list that a signal handler may walk: entries are reused, never freed.
struct Mapping {
  std::atomic<const std::byte*> data = nullptr;  // null: the entry is free
  size_t size = 0;
  std::string source;
  Mapping* next = nullptr;
};
std::atomic<Mapping*> mappings = nullptr;
std::mutex mappings_mutex;  // held while the list is changed

void enlist(const std::byte* data, size_t size, const std::string& source) {
  std::scoped_lock lock(mappings_mutex);
  Mapping* entry = mappings;
  while (entry != nullptr && entry->data != nullptr) entry = entry->next;
  const bool is_new = entry == nullptr;
  if (is_new) entry = new Mapping;
  entry->size = size;
  entry->source = source;
  entry->data = data;
  if (!is_new) return;
  entry->next = mappings;
  mappings = entry;
}

void delist(const std::byte* data) {
  std::scoped_lock lock(mappings_mutex);
  for (Mapping* entry = mappings; entry != nullptr; entry = entry->next)
    if (entry->data == data) entry->data = nullptr;
}

const Mapping* find_mapping(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  for (const Mapping* entry = mappings; entry != nullptr; entry = entry->next) {
    const std::byte* begin = entry->data;
    if (begin != nullptr && at >= begin && at < begin + entry->size) return entry;
  }
  return nullptr;
}

}  // namespace

bool is_mapped(const void* address) { return find_mapping(address) != nullptr; }

std::string unreadable_file(const void* address) {
  const Mapping* mapping = find_mapping(address);
  if (mapping == nullptr) return "a mapped file cannot be read";
  struct stat status {};
  if (::stat(mapping->source.c_str(), &status) == 0 &&
      static_cast<size_t>(status.st_size) < mapping->size)
    return fmt::format("[{}] the file shrank from {} to {} bytes while it was read",
                       mapping->source, mapping->size, status.st_size);
  return fmt::format("[{}] the file cannot be read at byte {}: it changed, or its disk failed",
                     mapping->source, static_cast<const std::byte*>(address) - mapping->data);
}

std::span<const std::byte> checked_part(std::span<const std::byte> bytes,
                                        uint64_t offset,
                                        uint64_t size,
                                        std::string_view source,
                                        std::string_view what) {
  if (offset > bytes.size() || size > bytes.size() - offset)
    throw file_error("[{}] {}: expected {} bytes at offset {}, the file has {} bytes", source, what,
                     size, offset, bytes.size());
  return bytes.subspan(offset, size);
}

MappedFile::MappedFile(const std::filesystem::path& path) : source_(path.string()) {
  // Non-blocking, so that opening a named pipe does not wait; it is rejected below.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw file_error("[{}] cannot open: {}", source_, system_reason(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    throw file_error("[{}] cannot stat: {}", source_, system_reason(errno));
  if (S_ISDIR(status.st_mode)) throw file_error("[{}] expected a file, found a folder", source_);
  if (!S_ISREG(status.st_mode)) throw file_error("[{}] expected a regular file", source_);
  if (status.st_size == 0) throw file_error("[{}] the file is empty", source_);
  size_ = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED)
    throw errno == ENOMEM
        ? memory_error("[{}] expected addresses for {} bytes, got: {}", source_, size_,
                       system_reason(ENOMEM))
        : file_error("[{}] cannot map {} bytes: {}", source_, size_, system_reason(errno));
  data_ =
      std::unique_ptr<const std::byte, Unmap>(static_cast<const std::byte*>(data), Unmap{size_});
  enlist(data_.get(), size_, source_);
}

void MappedFile::Unmap::operator()(const std::byte* data) const {
  delist(data);
  ::munmap(const_cast<std::byte*>(data), size);
}

// The offset of a part in the file.
uint64_t MappedFile::begin_of(std::span<const std::byte> part) const {
  RIDGE_CHECK(part.data() >= data_.get() && part.data() + part.size() <= data_.get() + size_,
              "the span is not part of {}", source_);
  return static_cast<uint64_t>(part.data() - data_.get());
}

// A hint for whole pages: failure is fine.
void MappedFile::advise(uint64_t begin, uint64_t end, int advice) const {
  if (begin < end) ::madvise(const_cast<std::byte*>(data_.get()) + begin, end - begin, advice);
}

void MappedFile::expect(std::span<const std::byte> part) const {
  const uint64_t begin = begin_of(part);
  advise(begin / page_bytes() * page_bytes(), begin + part.size(), MADV_WILLNEED);
}

// A page that `part` shares with its neighbours must not be dropped.
void MappedFile::release(std::span<const std::byte> part) const {
  const uint64_t page = page_bytes(), begin = begin_of(part), end = begin + part.size();
  advise((begin + page - 1) / page * page, end == size_ ? end : end / page * page, MADV_DONTNEED);
}

std::string read_small_file(const std::filesystem::path& path, size_t most_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > most_bytes)
    throw file_error("[{}] expected at most {} bytes, found {}", file.source(), most_bytes,
                     file.bytes().size());
  return std::string(file.text());
}

}  // namespace ridge::files
