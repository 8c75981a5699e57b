// SPDX-License-Identifier: Apache-2.0
// Sums over inboxes in each other's memory: several ranks on one GPU, one stream each.
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

class PeerSums : public testing::TestWithParam<int> {
 protected:
  PeerSums() {
    void* words = nullptr;
    check(cudaHostAlloc(&words, (kMostPeers + 1) * sizeof(int64_t), cudaHostAllocMapped),
          "allocating");
    words_ = static_cast<int64_t*>(words);
    std::fill_n(words_, kMostPeers + 1, 0);
    for (size_t r = 0; r < size_; ++r) {
      check(cudaStreamCreateWithFlags(&streams_[r], cudaStreamNonBlocking), "making a stream");
      inboxes_[r] =
          std::make_unique<DeviceMemory>(PeerInboxes::inbox_bytes(GetParam()), "an inbox");
      calls_[r] = std::make_unique<DeviceMemory>(PeerInboxes::kRegions * 4 + 16, "counts");
    }
    for (size_t r = 0; r < size_; ++r) {
      PeerLaunch& call = ranks_[r];
      call.peers.rank = static_cast<int>(r), call.peers.ranks = GetParam();
      for (size_t other = 0; other < size_; ++other)
        call.peers.inboxes[other] = inboxes_[other]->data();
      call.peers.calls = reinterpret_cast<uint32_t*>(calls_[r]->data());
      call.peers.stop = reinterpret_cast<uint32_t*>(words_ + kMostPeers);
      std::byte* const counts = calls_[r]->data() + PeerInboxes::kRegions * 4;
      call.count = {reinterpret_cast<int64_t*>(counts), words_ + r,
                    reinterpret_cast<uint32_t*>(counts + 8), 1};
    }
    check(cudaDeviceSynchronize(), "clearing");
  }
  ~PeerSums() override {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    cudaFreeHost(words_);
  }

  // A tensor of each rank in the type, and its values there.
  struct Tensors {
    std::array<std::unique_ptr<DeviceMemory>, kMostPeers> memory;
    std::array<std::vector<float>, kMostPeers> values;
    std::byte* data(size_t rank) const { return memory[rank]->data(); }
  };
  Tensors draw(DType dtype, int64_t elements, uint32_t seed) const {
    Tensors made;
    for (size_t r = 0; r < size_; ++r) {
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
    // A copy of pageable memory may return before it ends, and no rank's stream waits for it.
    check(cudaStreamSynchronize(nullptr), "copying");
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

  // The tensors' sums over all ranks, in their order.
  void expect_sums(DType dtype, int64_t elements, float factor) {
    const Tensors x = draw(dtype, elements, static_cast<uint32_t>(elements));
    for (size_t r = 0; r < size_; ++r)
      check(launch_peer_all_reduce(ranks_[r], x.data(r), elements, dtype, factor, streams_[r]),
            "all_reduce");
    finish();
    ++made_;
    std::vector<float> expected(static_cast<size_t>(elements));
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t r = 0; r < size_; ++r) expected[i] += x.values[r][i];
      expected[i] *= factor;
    }
    std::vector<std::byte> stored(static_cast<size_t>(storage_bytes(dtype, elements)));
    files::quantize(dtype, expected, stored);
    dequantize(dtype, stored, expected);
    for (size_t r = 0; r < size_; ++r) {
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
    // The residual and the weight are the same on all ranks.
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
    for (size_t r = 0; r < size_; ++r) {
      const AddRmsNorm<T> call = norm(x, sum, y, r);
      ASSERT_TRUE(takes_peer_add_rms_norm(call));
      check(launch_peer_add_rms_norm(ranks_[r], call, streams_[r]), "a norm");
    }
    finish();
    ++made_;
    for (size_t r = 0; r < size_; ++r)
      check(launch_peer_all_reduce(ranks_[r], summed.data(r), elements, kType, 1, streams_[r]),
            "all_reduce");
    finish();
    ++made_;
    // `summed` becomes the sum with the residual, in place.
    const AddRmsNorm<T> two = norm(summed, summed, plain, 0);
    check(launch_add_rms_norm(two.norm, two.residual, two.sum, streams_[0]), "a norm");
    finish();
    const std::vector<float> expected = read(kType, plain.data(0), elements);
    for (size_t r = 0; r < size_; ++r) {
      EXPECT_EQ(read(kType, sum.data(r), elements), read(kType, summed.data(0), elements));
      EXPECT_EQ(read(kType, x.data(r), elements), x.values[r]);
      EXPECT_EQ(words_[r], made_) << "counted";
    }
    EXPECT_EQ(read(kType, y.data(0), elements), read(kType, y.data(size_ - 1), elements));
    // Squares are added up in another order.
    const float most = sizeof(T) == 4 ? 1e-5F : 0x1p-7F;
    const std::vector<float> got = read(kType, y.data(0), elements);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], most * std::max(1.0F, std::abs(expected[i])))
          << tokens << " x " << width << " at " << i;
  }

  const Device device_;
  const size_t size_ = static_cast<size_t>(GetParam());
  int64_t* words_ = nullptr;  // each rank's count, and the word that stops the waiting
  int64_t made_ = 0;
  std::vector<cudaStream_t> streams_ = std::vector<cudaStream_t>(size_);
  std::array<std::unique_ptr<DeviceMemory>, kMostPeers> inboxes_, calls_;
  std::array<PeerLaunch, kMostPeers> ranks_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, PeerSums, testing::Values(2, 3, 8));

