// SPDX-License-Identifier: Apache-2.0
// Binds the functions of an MPI library by name. Collectives are non-blocking and polled, so that a
// rank that does not come is noticed.
#include "backends/collectives/mpi.h"

#include "base/error.h"

#ifdef RIDGE_HAS_MPI

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include "backends/collectives/add_parts.h"

namespace ridge::backends {
namespace {

using Clock = std::chrono::steady_clock;

// The library's functions, and its objects where mpi.h has macros that would need to be linked.
struct Library {
  explicit Library(const std::string& name);
  // It stays open: MPI leaves threads and handlers behind.

  void* symbol(const char* name) const {
    void* found = ::dlsym(handle, name);
    if (found == nullptr) throw runtime_error("[mpi] {} has no {}", path, name);
    return found;
  }
  template <typename Function>
  void bind(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(symbol(name));
  }

  std::string path;
  void* handle = nullptr;
  decltype(&MPI_Init_thread) init = nullptr;
  decltype(&MPI_Finalize) finalize = nullptr;
  decltype(&MPI_Comm_rank) comm_rank = nullptr;
  decltype(&MPI_Comm_size) comm_size = nullptr;
  decltype(&MPI_Comm_split) comm_split = nullptr;
  decltype(&MPI_Comm_free) comm_free = nullptr;
  decltype(&MPI_Comm_set_errhandler) set_error_handler = nullptr;
  decltype(&MPI_Iallreduce) iallreduce = nullptr;
  decltype(&MPI_Iallgather) iallgather = nullptr;
  decltype(&MPI_Iallgatherv) iallgatherv = nullptr;
  decltype(&MPI_Wait) wait = nullptr;
  decltype(&MPI_Isend) isend = nullptr;
  decltype(&MPI_Irecv) irecv = nullptr;
  decltype(&MPI_Testall) testall = nullptr;
  decltype(&MPI_Error_string) error_string = nullptr;
  decltype(&MPI_Get_library_version) version = nullptr;
  MPI_Comm world = nullptr;
  MPI_Datatype i32 = nullptr, bytes = nullptr;
  MPI_Op most = nullptr;
  MPI_Errhandler returns = nullptr;

  void check(int code, std::string_view what) const;
};

Library::Library(const std::string& name)
    : path(name.empty() ? "libmpi.so.40" : name),
      // Its plug-ins look for its symbols.
      handle(::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
  if (handle == nullptr)
    throw runtime_error("[mpi] expected the library of Open MPI, got: {}", ::dlerror());
  bind(init, "MPI_Init_thread"), bind(finalize, "MPI_Finalize");
  bind(comm_rank, "MPI_Comm_rank"), bind(comm_size, "MPI_Comm_size");
  bind(comm_split, "MPI_Comm_split"), bind(comm_free, "MPI_Comm_free");
  bind(set_error_handler, "MPI_Comm_set_errhandler"), bind(error_string, "MPI_Error_string");
  bind(iallreduce, "MPI_Iallreduce"), bind(testall, "MPI_Testall");
  bind(iallgather, "MPI_Iallgather"), bind(iallgatherv, "MPI_Iallgatherv");
  bind(isend, "MPI_Isend"), bind(irecv, "MPI_Irecv"), bind(wait, "MPI_Wait");
  bind(version, "MPI_Get_library_version");
  world = static_cast<MPI_Comm>(symbol("ompi_mpi_comm_world"));
  i32 = static_cast<MPI_Datatype>(symbol("ompi_mpi_int32_t"));
  bytes = static_cast<MPI_Datatype>(symbol("ompi_mpi_byte"));
  most = static_cast<MPI_Op>(symbol("ompi_mpi_op_max"));
  returns = static_cast<MPI_Errhandler>(symbol("ompi_mpi_errors_return"));
}

void Library::check(int code, std::string_view what) const {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  error_string(code, text, &length);
  throw runtime_error("[ranks] {} failed: {}", what, text);
}

constexpr int kTag = 0, kSumTag = 1;

// A tensor of which each rank adds up a part, or all of it if it is small.
struct Summed {
  std::byte* data;
  std::byte* to;  // null: in place
  DType dtype;
  int64_t elements, part;
  bool is_small;

