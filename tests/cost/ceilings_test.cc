// SPDX-License-Identifier: Apache-2.0
// The record of a machine's ceilings: it is read back as written, and errors name impossible
// values.
#include "cost/ceilings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cost/hardware.h"
#include "cost/made_up_ceilings.h"

namespace ridge::cost {
namespace {

Ceilings measured() {
  Ceilings c = ceilings_of(*find_hardware("h100"));
  c.machine.isa = "sm_90";
  c.machine.libraries = {"cuBLASLt 13"};
  c.measured_at = "2026-01-02T03:04:05Z";
  c.others_share = 0.25;
  c.levels.push_back({"L2", 50 << 20, 5500, 5000, 0});
  c.products[0].samples.push_back({{2, 96, 48, 24}, ProductForm::kTN, 1234.5});
  c.products[0].memory_samples.push_back({{2, 96, 48, 24}, ProductForm::kTN, 2345.5});
  c.products[0].vector_columns = 16;
  c.products[0].stream_call_ns = 7500;
  c.products[0].stream_row_call_ns = 5500;
  c.products[0].row_bytes_per_ns = 3900;
  c.attention.push_back({DType::kBF16, 1, 2, 3, 4});
  c.multiplies = {{DType::kI16, "vpmaddwd ymm", 64, 400, 390, 300, "Zen 3 (a document)"},
                  {DType::kBF16, "vdpbf16ps zmm", 0, 0, 900, 900, "unknown"},
                  {DType::kBF16, "tdpbf16ps", 1024, 6000, 5000, 5000, "a document"},
                  {DType::kF32, "vfmadd zmm", 64, 200, 190, 190, "a document"}};
  c.unpacks = {{DType::kQ4_0x16, 150}};
  c.quantized_gemms.push_back(
      {DType::kQ4_Kx16, DType::kI16, 4, {{1, 0.5, 0.6, 3}, {4, 0.75, 0.75, 0}}});
  c.cache.push_back({"cached_mix", DType::kF32, 20, 0.5, 7});
  c.notes = {"a \"note\""};
  return c;
}

TEST(Ceilings, AreReadAsWritten) {
  std::string text = to_json(measured());
  Ceilings read = ceilings_from_json(text, "here");
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.machine.hash(), measured().machine.hash());
  EXPECT_EQ(read.others_share, 0.25);
  EXPECT_EQ(read.products[0].samples[0].form, ProductForm::kTN);
  ASSERT_EQ(read.products[0].memory_samples.size(), 1u);
  EXPECT_EQ(read.products[0].memory_samples[0].ns, 2345.5);
  EXPECT_EQ(read.products[0].vector_columns, 16);
  EXPECT_EQ(read.products[0].stream_call_ns, 7500);
  EXPECT_EQ(read.products[0].stream_row_call_ns, 5500);
  EXPECT_EQ(read.products[0].row_bytes_per_ns, 3900);
  const QuantizedRates* quantized = read.quantized_rates(DType::kQ4_Kx16, DType::kI16);
  ASSERT_NE(quantized, nullptr);
  EXPECT_EQ(quantized->most_tokens, 4);
  EXPECT_EQ(quantized->times[1].tokens, 4);
  EXPECT_EQ(quantized->times[0].ns_per_in, 3);
  EXPECT_EQ(read.quantized_rates(DType::kQ4_Kx16, DType::kF32), nullptr);
  EXPECT_EQ(read.cache_rates("cached_mix", DType::kF32)->scores_per_ns, 0.5);
  EXPECT_EQ(read.cache_rates("cached_mix", DType::kBF16), nullptr);
}

TEST(Ceilings, MultiplyRatesAreThoseOfTheFastestInstruction) {
  const Ceilings c = ceilings_from_json(to_json(measured()), "here");
  EXPECT_EQ(c.multiply_rates(DType::kBF16)->instruction, "tdpbf16ps");
  EXPECT_EQ(c.multiply_rates(DType::kF16)->instruction, "vfmadd zmm");  // widened
  EXPECT_EQ(c.multiply_rates(DType::kI8), nullptr);
  EXPECT_EQ(c.multiply_rates(DType::kI16)->theoretical_ops_per_cycle, 64);
  EXPECT_EQ(c.multiply_rates(DType::kI16)->accumulate_ops_per_ns, 300);
  EXPECT_EQ(c.multiply_rates(DType::kI16)->source, "Zen 3 (a document)");
  EXPECT_EQ(c.unpack_bytes_per_ns(DType::kQ4_0x16), 150);
  EXPECT_EQ(c.unpack_bytes_per_ns(DType::kQ8_0x16), 0);
}

// GEMMs of i16 are only Ridge's own, so their best rate is no ceiling.
TEST(Ceilings, UtilizationOfI16IsAShareOfMultiplicationsAlone) {
  Ceilings c = measured();
  c.products.push_back({DType::kI16, false, 260, 400, 1, 0, 0, 0, 0, {}, {}});
  EXPECT_EQ(c.mfu_reference(DType::kI16).per_ns, 390);
  EXPECT_EQ(c.peak_flops_per_ns(DType::kI16), 260);
  c.multiplies.clear();
  EXPECT_EQ(c.mfu_reference(DType::kI16).per_ns, 260);
}

TEST(Ceilings, UtilizationIsAShareOfTheMeasuredRate) {
  Ceilings c = measured();
  c.products[0].peak_flops_per_ns = 100;
  c.products[0].theoretical_flops_per_ns = 125;
  const ReferenceRate flops = c.mfu_reference(DType::kF32);
  EXPECT_EQ(flops.per_ns, 100);
  EXPECT_EQ(flops.str("FLOP/s", "fp32"), "of 100 GFLOP/s fp32, measured (data sheet: 125 GFLOP/s)");
  EXPECT_EQ(c.mbu_reference().source, "measured");
}

TEST(Machine, SaysItsPartsAndLibraries) {
  Machine machine{"a CPU", "avx2", 4, 2, {"oneDNN 2.6", "OpenMP"}, 0, "", 1 << 30};
  EXPECT_EQ(machine.str(), "a CPU, avx2, 2 threads on 4 cores, oneDNN 2.6, OpenMP");
  machine = {"a GPU", "", 1, 0, {}, 0, "", 1 << 30};
  EXPECT_EQ(machine.str(), "a GPU");
  machine.threads = 1;
  EXPECT_EQ(machine.str(), "a GPU, 1 thread on 1 core");
}

TEST(Ceilings, MissingFieldsAreNamed) {
  const auto json = nlohmann::json::parse(to_json(measured()));
  for (const auto& [key, value] : json.items()) {
    if (key == "links") continue;  // files of one device have none
    auto without = json;
    without.erase(key);
    try {
      ceilings_from_json(without.dump(), "here");
      ADD_FAILURE() << "read without " << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

TEST(Ceilings, ImpossibleNumbersAreRefused) {
  const auto json = nlohmann::json::parse(to_json(measured()));
  auto refused = [&](const char* pointer, const nlohmann::json& value) {
    auto changed = json;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    EXPECT_THROW(ceilings_from_json(changed.dump(), "here"), Error) << pointer << " = " << value;
  };
  refused("/others_share", 1.5);
  refused("/others_share", "much");
  refused("/launch_ns", -1);
  refused("/fused_flops_per_ns", 0);
  refused("/memory/points", nlohmann::json::array());
  refused("/memory/points/0/copy_bytes_per_ns", 1e12);
  refused("/memory/points/0/footprint_bytes", 0);
  refused("/gemms/0/dtype", "f31");
  refused("/gemms/0/samples/0/m", 0);
  refused("/gemms/0/samples/0/form", "xx");
  refused("/gemms/0/memory_samples/0/k", 0);
  refused("/gemms/0/memory_samples/0/ns", 0);
  refused("/gemms/0/vector_columns", -1);
  refused("/multiplies/0/multiply_ops_per_ns", 0);
  refused("/multiplies/0/theoretical_ops_per_ns", -1);
  refused("/multiplies/0/theoretical_ops_per_cycle", 1e12);
  refused("/multiplies/0/dtype", "i17");
  refused("/multiplies/0/instruction", 1);
  refused("/unpacking/0/bytes_per_ns", 0);
  refused("/unpacking/0/weight", "q9");
  refused("/format", 16);
  refused("/stored_gemms/0/times", nlohmann::json::array());
  refused("/stored_gemms/0/times/0/tokens", 4);  // not ascending
  refused("/stored_gemms/0/times/0/cached_ns", 0);
  refused("/stored_gemms/0/weight", "q9");
  refused("/cache/0/flops_per_ns", 0);
  refused("/attention/0/forward_flops_per_ns", 0);
  refused("/machine/cores", -1);
  refused("/format", 1);
}

TEST(Ceilings, AreDisturbedByBusyNeighbours) {
  Ceilings c = measured();
  EXPECT_TRUE(c.disturbed());
  c.others_share = 0.02;
  EXPECT_FALSE(c.disturbed());
}

TEST(Ceilings, NameLevelsThatAreSlowerThanOnesBehindThem) {
  Ceilings c = measured();
  c.levels = {{"L1", 1 << 16, 200, 100, 0}, {"L3", 1 << 24, 12, 60, 0}, {"memory", 0, 26, 65, 0}};
  EXPECT_EQ(implausible_levels(c),
            std::vector<std::string>{"L3 reads at 12.0 GB/s, but memory 26.0 GB/s"});
  c.levels[1].read_bytes_per_ns = 24;  // noise
  EXPECT_TRUE(implausible_levels(c).empty());
}

TEST(Ceilings, AtOtherThreadsTheCoresRatesChangeAndMemoryStays) {
  Ceilings two = made_up_ceilings({{1 << 15, 200, 100}, {1 << 24, 80, 60}, {1 << 30, 20, 15}}, 100);
  two.machine.threads = two.machine.cores = 2;
  two.levels = {{"L1", 1 << 16, 200, 100, 400},
                {"L2", 1 << 21, 150, 90, 0},
                {"L3", 1 << 25, 80, 60, 0},
                {"memory", int64_t{1} << 34, 20, 15, 40}};
  two.products[0].samples = {{{1, 8, 8, 8}, ProductForm::kNN, 100}};
  two.fused_flops_per_ns = 30;
  two.parallel_ns = 1000;
  const Ceilings one = at_threads(two, 1);
  EXPECT_EQ(one.machine.threads, 1);
  EXPECT_EQ(one.bandwidth[0].copy_bytes_per_ns, 50);
  EXPECT_EQ(one.bandwidth[1].copy_bytes_per_ns, 60) << "of the shared cache";
  EXPECT_EQ(one.bandwidth[2].copy_bytes_per_ns, 15);
  EXPECT_EQ(one.levels[1].copy_bytes_per_ns, 45);
  EXPECT_EQ(one.levels[1].capacity_bytes, 1 << 20);
  EXPECT_EQ(one.levels[2].copy_bytes_per_ns, 60);
  EXPECT_EQ(one.memory_bytes_per_ns(), 15);
  EXPECT_EQ(one.products[0].peak_flops_per_ns, 50);
  EXPECT_EQ(one.products[0].samples[0].ns, 200);
  EXPECT_EQ(one.fused_flops_per_ns, 15);
  EXPECT_EQ(one.parallel_ns, 0);
  EXPECT_EQ(at_threads(two, 4).products[0].peak_flops_per_ns, 200);
  EXPECT_EQ(at_threads(two, 4).parallel_ns, 2000);
}

}  // namespace
}  // namespace ridge::cost
