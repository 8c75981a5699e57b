// SPDX-License-Identifier: Apache-2.0
// The shared memory is a file without a name that the first rank of each host makes; the others
// open it by way of that process.
#include "runtime/rank_board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/split.h"
#include "runtime/rank_clock.h"

namespace ridge::runtime {

// Texts end with a zero, also while another process writes them: the last byte stays zero.
struct RankBoard::Entry {
  int64_t number, node, bytes;
  int64_t on_device;  // its number among those on the device, from 1; 0: the host's
  double begin_ns;
  std::atomic<double> end_ns;
  bool is_finite;
  char group[16], op[24], graph[40], scope[104];
};
struct GroupOnBoard {
  char name[16];
  int64_t first, count;
};
struct RankBoard::Rank {
  std::atomic<int64_t> count;  // entries that have begun
  std::atomic<int64_t> stage;  // see below
  int64_t process;
  GroupOnBoard groups[8];
  char error[1024];
  Entry ring[kKept];
};
struct RankBoard::Shared {
  double begin_ns;                       // the run began
  std::atomic<int> claimed[2], told[2];  // by word
  Rank ranks[1];                         // as many as there are
};

namespace {

enum Stage : int64_t { kRuns, kFailed, kDone };

template <size_t size>
void put(char (&to)[size], const std::string& text) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  std::memset(to + length, 0, size - length);
}

std::map<std::string, int64_t> groups_of(std::span<const GroupOnBoard> groups) {
  std::map<std::string, int64_t> all;
  for (const GroupOnBoard& each : groups)
    if (each.name[0] != 0) all[each.name] = each.first;
  return all;
}

// The letter of /proc: T of a stopped process, Z of one that has ended; 0 if there is none.
char process_state(int64_t process) {
  std::ifstream in(fmt::format("/proc/{}/stat", process));
  std::string text;
  if (!std::getline(in, text)) return 0;
  const size_t name_end = text.rfind(')');  // a program's name may contain anything
  return name_end + 2 < text.size() ? text[name_end + 2] : 0;
}

}  // namespace

RankBoard::RankBoard(backends::Communicator& all) : rank_(all.rank()) {
  // The first rank of each host makes the memory; who is first is known after a first exchange.
  for (const std::string& host : all.gather(host_name())) hosts_.push_back(host);
  const auto first = std::ranges::find(hosts_, hosts_[static_cast<size_t>(rank_)]) - hosts_.begin();
  bytes_ = sizeof(Shared) + sizeof(Rank) * (hosts_.size() - 1);
  int file = -1;
  if (first == rank_) {
    file = ::memfd_create("ridge-ranks", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0)
      throw runtime_error("[ranks] cannot make shared memory: {}", std::strerror(errno));
  }
  const std::vector<std::string> places =
      all.gather(fmt::format("{} {} {}", ::getpid(), file, utc_now()));
  job_ = hosts_[0] + " " + places[0];
  if (file < 0) {
    const std::vector<std::string> place = split(places[static_cast<size_t>(first)], ' ');
    file = ::open(fmt::format("/proc/{}/fd/{}", place[0], place[1]).c_str(), O_RDWR | O_CLOEXEC);
  }
  void* memory =
      file < 0 ? MAP_FAILED : ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  all.any(false);  // the file stays until all have opened it
  if (file >= 0) ::close(file);
  if (memory == MAP_FAILED)
    throw runtime_error("[ranks] cannot share memory with rank {}: {}", first,
                        std::strerror(error));
  shared_ = static_cast<Shared*>(memory);
  if (first == rank_) shared_->begin_ns = now_ns();
  of(rank_).process = ::getpid();
  all.any(false);
}

RankBoard::~RankBoard() { ::munmap(shared_, bytes_); }

RankBoard::Rank& RankBoard::of(int rank) const { return shared_->ranks[rank]; }

RankBoard::Entry& RankBoard::entry(int rank, int64_t number) const {
  return of(rank).ring[number % kKept];
}

void RankBoard::add_group(const std::string& name, backends::Communicator& group) {
  const int64_t first = std::stoll(group.gather(std::to_string(rank_))[0]);
  for (GroupOnBoard& each : of(rank_).groups) {
    if (each.name[0] != 0) continue;
    each.first = first;
    put(each.name, name);
    return;
  }
}

