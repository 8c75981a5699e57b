// SPDX-License-Identifier: Apache-2.0
// Keeps one list of temporaries for the process, and a lock on each one that other processes can
// see.
#include "files/unfinished.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

namespace ridge::files {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 10;
constexpr int kNameAttempts = 100;
constexpr std::string_view kPrefix = ".ridge-tmp-";

// Never destroyed, because threads may outlive main.
struct List {
  std::mutex mutex;
  std::set<fs::path> paths;
  std::set<fs::path> cleaned;  // folders already cleared of abandoned temporaries
};
List& list() {
  static List* made = new List;
  return *made;
}

// Short, so that a target name of the longest length still works.
fs::path new_name(const fs::path& parent) {
  static std::atomic<unsigned> counter{0};
  return parent / fmt::format("{}{}-{}", kPrefix, ::getpid(), counter++);
}

// Whether this process now holds the lock, or the file system has no locks. False if another
// process holds the lock or took the file for abandoned and removed it.
bool is_ours(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat status {};
  return ::fstat(fd, &status) != 0 || status.st_nlink > 0;
}

void remove_if_abandoned(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return;
  std::error_code ignored;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
  ::close(fd);
}

void clean_once(const fs::path& parent) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(parent, error);
  {
    std::scoped_lock lock(list().mutex);
    if (error || !list().cleaned.insert(folder).second) return;
  }
  remove_abandoned(folder);
}

// The first name for which `make` succeeds and the lock is acquired, entered into the list before
// remove_unfinished can look at it. `make` returns a descriptor, or -1.
template <typename Make>
std::pair<fs::path, int> make_locked(const fs::path& parent, const Make& make) {
  clean_once(parent);
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const fs::path path = new_name(parent);
    std::scoped_lock lock(list().mutex);
    const int fd = make(path.c_str());
    if (fd < 0 && errno != EEXIST) return {{}, -1};
    if (fd < 0) continue;
    if (is_ours(fd)) {
      list().paths.insert(path);
      return {path, fd};
    }
    ::close(fd);
  }
  return {{}, -1};
}

}  // namespace

Unfinished Unfinished::file(const fs::path& parent) {
  auto [path, fd] = make_locked(parent, [](const char* name) {
    return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  });
  return Unfinished(std::move(path), fd);
}

Unfinished Unfinished::folder(const fs::path& parent) {
  auto [path, fd] = make_locked(parent, [](const char* name) {
    return ::mkdir(name, 0700) != 0 ? -1 : ::open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  });
  return Unfinished(std::move(path), fd);
}

Unfinished::Unfinished(fs::path path, int fd) : path_(std::move(path)), fd_(fd) {}

Unfinished::~Unfinished() {
  if (path_.empty()) return;
  {
    std::scoped_lock lock(list().mutex);
    list().paths.erase(path_);
  }
  if (fd_ >= 0) ::close(fd_);
}

Unfinished::Unfinished(Unfinished&& other) noexcept
    : path_(std::exchange(other.path_, {})), fd_(std::exchange(other.fd_, -1)) {}

Unfinished& Unfinished::operator=(Unfinished&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

void remove_abandoned(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator each(parent, error), end; !error && each != end;
       each.increment(error))
    if (each->path().filename().string().starts_with(kPrefix)) remove_if_abandoned(each->path());
}

std::unique_lock<std::mutex> remove_unfinished() {
  std::unique_lock lock(list().mutex);
  std::error_code ignored;
  // Another thread may make a file in a folder while it is removed, hence the attempts; its next
  // file waits for the lock.
  for (const fs::path& path : list().paths)
    for (int attempt = 0; attempt < kAttempts && fs::exists(path, ignored); ++attempt)
      fs::remove_all(path, ignored);
  return lock;
}

}  // namespace ridge::files
