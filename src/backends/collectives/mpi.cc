// SPDX-License-Identifier: Apache-2.0
// Binds the functions of an MPI library by name. Collectives are non-blocking and polled, so that a
// rank that does not come is noticed.
#include "backends/collectives/mpi.h"

#include "base/error.h"

#ifdef RIDGE_HAS_MPI

#include <dlfcn.h>
#include <mpi.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include "base/bf16.h"

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
  decltype(&MPI_Ireduce_scatter_block) ireduce_scatter = nullptr;
  decltype(&MPI_Wait) wait = nullptr;
  decltype(&MPI_Isend) isend = nullptr;
  decltype(&MPI_Irecv) irecv = nullptr;
  decltype(&MPI_Testall) testall = nullptr;
  decltype(&MPI_Op_create) op_create = nullptr;
  decltype(&MPI_Error_string) error_string = nullptr;
  decltype(&MPI_Get_library_version) version = nullptr;
  MPI_Comm world = nullptr;
  MPI_Datatype f32 = nullptr, u16 = nullptr, i32 = nullptr, bytes = nullptr;
  MPI_Op sum = nullptr, most = nullptr;
  MPI_Errhandler returns = nullptr;
  MPI_Op sum_bf16 = nullptr, sum_f16 = nullptr;  // made after init

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
  bind(ireduce_scatter, "MPI_Ireduce_scatter_block");
  bind(isend, "MPI_Isend"), bind(irecv, "MPI_Irecv"), bind(wait, "MPI_Wait");
  bind(op_create, "MPI_Op_create");
  bind(version, "MPI_Get_library_version");
  world = static_cast<MPI_Comm>(symbol("ompi_mpi_comm_world"));
  f32 = static_cast<MPI_Datatype>(symbol("ompi_mpi_float"));
  u16 = static_cast<MPI_Datatype>(symbol("ompi_mpi_uint16_t"));
  i32 = static_cast<MPI_Datatype>(symbol("ompi_mpi_int32_t"));
  bytes = static_cast<MPI_Datatype>(symbol("ompi_mpi_byte"));
  sum = static_cast<MPI_Op>(symbol("ompi_mpi_op_sum"));
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

// MPI has no 16-bit floats: sums are made in fp32 and rounded once a step of the algorithm.
void add_bf16(void* from, void* to, int* count, MPI_Datatype*) {
  const auto* x = static_cast<const uint16_t*>(from);
  auto* y = static_cast<uint16_t*>(to);
  for (int i = 0; i < *count; ++i) y[i] = float_to_bf16(bf16_to_float(x[i]) + bf16_to_float(y[i]));
}
void add_f16(void* from, void* to, int* count, MPI_Datatype*) {
  const auto* x = static_cast<const uint16_t*>(from);
  auto* y = static_cast<uint16_t*>(to);
  for (int i = 0; i < *count; ++i) y[i] = float_to_f16(f16_to_float(x[i]) + f16_to_float(y[i]));
}

