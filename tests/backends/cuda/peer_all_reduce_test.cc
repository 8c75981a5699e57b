// SPDX-License-Identifier: Apache-2.0
// Sums over inboxes in each other's memory: two ranks on one GPU, one stream each.
#include "backends/cuda/kernels/peer_all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/kernels/rms_norm/rms_norm.h"
#include "base/block_formats.h"
#include "base/random.h"
#include "files/quantize.h"

namespace ridge::backends::cuda {
namespace {

class TwoRanks : public testing::Test {
 protected:
  TwoRanks() {
    void* words = nullptr;
    check(cudaHostAlloc(&words, 3 * sizeof(int64_t), cudaHostAllocMapped), "allocating");
    words_ = static_cast<int64_t*>(words);
    std::fill_n(words_, 3, 0);
    for (size_t r = 0; r < 2; ++r) {
      check(cudaStreamCreateWithFlags(&streams_[r], cudaStreamNonBlocking), "making a stream");
      inboxes_[r] = std::make_unique<DeviceMemory>(PeerInboxes::inbox_bytes(2), "an inbox");
      calls_[r] = std::make_unique<DeviceMemory>(PeerInboxes::kRegions * 4 + 16, "counts");
    }
    for (size_t r = 0; r < 2; ++r) {
      PeerLaunch& call = ranks_[r];
      call.peers.rank = static_cast<int>(r), call.peers.ranks = 2;
      for (size_t other = 0; other < 2; ++other)
        call.peers.inboxes[other] = inboxes_[other]->data();
      call.peers.calls = reinterpret_cast<uint32_t*>(calls_[r]->data());
      call.peers.stop = reinterpret_cast<uint32_t*>(words_ + 2);
      std::byte* const counts = calls_[r]->data() + PeerInboxes::kRegions * 4;
      call.count = {reinterpret_cast<int64_t*>(counts), words_ + r,
                    reinterpret_cast<uint32_t*>(counts + 8), 1};
    }
    check(cudaDeviceSynchronize(), "clearing");
  }
  ~TwoRanks() override {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    cudaFreeHost(words_);
  }

  // A tensor of each rank in the type, and its values there.
  struct Tensors {
    std::array<std::unique_ptr<DeviceMemory>, 2> memory;
    std::array<std::vector<float>, 2> values;
    std::byte* data(size_t rank) const { return memory[rank]->data(); }
  };
  static Tensors draw(DType dtype, int64_t elements, uint32_t seed) {
    Tensors made;
    for (size_t r = 0; r < 2; ++r) {
      Random random(seed + static_cast<uint32_t>(r));
      std::vector<float> values(static_cast<size_t>(elements));
      random.fill_normal(values, 1);
      std::vector<std::byte> stored(static_cast<size_t>(storage_bytes(dtype, elements)));
      files::quantize(dtype, values, stored);
      dequantize(dtype, stored, values);
      made.memory[r] = std::make_unique<DeviceMemory>(std::ssize(stored), "a tensor");
      check(cudaMemcpy(made.data(r), stored.data(), stored.size(), cudaMemcpyHostToDevice),
            "copying");
      made.values[r] = std::move(values);
    }
    return made;
  }
  static std::vector<float> read(DType dtype, const std::byte* data, int64_t elements) {
    std::vector<std::byte> stored(static_cast<size_t>(storage_bytes(dtype, elements)));
    check(cudaMemcpy(stored.data(), data, stored.size(), cudaMemcpyDeviceToHost), "copying");
    std::vector<float> values(static_cast<size_t>(elements));
    dequantize(dtype, stored, values);
    return values;
  }
  void finish() {
    for (cudaStream_t stream : streams_) check(cudaStreamSynchronize(stream), "waiting");
  }

  // The tensors' sums over both ranks, with the next number of a call.
  void expect_sums(DType dtype, int64_t elements, float factor) {
    const Tensors x = draw(dtype, elements, static_cast<uint32_t>(elements));
    for (size_t r = 0; r < 2; ++r)
      check(launch_peer_all_reduce(ranks_[r], x.data(r), elements, dtype, factor, streams_[r]),
            "all_reduce");
    finish();
    ++made_;
    std::vector<float> expected(static_cast<size_t>(elements));
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = factor * (x.values[0][i] + x.values[1][i]);
    std::vector<std::byte> stored(static_cast<size_t>(storage_bytes(dtype, elements)));
    files::quantize(dtype, expected, stored);
    dequantize(dtype, stored, expected);
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(read(dtype, x.data(r), elements), expected) << elements << " of rank " << r;
      EXPECT_EQ(words_[r], made_) << "counted";
    }
  }

