// SPDX-License-Identifier: Apache-2.0
// Bindings of embedding and its gradient.
#include "backends/cpu/kernels/embedding.h"

#include <algorithm>

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/embedding_call.h"
#include "base/block_formats.h"
#include "base/error.h"
#include "base/row_panels.h"

namespace ridge::backends::cpu {
namespace {

void check_ids(int64_t bad_row, int64_t vocabulary) {
  if (bad_row != kNoBadRow)
    throw runtime_error("[embedding] expected ids from -1 to {}, token {} has another",
                        vocabulary - 1, bad_row);
}

// Rows of a table that stays as its file stores it.
Launch bind_stored(const BindCall& call) {
  const Type& table = call.inputs[0].type;
  return [tokens = call.inputs[1].type.shape[0], width = table.shape[1],
          vocabulary = table.shape[0], dtype = table.dtype,
          row_bytes = is_panels(table.dtype) ? 0 : storage_bytes(table.dtype, table.shape[1]),
          from = call.inputs[0].data, ids = call.inputs[1].as<const int32_t>(),
          y = rows<float>(call.outputs[0])] {
    check_ids(first_bad_row(ids, tokens, vocabulary), vocabulary);
    for_each_range(tokens, parts_for(8 * tokens * width), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        if (ids[n] < 0)
          std::fill_n(y[n], width, 0.0f);
        else if (is_panels(dtype))
          dequantize_row(dtype, from, ids[n], {y[n], static_cast<size_t>(width)});
        else
          dequantize(dtype, {from + ids[n] * row_bytes, static_cast<size_t>(row_bytes)},
                     {y[n], static_cast<size_t>(width)});
      }
    });
  };
}

bool is_stored(DType table) { return is_block(table) || table == DType::kF16; }

std::string unsupported(const Call& call) {
  if (!is_stored(call.inputs[0].dtype) || call.outputs[0].dtype == DType::kF32) return "";
  return fmt::format("rows of a {} table are read as f32", ridge::name(call.inputs[0].dtype));
}

Launch bind(const BindCall& call) {
  if (is_stored(call.inputs[0].type.dtype)) return bind_stored(call);
  return by_dtype(call.inputs[0].type.dtype, [&](auto table) -> Launch {
    return by_dtype(call.outputs[0].type.dtype, [&](auto element) -> Launch {
      return [e = embedding_call<decltype(table), decltype(element)>(call)] {
        check_ids(embedding(e), e.vocabulary);
      };
    });
  });
}

Launch bind_backward(const BindCall& call) {
  return by_dtype(call.inputs[1].type.dtype, [&](auto element) -> Launch {
    return [e = embedding_backward_call<decltype(element)>(call)] {
      check_ids(embedding_backward(e), e.vocabulary);
    };
  });
}

}  // namespace

const CpuKernel& embedding_kernel() {
  static const CpuKernel kernel{.op = "embedding",
                                .bind = bind,
                                .takes_output = output_lies_in_rows,
                                .unsupported = unsupported,
                                .takes_stored = true};
  return kernel;
}

const CpuKernel& embedding_backward_kernel() {
  static const CpuKernel kernel{
      .op = "embedding_backward", .bind = bind_backward, .takes_input = rows_gradient_lies_in_rows};
  return kernel;
}

}  // namespace ridge::backends::cpu
