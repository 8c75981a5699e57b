// SPDX-License-Identifier: Apache-2.0
// Mutations: every truncation and many bit flips of headers, of files made here and of the fetched
// models. Each must be read or throw a bad-file Error; none may crash, throw anything else, or use
// much memory.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/random.h"
#include "files/damage.h"
#include "files/gguf_file.h"
#include "files/gguf_writer.h"
#include "files/safetensors.h"
#include "files/scratch.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RIDGE_COUNT_ALLOCATIONS 1
#endif

namespace {
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};
}  // namespace

#ifdef RIDGE_COUNT_ALLOCATIONS
// Not inlined, because the compiler would otherwise warn about malloc and free in place of new and
// delete.
[[gnu::noinline]] void* operator new(size_t size) {
  void* data = std::malloc(size);
  if (data == nullptr) throw std::bad_alloc();
  const int64_t live = live_bytes += static_cast<int64_t>(::malloc_usable_size(data));
  if (live > peak_bytes) peak_bytes = live;
  return data;
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  live_bytes -= static_cast<int64_t>(::malloc_usable_size(data));
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { operator delete(data); }
#endif

namespace ridge::files {
namespace {

constexpr int64_t kMaxExtraBytes = int64_t{64} << 20;

using Read = std::function<void(std::span<const std::byte>)>;

unsigned touch(const TensorTable& table) {
  unsigned sum = 0;
  for (const FileTensor& tensor : table.all())
    if (!tensor.bytes.empty())
      sum +=
          static_cast<unsigned>(tensor.bytes.front()) + static_cast<unsigned>(tensor.bytes.back());
  return sum;
}

// Everything that a user of the file may read. Getters of the wrong type may throw.
void read_gguf(std::span<const std::byte> bytes) {
  const auto file = GgufFile::parse(bytes, "mutant");
  const GgufMetadata& metadata = file.metadata();
  for (const auto& [key, entry] : metadata.entries()) metadata.describe(entry);
  touch(file.tensors());
  for (const char* key :
       {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
    if (!metadata.contains(key)) continue;
    switch (metadata.find(key)->element_type) {
      case GgufType::kString:
        metadata.strings(key);
        break;
      case GgufType::kF32:
        metadata.reals(key);
        break;
      default:
        metadata.integers(key);
    }
  }
}

void read_safetensors(std::span<const std::byte> bytes) {
  touch(SafetensorsFile::parse(bytes, "mutant").tensors());
}

// Whether the file can be read. Reading or refusing it must take little memory.
bool reads_or_refuses_in_little(const Read& read,
                                std::span<const std::byte> bytes,
                                const std::string& mutation) {
  peak_bytes = live_bytes.load();
  const int64_t before = live_bytes;
  const bool fine = reads_or_refuses([&] { read(bytes); }, mutation);
  EXPECT_LE(peak_bytes - before, static_cast<int64_t>(bytes.size()) + kMaxExtraBytes) << mutation;
  return fine;
}

// Truncates `bytes` to each length in [begin, end).
Outcomes truncate_each(const Read& read,
                       std::span<const std::byte> bytes,
                       size_t begin,
                       size_t end) {
  Outcomes count;
  for (size_t size = begin; size < std::min(end, bytes.size()); ++size)
    count.add(reads_or_refuses_in_little(read, bytes.first(size), fmt::format("cut at {}", size)));
  return count;
}

// Replaces each byte in [begin, end) by its xor with each of `masks`.
Outcomes flip_each(const Read& read,
                   std::span<std::byte> bytes,
                   size_t begin,
                   size_t end,
                   const std::vector<int>& masks) {
  Outcomes count;
  for (size_t i = begin; i < std::min(end, bytes.size()); ++i) {
    for (const int mask : masks) {
      bytes[i] ^= static_cast<std::byte>(mask);
      count.add(reads_or_refuses_in_little(read, bytes, fmt::format("byte {} xor {}", i, mask)));
      bytes[i] ^= static_cast<std::byte>(mask);
    }
  }
  return count;
}

const std::vector<int> kAllMasks = {1, 2, 4, 8, 16, 32, 64, 128, 255};

// Overwrites up to 16 random bytes with extremes or noise at once.
Outcomes scramble(const Read& read,
                  const std::vector<std::byte>& original,
                  size_t header_bytes,
                  int rounds) {
  Random random(11);
  Outcomes count;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> bytes = original;
    for (uint32_t left = 1 + random.below(16); left > 0; --left) {
      const uint32_t kind = random.below(4);
      const auto at = random.below(static_cast<uint32_t>(header_bytes));
      bytes[at] = kind == 0   ? std::byte{0}
                  : kind == 1 ? std::byte{255}
                              : static_cast<std::byte>(random.below(256));
    }
    count.add(reads_or_refuses_in_little(read, bytes, fmt::format("scramble {}", round)));
  }
  return count;
}

std::vector<std::byte> bytes_of_file(const std::filesystem::path& path) {
  const std::string text = contents(path);
  const auto bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

// A mapped model file in which flips change only this process's copy of a page.
class MutableMapping {
 public:
  explicit MutableMapping(const std::filesystem::path& path)
      : size_(std::filesystem::file_size(path)) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    data_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ::close(fd);
  }
  ~MutableMapping() { ::munmap(data_, size_); }
  MutableMapping(const MutableMapping&) = delete;
  MutableMapping& operator=(const MutableMapping&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), size_}; }

 private:
  size_t size_;
  void* data_;
};

TEST(Hostile, GgufOfEveryType) {
  auto bytes = bytes_of_file(test_data("files/all_types.gguf_sample"));
  const auto header = static_cast<size_t>(GgufFile::parse(bytes, "x").header_bytes());
  EXPECT_EQ(truncate_each(read_gguf, bytes, 0, bytes.size() - 32).read, 0);
  const Outcomes flips = flip_each(read_gguf, bytes, 0, header, kAllMasks);
  EXPECT_GT(flips.read, 0);
  EXPECT_GT(flips.refused, flips.read / 4);
  EXPECT_GT(scramble(read_gguf, bytes, header, 3000).refused, 1000);
}

TEST(Hostile, SafetensorsOfEveryType) {
  auto bytes = bytes_of_file(test_data("files/all_dtypes.safetensors"));
  EXPECT_EQ(truncate_each(read_safetensors, bytes, 0, bytes.size()).read, 0);
  const Outcomes flips = flip_each(read_safetensors, bytes, 0, 8 + 1208, kAllMasks);
  EXPECT_GT(flips.refused, flips.read);
  EXPECT_GT(scramble(read_safetensors, bytes, 1216, 3000).refused, 1000);
}

TEST(Hostile, SafetensorsOfAModel) {
  auto bytes = bytes_of_file(test_data("models/gemma3_bf16/model.safetensors"));
  EXPECT_EQ(truncate_each(read_safetensors, bytes, 0, 4096).read, 0);
  EXPECT_GT(flip_each(read_safetensors, bytes, 0, 4096, {1, 128}).refused, 1000);
}

TEST(Hostile, DamagedParts) {
  auto read = [](const Read& parse) {
    return [parse](const std::string& text) { parse(bytes_of(text)); };
  };
  constexpr int kRounds = 1500;
  const std::string gguf = contents(test_data("files/all_types.gguf_sample"));
  EXPECT_GT(read_damaged(gguf, read(read_gguf), kRounds).refused, kRounds / 2);
  const std::string safetensors = contents(test_data("files/all_dtypes.safetensors"));
  EXPECT_GT(read_damaged(safetensors, read(read_safetensors), kRounds).refused, kRounds / 2);
}

// The header of a safetensors file, damaged as JSON is.
TEST(Hostile, DamagedHeaders) {
  const std::string good = contents(test_data("files/all_dtypes.safetensors"));
  uint64_t size = 0;
  std::memcpy(&size, good.data(), sizeof(size));
  auto read = [&](const std::string& header) {
    const uint64_t length = header.size();
    const std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
    read_safetensors(bytes_of(bytes + header + good.substr(sizeof(size) + size)));
  };
  constexpr int kRounds = 1500;
  EXPECT_GT(read_damaged(good.substr(sizeof(size), size), read, kRounds).refused, kRounds / 2);
}

TEST(Hostile, DamagedIndices) {
  ScratchFolder folder;
  const std::filesystem::path model = folder / "model", index = "model.safetensors.index.json";
  std::filesystem::copy(test_data("models/llama3_bf16_sharded"), model);
  auto read = [&](const std::string& text) {
    write_plain(model / index, text);
    touch(SafetensorsFile::open(model).tensors());
  };
  constexpr int kRounds = 600;
  const Outcomes outcomes = read_damaged(contents(model / index), read, kRounds);
  EXPECT_GT(outcomes.refused, kRounds / 4);
  EXPECT_GT(outcomes.read, kRounds / 20);  // a tensor less, a size that nobody reads
}

void mutate_model(const std::string& name) {
  const auto path = fetched_model(name);
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not fetched (tools/fetch_models.sh)";
  const MutableMapping mapping(path);
  const auto header = static_cast<size_t>(GgufFile::parse(mapping.bytes(), "x").header_bytes());
  EXPECT_EQ(truncate_each(read_gguf, mapping.bytes(), 0, 4096).read, 0);
  EXPECT_EQ(truncate_each(read_gguf, mapping.bytes(), header - 256, header).read, 0);
  EXPECT_GT(flip_each(read_gguf, mapping.bytes(), 0, 1024, {1, 128}).refused, 100);
// A sanitizer makes each of these reads of megabytes 20 times slower.
#ifdef RIDGE_COUNT_ALLOCATIONS
  flip_each(read_gguf, mapping.bytes(), 1024, 3072, {255});
#endif
  // The end of the tensor table.
  EXPECT_GT(flip_each(read_gguf, mapping.bytes(), header - 512, header, {1, 255}).refused, 100);
}

TEST(Hostile, Gemma3_270m) { mutate_model("gemma-3-270m-q4_k_m.gguf"); }
TEST(Hostile, SmolLM2_135m) { mutate_model("SmolLM2-135M-Instruct.Q4_1.gguf"); }

#ifdef RIDGE_COUNT_ALLOCATIONS
// Checks the counter itself, because a memory test that cannot fail is worthless.
TEST(Hostile, TheCounterSeesAllocations) {
  peak_bytes = live_bytes.load();
  const int64_t before = live_bytes;
  { const std::vector<char> block(1 << 20); }
  EXPECT_GE(peak_bytes - before, 1 << 20);
  EXPECT_LT(live_bytes - before, 1 << 20);
}
#endif

}  // namespace
}  // namespace ridge::files