  int64_t begin(int rank) const {
    return is_small ? 0 : storage_bytes(dtype, std::min(rank * part, elements));
  }
  int64_t count(int rank) const {
    return is_small ? elements : std::clamp<int64_t>(elements - rank * part, 0, part);
  }
  int64_t bytes(int rank) const { return storage_bytes(dtype, count(rank)); }
};

int count_of(int64_t count, std::string_view what) {
  if (count > std::numeric_limits<int>::max())
    throw runtime_error("[ranks] {} has a part of {}, more than MPI counts", what, count);
  return static_cast<int>(count);
}

// The requests that a collective has started and waits for.
class Requests {
 public:
  Requests(const Library& mpi, MPI_Comm comm, std::string_view what)
      : mpi_(mpi), comm_(comm), what_(what) {}

  MPI_Request* next() { return &all_.emplace_back(); }
  void send(int other, const std::byte* data, int64_t bytes) {
    if (bytes == 0) return;
    const int count = count_of(bytes, what_);
    mpi_.check(mpi_.isend(data, count, mpi_.bytes, other, kSumTag, comm_, next()), what_);
  }
  void receive(int other, std::byte* data, int64_t bytes) {
    if (bytes == 0) return;
    const int count = count_of(bytes, what_);
    mpi_.check(mpi_.irecv(data, count, mpi_.bytes, other, kSumTag, comm_, next()), what_);
  }
  // Throws a run-time Error if it takes longer.
  void wait(double timeout_s) {
    const auto begin = Clock::now();
    for (int done = 0;;) {
      mpi_.check(
          mpi_.testall(static_cast<int>(all_.size()), all_.data(), &done, MPI_STATUSES_IGNORE),
          what_);
      if (done != 0) return;
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (waited.count() > timeout_s) {
        int rank = 0, size = 0;
        mpi_.comm_rank(comm_, &rank), mpi_.comm_size(comm_, &size);
        throw runtime_error("[ranks] rank {} of {} waited {:.0f} s for the others in {}", rank,
                            size, waited.count(), what_);
      }
      // Other ranks may need this core.
      std::this_thread::yield();
    }
  }