void scale(const Exchanged& tensor, int ranks) {
  const float factor = 1.0F / static_cast<float>(ranks);
  const auto each = [&]<typename T>(T* values, auto widen, auto narrow) {
    for (int64_t i = 0; i < tensor.elements; ++i) values[i] = narrow(widen(values[i]) * factor);
  };
  const auto same = [](float x) { return x; };
  if (tensor.dtype == DType::kF32) return each(reinterpret_cast<float*>(tensor.data), same, same);
  if (tensor.dtype == DType::kBF16)
    return each(reinterpret_cast<uint16_t*>(tensor.data), bf16_to_float, float_to_bf16);
  each(reinterpret_cast<uint16_t*>(tensor.data), f16_to_float, float_to_f16);
}

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
    std::vector<MPI_Request> requests;
    for (const Exchanged& each : tensors)
      for (int64_t begin = 0; begin < each.elements; begin += kMostElements)
        start_reduction(each, begin, requests.emplace_back(), what);
    wait(requests, what);
    if (average)
      for (const Exchanged& each : tensors) scale(each, size_);
  }

  void all_gather(std::span<const Divided> tensors, std::string_view what) override {
    std::vector<MPI_Request> requests;
    for (const Divided& each : tensors) {
      const int bytes = count_of(each.part_bytes(), what);
      mpi_.check(mpi_.iallgather(each.part, bytes, mpi_.bytes, each.whole, bytes, mpi_.bytes, comm_,
                                 &requests.emplace_back()),
                 what);
    }
    wait(requests, what);
  }

  void reduce_scatter(std::span<const Divided> tensors,
                      bool average,
                      std::string_view what) override {
    std::vector<MPI_Request> requests;
    for (const Divided& each : tensors)
      mpi_.check(mpi_.ireduce_scatter(each.whole, each.part, count_of(each.elements, what),
                                      type_of(each.dtype), sum_of(each.dtype), comm_,
                                      &requests.emplace_back()),
                 what);
    wait(requests, what);
    if (average)
      for (const Divided& each : tensors) scale({each.part, each.elements, each.dtype}, size_);
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
    std::vector<MPI_Request> request(1);
    const int64_t bytes = storage_bytes(tensor.dtype, tensor.elements);
    mpi_.check(mpi_.irecv(tensor.data, count_of(bytes, what), mpi_.bytes, 1 - rank_, kTag, comm_,
                          request.data()),
               what);
    wait(request, what);
    drop_sent(what);
  }

  bool find_any(bool here) override {
    int32_t flag = here ? 1 : 0;
    std::vector<MPI_Request> request(1);
    mpi_.check(mpi_.iallreduce(MPI_IN_PLACE, &flag, 1, mpi_.i32, mpi_.most, comm_, request.data()),
               "a barrier");
    wait(request, "a barrier");
    return flag != 0;
  }

  std::vector<std::string> gather_texts(const std::string& text) override {
    constexpr std::string_view kWhat = "a gathering of texts";
    const auto length = static_cast<int32_t>(text.size());
    std::vector<int32_t> lengths(static_cast<size_t>(size_)), begins(lengths.size());
    std::vector<MPI_Request> request(1);
    mpi_.check(
        mpi_.iallgather(&length, 1, mpi_.i32, lengths.data(), 1, mpi_.i32, comm_, request.data()),
        kWhat);
    wait(request, kWhat);
    int32_t all = 0;
    for (size_t i = 0; i < lengths.size(); ++i) begins[i] = std::exchange(all, all + lengths[i]);
    std::string joined(static_cast<size_t>(all), ' ');
    mpi_.check(mpi_.iallgatherv(text.data(), length, mpi_.bytes, joined.data(), lengths.data(),
                                begins.data(), mpi_.bytes, comm_, request.data()),
               kWhat);
    wait(request, kWhat);
    std::vector<std::string> texts;
    for (size_t i = 0; i < lengths.size(); ++i)
      texts.push_back(
          joined.substr(static_cast<size_t>(begins[i]), static_cast<size_t>(lengths[i])));
    return texts;
  }

 private:
  static constexpr int64_t kMostElements = int64_t{1} << 30;  // MPI counts by int
  static constexpr int kTag = 0;

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

  static int count_of(int64_t count, std::string_view what) {
    if (count > std::numeric_limits<int>::max())
      throw runtime_error("[ranks] {} has a part of {}, more than MPI counts", what, count);
    return static_cast<int>(count);
  }
  MPI_Datatype type_of(DType dtype) const { return dtype == DType::kF32 ? mpi_.f32 : mpi_.u16; }
  MPI_Op sum_of(DType dtype) const {
    if (dtype == DType::kF32) return mpi_.sum;
    return dtype == DType::kBF16 ? mpi_.sum_bf16 : mpi_.sum_f16;
  }

  void start_reduction(const Exchanged& tensor,
                       int64_t begin,
                       MPI_Request& request,
                       std::string_view what) {
    const int64_t count = std::min(tensor.elements - begin, kMostElements);
    std::byte* data = tensor.data + storage_bytes(tensor.dtype, begin);
    mpi_.check(mpi_.iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), type_of(tensor.dtype),
                               sum_of(tensor.dtype), comm_, &request),
               what);
  }

  void wait(std::vector<MPI_Request>& requests, std::string_view what) const {
    const auto begin = Clock::now();
    for (int done = 0;;) {
      mpi_.check(mpi_.testall(static_cast<int>(requests.size()), requests.data(), &done,
                              MPI_STATUSES_IGNORE),
                 what);
      if (done != 0) return;
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (waited.count() > timeout_s_)
        throw runtime_error("[ranks] rank {} of {} waited {:.0f} s for the others in {}", rank_,
                            size_, waited.count(), what);
      // Other ranks may need this core.
      std::this_thread::yield();
    }
  }

  const Library& mpi_;
  MPI_Comm comm_;
  double timeout_s_;
  int rank_ = 0, size_ = 1;
  std::deque<Sent> sent_;
};

class OpenMpiWorld final : public RankWorld {
 public:
  explicit OpenMpiWorld(const MpiOptions& options)
      : mpi_(options.library), timeout_s_(options.timeout_s) {
    int provided = 0;
    mpi_.check(mpi_.init(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    mpi_.check(mpi_.op_create(add_bf16, 1, &mpi_.sum_bf16), "MPI_Op_create");
    mpi_.check(mpi_.op_create(add_f16, 1, &mpi_.sum_f16), "MPI_Op_create");
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