  template <typename T>
  void expect_norms(int64_t tokens, int64_t width) {
    constexpr DType kType = sizeof(T) == 4 ? DType::kF32 : DType::kBF16;
    const int64_t elements = tokens * width;
    ASSERT_TRUE(takes_peer_add_rms_norm(tokens, width, kType));
    const Tensors x = draw(kType, elements, 3), summed = draw(kType, elements, 3),
                  residual = draw(kType, elements, 11), sum = draw(kType, elements, 5),
                  y = draw(kType, elements, 6), plain = draw(kType, elements, 7),
                  weight = draw(DType::kF32, width, 9);
    // The residual and the weight are the same on both ranks.
    const auto norm = [&](const Tensors& from, const Tensors& to, const Tensors& normed, size_t r) {
      AddRmsNorm<T> p;
      p.norm.tokens = tokens, p.norm.width = width, p.norm.eps = 1e-5F;
      p.norm.x = {reinterpret_cast<const T*>(from.data(r)), width};
      p.norm.weight = reinterpret_cast<const float*>(weight.data(0));
      p.norm.weight_offset = 1;
      p.norm.y = {reinterpret_cast<T*>(normed.data(r)), width};
      p.residual = {reinterpret_cast<const T*>(residual.data(0)), width};
      p.sum = {reinterpret_cast<T*>(to.data(r)), width};
      return p;
    };
    for (size_t r = 0; r < 2; ++r) {
      const AddRmsNorm<T> call = norm(x, sum, y, r);
      ASSERT_TRUE(takes_peer_add_rms_norm(call));
      check(launch_peer_add_rms_norm(ranks_[r], call, streams_[r]), "a norm");
    }
    finish();
    ++made_;
    for (size_t r = 0; r < 2; ++r)
      check(launch_peer_all_reduce(ranks_[r], summed.data(r), elements, kType, 1, streams_[r]),
            "all_reduce");
    finish();
    ++made_;
    // `summed` becomes the sum with the residual, in place.
    const AddRmsNorm<T> two = norm(summed, summed, plain, 0);
    check(launch_add_rms_norm(two.norm, two.residual, two.sum, streams_[0]), "a norm");
    finish();
    const std::vector<float> expected = read(kType, plain.data(0), elements);
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(read(kType, sum.data(r), elements), read(kType, summed.data(0), elements));
      EXPECT_EQ(read(kType, x.data(r), elements), x.values[r]);
      EXPECT_EQ(words_[r], made_) << "counted";
    }
    EXPECT_EQ(read(kType, y.data(0), elements), read(kType, y.data(1), elements));
    // Squares are added up in another order.
    const float most = sizeof(T) == 4 ? 1e-5F : 0x1p-7F;
    const std::vector<float> got = read(kType, y.data(0), elements);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], most * std::max(1.0F, std::abs(expected[i])))
          << tokens << " x " << width << " at " << i;
  }

  const Device device_;
  int64_t* words_ = nullptr;  // each rank's count, and the word that stops the waiting
  int64_t made_ = 0;
  std::array<cudaStream_t, 2> streams_{};
  std::array<std::unique_ptr<DeviceMemory>, 2> inboxes_, calls_;
  std::array<PeerLaunch, 2> ranks_;
};

// Sizes alternate, so that regions come to different numbers of calls, and both turns are used.
TEST_F(TwoRanks, AddUpTheSameBits) {
  constexpr int64_t kMost = PeerInboxes::kMostBytes;
  for (int round = 0; round < 3; ++round)
    for (int64_t lines : {int64_t{1}, int64_t{700}, int64_t{2048}, kMost / 8, int64_t{33}}) {
      expect_sums(DType::kF32, 2 * lines, 1);
      expect_sums(DType::kBF16, 4 * lines, 0.5F);
    }
}

TEST_F(TwoRanks, NormASumInOneLaunch) {
  for (int round = 0; round < 3; ++round) {
    expect_norms<uint16_t>(1, 4096);
    expect_norms<uint16_t>(1, 8192);
    expect_norms<uint16_t>(32, 8192);
    expect_norms<uint16_t>(3, 2304);
    expect_norms<uint16_t>(2, 16'384);
    expect_norms<float>(5, 576);
    expect_norms<float>(16, 8192);
    expect_sums(DType::kBF16, 8192, 1);
  }
}

TEST_F(TwoRanks, RefuseRowsThatDoNotFit) {
  EXPECT_FALSE(takes_peer_add_rms_norm(33, 8192, DType::kBF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(1, 16'392, DType::kBF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(1, 4100, DType::kBF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(1, 4096, DType::kF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(0, 4096, DType::kBF16));
}

// Where the other rank has gone, the waiting ends.
TEST_F(TwoRanks, StopWaiting) {
  const Tensors x = draw(DType::kF32, 4096, 1);
  check(launch_peer_all_reduce(ranks_[0], x.data(0), 4096, DType::kF32, 1, streams_[0]),
        "all_reduce");
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  *static_cast<volatile int64_t*>(words_ + 2) = 1;
  finish();
}

}  // namespace
}  // namespace ridge::backends::cuda