 private:
  const Library& mpi_;
  MPI_Comm comm_;
  std::string_view what_;
  std::vector<MPI_Request> all_;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const Library& mpi, MPI_Comm comm, double timeout_s)
      : mpi_(mpi), comm_(comm), timeout_s_(timeout_s) {
    mpi_.check(mpi_.set_error_handler(comm_, mpi_.returns), "MPI_Comm_set_errhandler");
    mpi_.check(mpi_.comm_rank(comm_, &rank_), "MPI_Comm_rank");
    mpi_.check(mpi_.comm_size(comm_, &size_), "MPI_Comm_size");
  }
  // Freeing a communicator waits for the others, who may not come after an Error.
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() != 0) return;
    for (Sent& each : sent_) mpi_.wait(&each.request, MPI_STATUS_IGNORE);
    mpi_.comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  // "Open MPI v4.1.4, package: ..." says it at length.
  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    mpi_.check(mpi_.version(text, &length), "MPI_Get_library_version");
    std::string first(std::string_view(text).substr(0, std::string_view(text).find(',')));
    if (const size_t at = first.find(" v"); at != std::string::npos) first.erase(at + 1, 1);
    return first;
  }

  void all_reduce(std::span<const Exchanged> tensors,
                  bool average,
                  std::string_view what) override {
    std::vector<Summed> sums;
    for (const Exchanged& each : tensors)
      for (int64_t begin = 0; begin < each.elements; begin += kMostElements) {
        const int64_t count = std::min(each.elements - begin, kMostElements);
        std::byte* const data = each.data + storage_bytes(each.dtype, begin);
        const bool is_small = storage_bytes(each.dtype, count) <= kSmallBytes;
        const int64_t part = is_small ? count : (count + size_ - 1) / size_;
        sums.push_back({data, nullptr, each.dtype, count, part, is_small});
      }
    add_up(sums, average, what);
    Requests requests(mpi_, comm_, what);
    for (const Summed& each : sums) {
      if (each.is_small) continue;
      for_each_other([&](int other) {
        requests.receive(other, each.data + each.begin(other), each.bytes(other));
        requests.send(other, each.data + each.begin(rank_), each.bytes(rank_));
      });
    }
    requests.wait(timeout_s_);
  }

  void all_gather(std::span<const Divided> tensors, std::string_view what) override {
    Requests requests(mpi_, comm_, what);
    for (const Divided& each : tensors) {
      const int bytes = count_of(each.part_bytes(), what);
      mpi_.check(mpi_.iallgather(each.part, bytes, mpi_.bytes, each.whole, bytes, mpi_.bytes, comm_,
                                 requests.next()),
                 what);
    }
    requests.wait(timeout_s_);
  }

  void reduce_scatter(std::span<const Divided> tensors,
                      bool average,
                      std::string_view what) override {
    std::vector<Summed> sums;
    for (const Divided& each : tensors)
      sums.push_back(
          {each.whole, each.part, each.dtype, each.elements * size_, each.elements, false});
    add_up(sums, average, what);
  }

  // The copy is on its way while this rank goes on.
  void send(const Exchanged& tensor, std::string_view what) override {
    drop_sent(what);
    Sent& sent = sent_.emplace_back();
    const int64_t bytes = storage_bytes(tensor.dtype, tensor.elements);
    sent.copy.assign(tensor.data, tensor.data + bytes);
    mpi_.check(mpi_.isend(sent.copy.data(), count_of(bytes, what), mpi_.bytes, 1 - rank_, kTag,
                          comm_, &sent.request),
               what);
  }

  void receive(const Exchanged& tensor, std::string_view what) override {
    Requests request(mpi_, comm_, what);
    const int64_t bytes = storage_bytes(tensor.dtype, tensor.elements);
    mpi_.check(mpi_.irecv(tensor.data, count_of(bytes, what), mpi_.bytes, 1 - rank_, kTag, comm_,
                          request.next()),
               what);
    request.wait(timeout_s_);
    drop_sent(what);
  }

  bool find_any(bool here) override {
    int32_t flag = here ? 1 : 0;
    Requests request(mpi_, comm_, "a barrier");
    mpi_.check(mpi_.iallreduce(MPI_IN_PLACE, &flag, 1, mpi_.i32, mpi_.most, comm_, request.next()),
               "a barrier");
    request.wait(timeout_s_);
    return flag != 0;
  }

  std::vector<std::string> gather_texts(const std::string& text) override {
    constexpr std::string_view kWhat = "a gathering of texts";
    const auto length = static_cast<int32_t>(text.size());
    std::vector<int32_t> lengths(static_cast<size_t>(size_)), begins(lengths.size());
    Requests first(mpi_, comm_, kWhat), second(mpi_, comm_, kWhat);
    mpi_.check(
        mpi_.iallgather(&length, 1, mpi_.i32, lengths.data(), 1, mpi_.i32, comm_, first.next()),
        kWhat);
    first.wait(timeout_s_);
    int32_t all = 0;
    for (size_t i = 0; i < lengths.size(); ++i) begins[i] = std::exchange(all, all + lengths[i]);
    std::string joined(static_cast<size_t>(all), ' ');
    mpi_.check(mpi_.iallgatherv(text.data(), length, mpi_.bytes, joined.data(), lengths.data(),
                                begins.data(), mpi_.bytes, comm_, second.next()),
               kWhat);
    second.wait(timeout_s_);
    std::vector<std::string> texts;
    for (size_t i = 0; i < lengths.size(); ++i)
      texts.push_back(
          joined.substr(static_cast<size_t>(begins[i]), static_cast<size_t>(lengths[i])));
    return texts;
  }

 private:
  static constexpr int64_t kMostElements = int64_t{1} << 28;  // MPI counts by int
  // Each rank adds up all of a tensor of so few bytes; of a larger one a part, which others get.
  static constexpr int64_t kSmallBytes = 64 << 10;

  // A copy that the other rank may not have received yet.
  struct Sent {
    std::vector<std::byte> copy;
    MPI_Request request = nullptr;
  };
  void drop_sent(std::string_view what) {
    while (!sent_.empty()) {
      int done = 0;
      mpi_.check(mpi_.testall(1, &sent_.front().request, &done, MPI_STATUSES_IGNORE), what);
      if (done == 0) return;
      sent_.pop_front();
    }
  }

  template <typename Visit>
  void for_each_other(const Visit& visit) const {
    for (int step = 1; step < size_; ++step) visit((rank_ + step) % size_);
  }
  // Every rank sends the others their parts and adds up its own. MPI's own non-blocking reductions
  // take three times as long between processes of a host, and have no 16-bit floats.
  void add_up(std::span<const Summed> sums, bool average, std::string_view what) {
    int64_t needed = 0;
    for (const Summed& each : sums) needed += (size_ - 1) * each.bytes(rank_);
    if (needed > std::ssize(arrived_)) arrived_.resize(static_cast<size_t>(needed));
    Requests requests(mpi_, comm_, what);
    std::vector<std::vector<const std::byte*>> parts;  // each sum has one of every rank
    std::byte* free = arrived_.data();
    for (const Summed& each : sums) {
      std::vector<const std::byte*>& of = parts.emplace_back(static_cast<size_t>(size_));
      of[static_cast<size_t>(rank_)] = each.data + each.begin(rank_);
      for_each_other([&](int other) {
        requests.receive(other, free, each.bytes(rank_));
        of[static_cast<size_t>(other)] = std::exchange(free, free + each.bytes(rank_));
        requests.send(other, each.data + each.begin(other), each.bytes(other));
      });
    }
    requests.wait(timeout_s_);
    for (size_t i = 0; i < sums.size(); ++i) {
      const Summed& each = sums[i];
      std::byte* const to = each.to != nullptr ? each.to : each.data + each.begin(rank_);
      add_parts({to, each.count(rank_), each.dtype}, parts[i], average);
    }
  }

  const Library& mpi_;
  MPI_Comm comm_;
  double timeout_s_;
  int rank_ = 0, size_ = 1;
  std::deque<Sent> sent_;
  std::vector<std::byte> arrived_;  // the other ranks' parts of sums
};

