// SPDX-License-Identifier: Apache-2.0
// Reads rows of an embedding table that stays as its file stores it, in quantized blocks.
#include <algorithm>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/on_cpu.h"
#include "backends/row_layout.h"
#include "base/block_formats.h"
#include "base/repacked_tiles.h"

namespace ridge::backends::cpu {
namespace {

struct QuantizedEmbedding {
  int64_t tokens = 0;
  int64_t width = 0;
  int64_t vocabulary = 0;
  DType dtype = DType::kF16;
  const std::byte* table = nullptr;
  const int32_t* ids = nullptr;
  StridedRows<float> y;
};

QuantizedEmbedding quantized_call(const BindCall& call) {
  const Type& table = call.inputs[0].type;
  return {call.inputs[1].type.shape[0],
          table.shape[1],
          table.shape[0],
          table.dtype,
          call.inputs[0].data,
          call.inputs[1].as<const int32_t>(),
          rows<float>(call.outputs[0])};
}

void read_row(const QuantizedEmbedding& e, int32_t id, std::span<float> y) {
  if (id < 0) {
    std::fill(y.begin(), y.end(), 0.0f);
  } else if (is_repacked(e.dtype)) {
    dequantize_row(e.dtype, e.table, id, y);
  } else {
    const int64_t row_bytes = storage_bytes(e.dtype, e.width);
    dequantize(e.dtype, {e.table + id * row_bytes, static_cast<size_t>(row_bytes)}, y);
  }
}

int64_t read_rows(const QuantizedEmbedding& e) {
  const int64_t bad_row = first_bad_row(e.ids, e.tokens, e.vocabulary);
  if (bad_row != kNoBadRow) return bad_row;
  for_each_range(e.tokens, parts_for(8 * e.tokens * e.width), [&](Range range) {
    for (int64_t n = range.begin; n < range.end; ++n)
      read_row(e, e.ids[n], {e.y[n], static_cast<size_t>(e.width)});
  });
  return kNoBadRow;
}

std::string unsupported(const Call& call) {
  if (!is_block(call.inputs[0].dtype) || call.outputs[0].dtype == DType::kF32) return "";
  return fmt::format("rows of a {} table are read as f32", ridge::name(call.inputs[0].dtype));
}

}  // namespace

Kernel with_quantized_tables(Kernel embedding) {
  const Launcher<QuantizedEmbedding> quantized =
      one_on_cpu<QuantizedEmbedding>(read_rows, ids_of("embedding"));
  embedding.bind = [plain = std::move(embedding.bind), quantized](const BindCall& call) {
    return is_block(call.inputs[0].type.dtype) ? quantized(quantized_call(call), op_of(call))
                                               : plain(call);
  };
  embedding.unsupported = unsupported;
  embedding.takes_quantized = true;
  return embedding;
}

}  // namespace ridge::backends::cpu
