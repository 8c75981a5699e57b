// SPDX-License-Identifier: Apache-2.0
// mmap and its failures, said in words.
#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ridge::files {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

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

constexpr size_t kHugePageBytes = size_t{2} << 20;
// What is held twice while it is copied.
constexpr size_t kSettledBytes = size_t{4} << 20;

// Address space for `size` bytes from a huge page's boundary on; null where there is none.
std::byte* reserve_aligned(size_t size) {
  void* found = ::mmap(nullptr, size + kHugePageBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(found);
  const size_t before =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)),
               kept = (size + page - 1) / page * page;
  if (before > 0) ::munmap(begin, before);
  if (before + kept < size + kHugePageBytes)
    ::munmap(begin + before + kept, size + kHugePageBytes - before - kept);
  return begin + before;
}

}  // namespace

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
  // Non-blocking, so that a named pipe is refused below instead of waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw file_error("[{}] cannot open: {}", source_, reason(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    throw file_error("[{}] cannot stat: {}", source_, reason(errno));
  if (S_ISDIR(status.st_mode)) throw file_error("[{}] expected a file, found a folder", source_);
  if (!S_ISREG(status.st_mode)) throw file_error("[{}] expected a regular file", source_);
  if (status.st_size == 0) throw file_error("[{}] the file is empty", source_);
  size_ = static_cast<size_t>(status.st_size);
  std::byte* place = reserve_aligned(size_);
  void* data = ::mmap(place, size_, PROT_READ, MAP_PRIVATE | (place == nullptr ? 0 : MAP_FIXED),
                      file.get(), 0);
  if (data == MAP_FAILED)
    throw file_error("[{}] cannot map {} bytes: {}", source_, size_, reason(errno));
  data_ =
      std::unique_ptr<const std::byte, Unmap>(static_cast<const std::byte*>(data), Unmap{size_});
}

void MappedFile::Unmap::operator()(const std::byte* data) const {
  ::munmap(const_cast<std::byte*>(data), size);
}

// Two threads: one alone is bound by clearing and copying, not by memory.
void MappedFile::settle(std::span<const std::span<const std::byte>> needed) const {
  if (is_settled_) return;
  is_settled_ = true;
  std::vector<size_t> wanted((size_ + kSettledBytes - 1) / kSettledBytes, 0);
  for (std::span<const std::byte> part : needed) {
    if (part.data() < data_.get() || part.data() >= data_.get() + size_) continue;
    size_t begin = static_cast<size_t>(part.data() - data_.get()),
           end = std::min(begin + part.size(), size_);
    for (; begin < end; begin = (begin / kSettledBytes + 1) * kSettledBytes)
      wanted[begin / kSettledBytes] +=
          std::min(end, (begin / kSettledBytes + 1) * kSettledBytes) - begin;
  }
  std::atomic<size_t> next = 0;
  auto copy = [&] {
    for (size_t piece = 0; (piece = next.fetch_add(1)) < wanted.size();) {
      size_t begin = piece * kSettledBytes, end = std::min(begin + kSettledBytes, size_);
      if (2 * wanted[piece] >= end - begin) settle_part(begin, end);
    }
  };
  std::jthread second(copy);
  copy();
}

void MappedFile::settle_part(size_t begin, size_t end) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)),
               kept = (end - begin + page - 1) / page * page;
  std::byte* copy = reserve_aligned(end - begin);
  if (copy == nullptr) return;
  if (::mprotect(copy, kept, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(copy, kept);
    return;
  }
  ::madvise(copy, kept, MADV_HUGEPAGE);  // a hint: failure is fine
  std::memcpy(copy, data_.get() + begin, end - begin);
  ::mprotect(copy, kept, PROT_READ);
  std::byte* place = const_cast<std::byte*>(data_.get()) + begin;
  if (::mremap(copy, kept, kept, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED)
    ::munmap(copy, kept);
}

void MappedFile::prefetch(std::span<const std::byte> part) const {
  advise(part, MADV_WILLNEED, false);
}

// Settled bytes could not be read again.
void MappedFile::release(std::span<const std::byte> part) const {
  if (!is_settled_) advise(part, MADV_DONTNEED, true);
}

// A page shared with a neighbour may be prefetched but must not be dropped.
void MappedFile::advise(std::span<const std::byte> part, int advice, bool whole_pages_only) const {
  RIDGE_CHECK(part.data() >= data_.get() && part.data() + part.size() <= data_.get() + size_,
              "the span is not part of {}", source_);
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t begin = static_cast<uint64_t>(part.data() - data_.get()), end = begin + part.size();
  begin = whole_pages_only ? (begin + page - 1) / page * page : begin / page * page;
  if (whole_pages_only && end != size_) end = end / page * page;
  if (begin >= end) return;
  ::madvise(const_cast<std::byte*>(data_.get()) + begin, end - begin,
            advice);  // a hint: failure is fine
}

}  // namespace ridge::files