class OpenMpiWorld final : public RankWorld {
 public:
  explicit OpenMpiWorld(const MpiOptions& options)
      : mpi_(options.library), timeout_s_(options.timeout_s) {
    int provided = 0;
    mpi_.check(mpi_.init(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    mpi_.check(mpi_.comm_rank(mpi_.world, &rank_), "MPI_Comm_rank");
    mpi_.check(mpi_.comm_size(mpi_.world, &size_), "MPI_Comm_size");
  }
  // After an Error the others may never come to the end; mpirun ends them when it sees that this
  // process left without it.
  ~OpenMpiWorld() override {
    if (std::uncaught_exceptions() == 0) mpi_.finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Communicator> split(int number) override {
    MPI_Comm comm = nullptr;
    mpi_.check(mpi_.comm_split(mpi_.world, number, rank_, &comm), "MPI_Comm_split");
    return std::make_unique<MpiCommunicator>(mpi_, comm, timeout_s_);
  }

 private:
  Library mpi_;
  double timeout_s_;
  int rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<RankWorld> join_mpi(const MpiOptions& options) {
  return std::make_unique<OpenMpiWorld>(options);
}

}  // namespace ridge::backends

#else

namespace ridge::backends {

std::unique_ptr<RankWorld> join_mpi(const MpiOptions&) {
  throw runtime_error(
      "[mpi] this program was built without MPI; install libopenmpi-dev and build again");
}

}  // namespace ridge::backends

#endif
