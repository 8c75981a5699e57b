// SPDX-License-Identifier: Apache-2.0
// Binding of embedding with a table in fragment tiles.
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/kernels/gemm/fragment_gemm.h"
#include "backends/cuda/on_stream.h"
#include "backends/cuda/unpacked_product.h"
#include "backends/row_layout.h"
#include "base/error.h"
#include "base/fragment_tiles.h"

namespace ridge::backends::cuda {
namespace {

template <typename T>
FragmentEmbedding<T> lookup(const BindCall& call) {
  const Type& table = call.inputs[0].type;
  FragmentEmbedding<T> e;
  e.tokens = call.inputs[1].type.shape[0];
  e.width = table.shape[1];
  e.vocabulary = table.shape[0];
  e.table = call.inputs[0].as<const uint8_t>();
  e.format = fragment_format(table.dtype);
  e.ids = call.inputs[1].as<const int32_t>();
  e.y = rows<T>(call.outputs[0]);
  return e;
}

// The rows of a slice may begin anywhere, but the kernel stores whole vectors.
bool takes_output(const Call& call, int output, const Layout& layout) {
  constexpr int64_t kVector = 8;
  const std::optional<int64_t> stride = row_stride(call.outputs[0].shape, layout);
  if (!is_fragments(call.inputs[0].dtype)) return output_lies_in_rows(call, output, layout);
  return stride && *stride % kVector == 0 && layout.offset % kVector == 0;
}

std::string unsupported(const Call& call) {
  const DType table = call.inputs[0].dtype;
  if (is_fragments(table) || table == DType::kF32 || table == DType::kBF16) return "";
  return fmt::format("the cuda backend has no lookup in a table of {}", ridge::name(table));
}

}  // namespace

Kernel with_fragment_tables(Kernel embedding, BindContext& context) {
  const OnStream on_stream(context);
  const IndexNames ids = ids_of("embedding");
  embedding.bind =
      [plain = std::move(embedding.bind), wide = on_stream(launch_fragment_embedding<float>, ids),
       narrow = on_stream(launch_fragment_embedding<uint16_t>, ids)](const BindCall& call) {
        if (!is_fragments(call.inputs[0].type.dtype)) return plain(call);
        return call.outputs[0].type.dtype == DType::kF32
                   ? wide(lookup<float>(call), op_of(call))
                   : narrow(lookup<uint16_t>(call), op_of(call));
      };
  embedding.takes_output = takes_output;
  embedding.unsupported = unsupported;
  embedding.takes_quantized = true;
  return embedding;
}

}  // namespace ridge::backends::cuda