// Sizes alternate, so that regions come to different numbers of calls, and both turns are used.
TEST_P(PeerSums, AddUpTheSameBits) {
  const int64_t most = PeerInboxes::kMostBytes / (GetParam() - 1);
  for (int round = 0; round < 3; ++round)
    for (int64_t lines : {int64_t{1}, int64_t{700}, int64_t{2048}, most / 8, int64_t{33}}) {
      expect_sums(DType::kF32, 2 * lines, 1);
      expect_sums(DType::kBF16, 4 * lines, 0.5F);
    }
}

TEST_P(PeerSums, NormASumInOneLaunch) {
  for (int round = 0; round < 3; ++round) {
    expect_norms<uint16_t>(1, 4096);
    expect_norms<uint16_t>(1, 8192);
    // All rows of all ranks run at once, a block each; a multiprocessor may have room for one.
    expect_norms<uint16_t>(128 / std::max(4, GetParam()), 8192);
    expect_norms<uint16_t>(3, 2304);
    expect_norms<uint16_t>(2, 12'288);
    expect_norms<uint16_t>(2, 16'384);
    expect_norms<float>(5, 576);
    expect_norms<float>(16, 8192);
    expect_sums(DType::kBF16, 8192, 1);
  }
}

TEST(PeerNorms, RefuseRowsThatDoNotFit) {
  EXPECT_FALSE(takes_peer_add_rms_norm(33, 8192, DType::kBF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(1, 16'392, DType::kBF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(1, 4100, DType::kBF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(1, 4096, DType::kF16));
  EXPECT_FALSE(takes_peer_add_rms_norm(0, 4096, DType::kBF16));
}

// A graph of sums counts its calls in the device's memory, so that it may be replayed.
TEST_P(PeerSums, AreReplayed) {
  constexpr int64_t kElements = 4096;
  const Tensors x = draw(DType::kF32, kElements, 21), from = draw(DType::kF32, kElements, 21);
  std::vector<cudaGraphExec_t> graphs(size_);
  for (size_t r = 0; r < size_; ++r) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(streams_[r], cudaStreamCaptureModeThreadLocal), "capturing");
    check(cudaMemcpyAsync(x.data(r), from.data(r), 4 * kElements, cudaMemcpyDeviceToDevice,
                          streams_[r]),
          "copying");
    for (int call = 0; call < 3; ++call)
      check(launch_peer_all_reduce(ranks_[r], x.data(r), kElements, DType::kF32,
                                   1 / static_cast<float>(size_), streams_[r]),
            "all_reduce");
    check(cudaStreamEndCapture(streams_[r], &graph), "capturing");
    check(cudaGraphInstantiate(&graphs[r], graph, 0), "making a graph");
    cudaGraphDestroy(graph);
  }
  for (int replay = 0; replay < 3; ++replay) {
    for (size_t r = 0; r < size_; ++r) check(cudaGraphLaunch(graphs[r], streams_[r]), "replaying");
    finish();
    made_ += 3;
    const std::vector<float> means = read(DType::kF32, x.data(0), kElements);
    for (size_t i = 0; i < means.size(); ++i) {
      double sum = 0;
      for (size_t r = 0; r < size_; ++r) sum += x.values[r][i];
      ASSERT_NEAR(means[i], sum / static_cast<double>(size_), 1e-5);
    }
    for (size_t r = 0; r < size_; ++r) {
      EXPECT_EQ(read(DType::kF32, x.data(r), kElements), means);
      EXPECT_EQ(words_[r], made_);
    }
  }
  for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
}

// Where the other ranks have gone, the waiting ends.
TEST_P(PeerSums, StopWaiting) {
  const Tensors x = draw(DType::kF32, 4096, 1);
  check(launch_peer_all_reduce(ranks_[0], x.data(0), 4096, DType::kF32, 1, streams_[0]),
        "all_reduce");
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
  *static_cast<volatile int64_t*>(words_ + kMostPeers) = 1;
  finish();
}

}  // namespace
}  // namespace ridge::backends::cuda