std::map<std::string, int64_t> RankBoard::groups() const { return groups_of(of(rank_).groups); }

int64_t RankBoard::begin(const plan::Collective& collective, bool is_finite, bool is_on_device) {
  Rank& own = of(rank_);
  const int64_t at = own.count.load(std::memory_order_relaxed);
  Entry& to = entry(rank_, at);
  to.number = 0;
  for (GroupOnBoard& each : own.groups)
    if (collective.group == each.name) to.number = each.count++;
  to.node = collective.node, to.bytes = 0;
  for (const Type& each : collective.tensors)
    to.bytes += storage_bytes(each.dtype, each.shape.elements());
  to.is_finite = is_finite, to.on_device = is_on_device ? ++on_device_ : 0;
  put(to.group, collective.group), put(to.op, collective.op);
  put(to.graph, collective.graph), put(to.scope, collective.scope);
  to.begin_ns = now_ns(), to.end_ns = 0;
  own.count.store(at + 1, std::memory_order_release);
  return at;
}

void RankBoard::end(int64_t entry_number) { entry(rank_, entry_number).end_ns = now_ns(); }

int64_t RankBoard::first_open() {
  const int64_t count = of(rank_).count.load(std::memory_order_acquire);
  open_ = std::max(open_, count - kKept);
  while (open_ < count && entry(rank_, open_).end_ns != 0) ++open_;
  return open_ < count ? open_ : -1;
}

void RankBoard::end_on_device(int64_t finished) {
  const int64_t count = of(rank_).count.load(std::memory_order_acquire);
  for (int64_t i = std::max(open_, count - kKept); i < count; ++i) {
    Entry& each = entry(rank_, i);
    if (each.on_device > 0 && each.on_device <= finished && each.end_ns == 0)
      each.end_ns = now_ns();
  }
}

void RankBoard::fail(const std::string& error) {
  put(of(rank_).error, error);
  of(rank_).stage = kFailed;
}

void RankBoard::leave() { of(rank_).stage = kDone; }

std::string RankBoard::state(int rank) const {
  if (of(rank).stage == kDone) return "done";
  const char letter = process_state(of(rank).process);
  if (of(rank).stage == kFailed) return "failed";
  if (letter == 0 || letter == 'Z' || letter == 'X') return "gone";
  return letter == 'T' ? "stopped" : "runs";
}

bool RankBoard::has_failed_alike(int rank, const std::string& error) const {
  return of(rank).stage == kFailed && error.starts_with(of(rank).error);
}

record::RankRing RankBoard::ring(int rank) const {
  const Rank& from = of(rank);
  const auto seconds = [&](double ns) { return ns == 0 ? 0 : 1e-9 * (ns - shared_->begin_ns); };
  record::RankRing ring;
  ring.job = job_, ring.rank = rank, ring.ranks = ranks();
  ring.host = hosts_[static_cast<size_t>(rank)], ring.process = from.process;
  ring.state = state(rank), ring.error = of(rank).error, ring.at_s = seconds(now_ns());
  ring.groups = groups_of(from.groups);
  const int64_t count = from.count.load(std::memory_order_acquire);
  for (int64_t i = std::max<int64_t>(count - kKept, 0); i < count; ++i) {
    const Entry& each = entry(rank, i);
    ring.collectives.push_back({each.number, each.group, each.graph, each.op, each.scope, each.node,
                                each.bytes, seconds(each.begin_ns), seconds(each.end_ns),
                                each.is_finite});
  }
  return ring;
}

std::vector<record::RankRing> RankBoard::rings() const {
  std::vector<record::RankRing> all;
  for (int rank = 0; rank < ranks(); ++rank)
    if (is_here(rank)) all.push_back(ring(rank));
  return all;
}

bool RankBoard::claim(Word word) {
  int nobody = 0;
  return shared_->claimed[static_cast<size_t>(word)].compare_exchange_strong(nobody, 1);
}
void RankBoard::set_told(Word word) { shared_->told[static_cast<size_t>(word)] = 1; }
bool RankBoard::is_told(Word word) const { return shared_->told[static_cast<size_t>(word)] != 0; }

}  // namespace ridge::runtime
