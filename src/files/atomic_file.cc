// SPDX-License-Identifier: Apache-2.0
// POSIX calls, each checked.
#include "files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace ridge::files {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;  // large enough that a system call's cost vanishes
constexpr int kNameAttempts = 100;

std::string reason(int error) { return std::generic_category().message(error); }

// Makes a rename survive a power cut. Some file systems
// refuse to sync a folder; the data is safe by then.
void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

int create_beside(const std::filesystem::path& folder, Unfinished& temporary) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    // Short, so that a target name of the longest length still works.
    const auto path = folder / fmt::format(".ridge-tmp-{}-{}", ::getpid(), counter++);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) temporary = Unfinished(path);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  if (std::filesystem::is_symlink(path_, error)) {
    path_ = std::filesystem::weakly_canonical(path_, error);
    if (error)
      throw runtime_error("[{}] cannot follow the link: {}", path.string(), error.message());
  }
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode))
    throw runtime_error("[{}] cannot write: expected a file, found a folder", path.string());
  if (exists && !S_ISREG(status.st_mode))
    throw runtime_error("[{}] cannot write: expected a regular file", path.string());
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  if (!path_.has_filename()) throw runtime_error("[{}] cannot write: no file name", path.string());
  fd_ = create_beside(folder, temporary_);
  if (fd_ < 0)
    throw runtime_error("[{}] cannot write into {}: {}", path.string(), folder.string(),
                        reason(errno));
  // A replaced file keeps its permissions; where that is not allowed the default ones stay.
  if (exists && ::fchmod(fd_, status.st_mode & 07777) != 0) errno = 0;
}

AtomicFile::~AtomicFile() { discard(); }

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      written_bytes_(other.written_bytes_) {}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.path().empty()) ::unlink(temporary_.path().c_str());
  temporary_ = {};
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  RIDGE_CHECK(fd_ >= 0, "write to {} after finish", path_.string());
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes) return write_through(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::pad_to_multiple(int64_t alignment_bytes) {
  static constexpr std::byte kZeros[256] = {};
  RIDGE_CHECK(alignment_bytes > 0, "alignment {}", alignment_bytes);
  int64_t left = (alignment_bytes - size() % alignment_bytes) % alignment_bytes;
  for (; left > 0; left -= std::min<int64_t>(left, sizeof(kZeros)))
    write(std::span(kZeros).first(static_cast<size_t>(std::min<int64_t>(left, sizeof(kZeros)))));
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw runtime_error("[{}] cannot write after {} bytes: {}", path_.string(), written_bytes_,
                          count == 0 ? "nothing was taken" : reason(errno));
    written_bytes_ += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::finish() {
  RIDGE_CHECK(fd_ >= 0, "{} is already finished", path_.string());
  flush();
  buffer_ = {};
  // Delayed allocation reports a full disk only here.
  if (::fsync(fd_) != 0)
    throw runtime_error("[{}] cannot flush {} bytes to disk: {}", path_.string(), written_bytes_,
                        reason(errno));
  if (::close(std::exchange(fd_, -1)) != 0)
    throw runtime_error("[{}] cannot close: {}", path_.string(), reason(errno));
}

void AtomicFile::commit() {
  RIDGE_CHECK(!temporary_.path().empty(), "second commit of {}", path_.string());
  if (fd_ >= 0) finish();
  if (::rename(temporary_.path().c_str(), path_.c_str()) != 0)
    throw runtime_error("[{}] cannot rename into place: {}", path_.string(), reason(errno));
  temporary_ = {};
  sync_folder(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

}  // namespace ridge::files
