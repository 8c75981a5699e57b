// SPDX-License-Identifier: Apache-2.0
// Implements atomic files with POSIX calls and checks each result.
#include "files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "files/system_reason.h"

namespace ridge::files {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;  // makes the cost of a system call negligible

// Called after write() fails with EFAULT, as it does for bytes of a mapped file that shrank.
// Reading them raises SIGBUS, whose handler names the mapped file; the error of write() would name
// the output file.
void read_each_page(std::span<const std::byte> bytes) {
  const int error = errno;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < bytes.size(); at += page)
    static_cast<void>(*const_cast<const volatile std::byte*>(&bytes[at]));
  static_cast<void>(*const_cast<const volatile std::byte*>(&bytes.back()));
  errno = error;
}

}  // namespace

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = fd < 0 || ::fsync(fd) != 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  // Some folders may not be read, and some file systems sync none; the files are safe by then.
  for (const int harmless : {0, EACCES, EINVAL, EROFS, ENOTSUP, ENOSYS})
    if (error == harmless) return;
  throw runtime_error("[{}] cannot flush the folder to disk: {}", folder.string(),
                      system_reason(error));
}

AtomicFile::AtomicFile(const std::filesystem::path& path, Links links) : path_(path) {
  std::error_code error;
  if (links == Links::kFollow && std::filesystem::is_symlink(path_, error)) {
    path_ = std::filesystem::weakly_canonical(path_, error);
    if (error)
      throw runtime_error("[{}] cannot follow the link: {}", path.string(), error.message());
  }
  struct stat status {};
  const bool exists = ::lstat(path_.c_str(), &status) == 0 && !S_ISLNK(status.st_mode);
  if (exists && S_ISDIR(status.st_mode))
    throw runtime_error("[{}] cannot write: expected a file, found a folder", path.string());
  if (exists && !S_ISREG(status.st_mode))
    throw runtime_error("[{}] cannot write: expected a regular file", path.string());
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  if (!path_.has_filename()) throw runtime_error("[{}] cannot write: no file name", path.string());
  temporary_ = Unfinished::file(folder);
  if (temporary_.path().empty())
    throw runtime_error("[{}] cannot write into {}: {}", path.string(), folder.string(),
                        system_reason(errno));
  // A replaced file keeps its permissions. If that is not permitted, the default ones stay.
  if (exists && ::fchmod(temporary_.descriptor(), status.st_mode & 07777) != 0) errno = 0;
}

AtomicFile::~AtomicFile() {
  if (!temporary_.path().empty()) ::unlink(temporary_.path().c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  RIDGE_CHECK(!finished_, "write to {} after finish", path_.string());
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
    const ssize_t count = ::write(temporary_.descriptor(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EFAULT) read_each_page(bytes);
    if (count <= 0)
      throw runtime_error("[{}] cannot write after {} bytes: {}", path_.string(), written_bytes_,
                          count == 0 ? "nothing was taken" : system_reason(errno));
    written_bytes_ += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::finish() {
  RIDGE_CHECK(!finished_, "{} is already finished", path_.string());
  flush();
  buffer_ = {};
  // With delayed allocation, a full disk is reported only here.
  if (::fsync(temporary_.descriptor()) != 0)
    throw runtime_error("[{}] cannot flush {} bytes to disk: {}", path_.string(), written_bytes_,
                        system_reason(errno));
  finished_ = true;
}

void AtomicFile::commit() {
  RIDGE_CHECK(!temporary_.path().empty(), "second commit of {}", path_.string());
  if (!finished_) finish();
  if (::rename(temporary_.path().c_str(), path_.c_str()) != 0)
    throw runtime_error("[{}] cannot rename into place: {}", path_.string(), system_reason(errno));
  temporary_ = {};
  sync_folder(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

void write_file(const std::filesystem::path& path, std::string_view contents, Links links) {
  AtomicFile file(path, links);
  file.write(contents);
  file.commit();
}

}  // namespace ridge::files
