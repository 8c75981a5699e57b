// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD: counts the system calls that change a folder, writes each to a log, and
// lets the n-th one fail. Not linked to anything of Ridge.
//
// RIDGE_CALLS_FOLDER  the absolute path of the folder; without it nothing is counted
// RIDGE_CALLS_LOG     a file that gets a line for each call: "NAME PATH" or "rename FROM TO"
// RIDGE_CALLS_FAIL    the number of the call that fails, from 1
// RIDGE_CALLS_HOW     EIO or ENOSPC: it fails with this error; SHORT: a write takes half of its
//                     bytes, other calls fail with EIO; KILL: the program is killed before it
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<int> calls{0};

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_how(const char* how) { return std::strcmp(variable("RIDGE_CALLS_HOW"), how) == 0; }

// The absolute path of a name relative to a folder's descriptor.
void resolve(int folder, const char* name, char (&path)[PATH_MAX]) {
  path[0] = 0;
  if (name[0] == '/') {
    std::snprintf(path, sizeof path, "%s", name);
    return;
  }
  char base[PATH_MAX / 2] = "", link[64];
  if (folder == AT_FDCWD) {
    if (::getcwd(base, sizeof base) == nullptr) return;
  } else {
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const ssize_t size = ::readlink(link, base, sizeof base - 1);
    if (size < 0) return;
    base[size] = 0;
  }
  std::snprintf(path, sizeof path, "%s%s%.2000s", base, name[0] != 0 ? "/" : "", name);
}

enum class Fate { kRuns, kFails, kShort };

// Counts a call if it is one on the folder.
Fate fate(const char* name, const char* path, const char* other = "") {
  const char* folder = variable("RIDGE_CALLS_FOLDER");
  if (folder[0] == 0 || std::strncmp(path, folder, std::strlen(folder)) != 0) return Fate::kRuns;
  const int number = ++calls;
  if (const char* log = variable("RIDGE_CALLS_LOG"); log[0] != 0) {
    char line[2 * PATH_MAX + 64];
    const int size = std::snprintf(line, sizeof line, "%s %s%s%s\n", name, path,
                                   other[0] != 0 ? " " : "", other);
    const long fd = ::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd >= 0) {
      static_cast<void>(::syscall(SYS_write, fd, line, size));
      ::syscall(SYS_close, fd);
    }
  }
  if (number != std::atoi(variable("RIDGE_CALLS_FAIL"))) return Fate::kRuns;
  if (is_how("KILL")) ::kill(::getpid(), SIGKILL);
  if (is_how("SHORT") && std::strcmp(name, "write") == 0) return Fate::kShort;
  errno = is_how("ENOSPC") ? ENOSPC : EIO;
  return Fate::kFails;
}

int open_file(int folder, const char* name, int flags, mode_t mode) {
  char path[PATH_MAX];
  resolve(folder, name, path);
  if ((flags & O_CREAT) != 0 && fate("create", path) != Fate::kRuns) return -1;
  return static_cast<int>(::syscall(SYS_openat, folder, name, flags, mode));
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

int sync_file(const char* name, long call, int fd) {
  char path[PATH_MAX];
  resolve(fd, "", path);
  return fate(name, path) != Fate::kRuns ? -1 : static_cast<int>(::syscall(call, fd));
}

int remove_name(int folder, const char* name, int flags) {
  char path[PATH_MAX];
  resolve(folder, name, path);
  return fate("remove", path) != Fate::kRuns
             ? -1
             : static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}

}  // namespace

extern "C" {

#define RIDGE_OPEN(NAME)                           \
  int NAME(const char* name, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    return open_file(AT_FDCWD, name, flags, mode); \
  }
#define RIDGE_OPEN_AT(NAME)                                \
  int NAME(int folder, const char* name, int flags, ...) { \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    const mode_t mode = mode_of(flags, arguments);         \
    va_end(arguments);                                     \
    return open_file(folder, name, flags, mode);           \
  }
RIDGE_OPEN(open)
RIDGE_OPEN(open64)
RIDGE_OPEN_AT(openat)
RIDGE_OPEN_AT(openat64)

ssize_t write(int fd, const void* bytes, size_t count) {
  char path[PATH_MAX];
  resolve(fd, "", path);
  const Fate how = fate("write", path);
  if (how == Fate::kFails) return -1;
  return ::syscall(SYS_write, fd, bytes, how == Fate::kShort ? (count + 1) / 2 : count);
}

int fsync(int fd) { return sync_file("fsync", SYS_fsync, fd); }
int fdatasync(int fd) { return sync_file("fsync", SYS_fdatasync, fd); }

int rename(const char* from, const char* to) {
  char before[PATH_MAX], after[PATH_MAX];
  resolve(AT_FDCWD, from, before);
  resolve(AT_FDCWD, to, after);
  return fate("rename", before, after) != Fate::kRuns
             ? -1
             : static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

int mkdir(const char* name, mode_t mode) {
  char path[PATH_MAX];
  resolve(AT_FDCWD, name, path);
  return fate("mkdir", path) != Fate::kRuns
             ? -1
             : static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, name, mode));
}

int unlink(const char* name) { return remove_name(AT_FDCWD, name, 0); }
int rmdir(const char* name) { return remove_name(AT_FDCWD, name, AT_REMOVEDIR); }
int unlinkat(int folder, const char* name, int flags) { return remove_name(folder, name, flags); }
int remove(const char* name) {
  const int result = remove_name(AT_FDCWD, name, 0);
  return result != 0 && errno == EISDIR ? remove_name(AT_FDCWD, name, AT_REMOVEDIR) : result;
}

}  // extern "C"
