// SPDX-License-Identifier: Apache-2.0
// Binds GEMMs to oneDNN matmul primitives on strided memory descriptors, and to the other forms.
#include "backends/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/tile_gemm/tile_gemm.h"
#include "backends/cpu/strided_copy.h"
#include "base/arena.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

constexpr size_t kMostBatchAxes = 3;  // oneDNN's optimized kernels take tensors of up to 5 axes

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

// The library writes to null pointers if it has no memory for the code of a kernel, so it is called
// only if there is more than it takes: with fp32 on AVX2, 17 MiB for all kernels of the first call.
constexpr int64_t kRoomBytes = 32 << 20;

// Returns act(). An allocation that fails in oneDNN becomes an out-of-memory Error.
template <typename Act>
std::invoke_result_t<Act> call_onednn(const Act& act) {
  try {
    Arena(kRoomBytes, "the GEMM library");
    return act();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory)
      throw memory_error("[matmul] oneDNN has too little memory: {}", error.what());
    throw;
  }
}

dnnl::memory::data_type data_type(DType dtype) {
  if (dtype == DType::kF32) return dnnl::memory::data_type::f32;
  if (dtype == DType::kBF16) return dnnl::memory::data_type::bf16;
  throw usage_error("[matmul] the cpu backend multiplies f32 and bf16, not {}", name(dtype));
}

// C^T = B^T A^T: the same product with C's columns as rows.
GemmShape transposed(const GemmShape& g) {
  GemmShape t = g;
  std::swap(t.a_batch, t.b_batch);
  std::swap(t.m, t.n);
  t.a_m = g.b_n, t.a_k = g.b_k;
  t.b_k = g.a_k, t.b_n = g.a_m;
  t.c_m = g.c_n, t.c_n = g.c_m;
  return t;
}

bool is_matrix(const GemmMatrix& m) {
  bool repeats = (m.rows > 1 && m.row_step == 0) || (m.columns > 1 && m.column_step == 0);
  return m.has_contiguous_axis() && !repeats;
}

dnnl::memory::desc describe(const std::vector<int64_t>& batch, const GemmMatrix& m, DType dtype) {
  dnnl::memory::dims dims, strides;
  for (size_t i = 0; i < batch.size(); ++i) {
    // oneDNN repeats an operand along a batch axis of extent 1.
    dims.push_back(m.batch_steps[i] == 0 ? 1 : batch[i]);
    strides.push_back(m.batch_steps[i] == 0 ? 1 : m.batch_steps[i]);
  }
  auto [rows, row_step, columns, column_step] =
      std::tuple(m.rows, m.row_step, m.columns, m.column_step);
  dims.push_back(rows);
  dims.push_back(columns);
  // Any stride is valid along an axis of one element; choose it so that the matrix looks dense.
  if (columns == 1) column_step = rows > 1 && row_step == 1 ? rows : 1;
  if (rows == 1) row_step = column_step == 1 ? columns : 1;
  strides.push_back(row_step);
  strides.push_back(column_step);
  return dnnl::memory::desc(dims, data_type(dtype), strides);
}

}  // namespace

bool is_supported(const GemmShape& g) {
  if (g.batch.size() > kMostBatchAxes) return false;
  return is_matrix(g.a()) && is_matrix(g.b()) && is_matrix(g.c());
}

namespace {

// Ridge provides oneDNN's scratch: Debian's build of the library would keep one for each primitive.
dnnl::matmul::primitive_desc describe_matmul(const GemmShape& g) {
  RIDGE_CHECK(is_supported(g), "a product of strides that oneDNN does not take: {}", g.key());
  dnnl::memory::desc da = describe(g.batch, g.a(), g.input);
  dnnl::memory::desc db = describe(g.batch, g.b(), g.input);
  dnnl::memory::desc dc = describe(g.batch, g.c(), g.output);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (g.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  return {{da, db, dc}, attr, engine()};
}

// oneDNN's matmul divides by blocks that it counts in 32 bits: more rows, columns or terms end the
// program (SIGFPE with AVX-512), even where only its scratch is asked for.
bool has_32_bit_extents(const GemmShape& g) {
  return std::max({g.m, g.n, g.k}) <= std::numeric_limits<int32_t>::max();
}

// Called whenever a graph is costed, and slow to compute. 0 for a product that cannot be bound.
int64_t matmul_scratch_bytes(const GemmShape& g) {
  if (!has_32_bit_extents(g)) return 0;
  static std::mutex mutex;  // graphs may be costed on several threads
  static std::map<std::pair<std::string, int>, int64_t> known;
  const std::pair key(g.key(), omp_get_max_threads());
  const std::lock_guard lock(mutex);
  auto found = known.find(key);
  if (found == known.end()) {
    const size_t bytes =
        call_onednn([&] { return describe_matmul(g).scratchpad_desc().get_size(); });
    found = known.emplace(key, round_up(static_cast<int64_t>(bytes), kAlignmentBytes)).first;
  }
  return found->second;
}

void check_status(dnnl::status status) {
  if (status != dnnl::status::success)
    throw memory_error("[matmul] oneDNN could not multiply: status {}", static_cast<int>(status));
}

// The first calls generate the kernels of all shapes: those that are common to all, those that
// multiply in place, and those of few columns. Here rather than in a run, where the thread that
// comes first generates them, and other threads may have taken the memory meanwhile.
void generate_sgemm() {
  static std::once_flag once;
  std::call_once(once, [] {
    call_onednn([] {
      const float x[4] = {};
      float y[4] = {};
      for (const auto& [layout, n] : {std::pair('N', 1), std::pair('N', 2), std::pair('T', 2)})
        check_status(dnnl::sgemm('N', layout, n, n, n, 1.0f, x, n, x, n, 0.0f, y, n));
    });
  });
}

GemmLaunch bind_matmul(const GemmShape& g, const GemmOperands& at) {
  if (!has_32_bit_extents(g))
    throw usage_error(
        "[matmul] expected extents up to {}, which oneDNN multiplies, got {} x {} x {}",
        std::numeric_limits<int32_t>::max(), g.m, g.k, g.n);
  return call_onednn([&]() -> GemmLaunch {
    dnnl::matmul::primitive_desc product = describe_matmul(g);
    // Some matmul primitives call sgemm in each thread.
    if (std::string_view(product.impl_info_str()).starts_with("gemm")) generate_sgemm();
    std::unordered_map<int, dnnl::memory> arguments = {
        {DNNL_ARG_SRC, dnnl::memory(product.src_desc(), engine(), at.a)},
        {DNNL_ARG_WEIGHTS, dnnl::memory(product.weights_desc(), engine(), at.b)},
        {DNNL_ARG_DST, dnnl::memory(product.dst_desc(), engine(), at.c)},
        {DNNL_ARG_SCRATCHPAD,
         dnnl::memory(product.scratchpad_desc(), engine(), at.workspace.data())}};
    return [primitive = dnnl::matmul(product), arguments = std::move(arguments)] {
      primitive.execute(stream(), arguments);
    };
  });
}

// Leading dimension and transposition of a matrix with one contiguous axis.
struct BlasOperand {
  char transposed;
  int64_t leading;
};
BlasOperand blas_operand(const GemmMatrix& m) {
  if (m.has_contiguous_rows() && (m.rows == 1 || m.row_step >= m.columns))
    return {'N', m.rows == 1 ? m.columns : m.row_step};
  return {'T', m.columns == 1 ? m.rows : m.column_step};
}

GemmLaunch bind_sgemm(const GemmShape& g, const GemmOperands& at) {
  generate_sgemm();
  BlasOperand x = blas_operand(g.a()), y = blas_operand(g.b());
  int64_t leading = g.m == 1 ? g.n : g.c_m;
  return [=, a = reinterpret_cast<const float*>(at.a), b = reinterpret_cast<const float*>(at.b),
          c = reinterpret_cast<float*>(at.c), beta = g.accumulate ? 1.0f : 0.0f, m = g.m, n = g.n,
          k = g.k] {
    check_status(dnnl::sgemm(x.transposed, y.transposed, m, n, k, 1.0f, a, x.leading, b, y.leading,
                             beta, c, leading));
  };
}

// One 16-bit operand of a product and its dense fp32 copy: the same batch axes (except repeated
// ones), with rows and columns in the order in which they lie in memory.
struct WideOperand {
  Shape shape;     // batch..., slower axis, faster axis
  Strides narrow;  // the 16-bit operand has them
  std::vector<int64_t> wide_batch;
  int64_t wide_row = 0, wide_column = 0;
  int64_t bytes() const { return round_up(4 * shape.elements(), kAlignmentBytes); }
};

WideOperand wide_operand(const std::vector<int64_t>& batch, const GemmMatrix& m) {
  const std::vector<int64_t>& strides = m.batch_steps;
  WideOperand w;
  std::vector<int64_t> dims;
  for (size_t i = 0; i < batch.size(); ++i) {
    dims.push_back(strides[i] == 0 ? 1 : batch[i]);
    w.narrow.push_back(strides[i]);
  }
  const bool by_rows = m.has_contiguous_rows();
  dims.insert(dims.end(), {by_rows ? m.rows : m.columns, by_rows ? m.columns : m.rows});
  w.narrow.push_back(by_rows ? m.row_step : m.column_step);
  w.narrow.push_back(by_rows ? m.column_step : m.row_step);
  w.shape = Shape(dims);
  Strides dense = dense_strides(w.shape);
  int last = w.shape.rank() - 1;
  for (size_t i = 0; i < batch.size(); ++i)
    w.wide_batch.push_back(strides[i] == 0 ? 0 : dense[static_cast<int>(i)]);
  w.wide_row = dense[by_rows ? last - 1 : last];
  w.wide_column = dense[by_rows ? last : last - 1];
  return w;
}

// The operands of a product.
struct WideProduct {
  explicit WideProduct(const GemmShape& g)
      : a(wide_operand(g.batch, g.a())),
        b(wide_operand(g.batch, g.b())),
        c(wide_operand(g.batch, g.c())),
        bytes(a.bytes() + b.bytes() + (g.output == DType::kF32 ? 0 : c.bytes())) {}
  WideOperand a, b, c;
  int64_t bytes;  // the copies take so many; a result in fp32 has none
};

// The 16-bit operand and its fp32 copy, as arguments of the copy between them.
Operand narrow_operand(const WideOperand& w, DType dtype, std::byte* data) {
  return {data, {dtype, w.shape}, w.narrow};
}
Operand wide_operand(const WideOperand& w, std::byte* data) {
  return {data, {DType::kF32, w.shape}, dense_strides(w.shape)};
}
GemmLaunch widen(const WideOperand& w, DType dtype, std::byte* narrow, std::byte* wide) {
  return strided_copy(narrow_operand(w, dtype, narrow), wide_operand(w, wide));
}

// The product in fp32 on the fp32 copies.
GemmShape widened(GemmShape g) {
  const auto [a, b, c, bytes] = WideProduct(g);
  g.a_batch = a.wide_batch, g.a_m = a.wide_row, g.a_k = a.wide_column;
  g.b_batch = b.wide_batch, g.b_k = b.wide_row, g.b_n = b.wide_column;
  if (g.output != DType::kF32) g.c_batch = c.wide_batch, g.c_m = c.wide_row, g.c_n = c.wide_column;
  g.input = g.output = DType::kF32;
  return g;
}

GemmLaunch bind_widened(const GemmShape& g, const GemmOperands& at) {
  const WideProduct wide(g);
  const bool narrows = g.output != DType::kF32;
  std::byte* x = at.workspace.data();
  std::byte* y = x + wide.a.bytes();
  std::byte* z = narrows ? y + wide.b.bytes() : at.c;
  GemmLaunch widen_a = widen(wide.a, g.input, at.a, x), widen_b = widen(wide.b, g.input, at.b, y);
  GemmLaunch product =
      bind_matmul(widened(g), {x, y, z, at.workspace.subspan(static_cast<size_t>(wide.bytes))});
  if (!narrows)
    return [widen_a, widen_b, product] {
      widen_a();
      widen_b();
      product();
    };
  GemmLaunch widen_c = widen(wide.c, g.output, at.c, z);
  GemmLaunch narrow_c =
      strided_copy(wide_operand(wide.c, z), narrow_operand(wide.c, g.output, at.c));
  return [widen_a, widen_b, widen_c, narrow_c, product, adds = g.accumulate] {
    widen_a();
    widen_b();
    if (adds) widen_c();
    product();
    narrow_c();
  };
}

GemmLaunch bind_tiles(const GemmShape& g, const GemmOperands& at) {
  TileGemm call;
  call.m = g.m, call.n = g.n, call.k = g.k;
  call.a = {reinterpret_cast<const uint16_t*>(at.a), g.a_m, g.k == 1 ? 1 : g.a_k};
  call.b = {reinterpret_cast<const uint16_t*>(at.b), g.b_n, g.k == 1 ? 1 : g.b_k};
  call.c = at.c;
  call.c_step = g.c_m;
  call.c_is_bf16 = g.output == DType::kBF16;
  call.accumulate = g.accumulate;
  return [call, workspace = at.workspace.data(), threads = omp_get_max_threads()] {
    tile_gemm(call, workspace, threads);
  };
}

}  // namespace

std::string_view name(GemmForm form) {
  constexpr std::string_view kNames[] = {"matmul", "sgemm", "widened", "tiles"};
  return kNames[static_cast<size_t>(form)];
}

std::span<const GemmForm> gemm_forms() {
  static constexpr std::array kForms = {GemmForm::kTiles, GemmForm::kMatmul, GemmForm::kSgemm,
                                        GemmForm::kWidened};
  return kForms;
}

bool takes(GemmForm form, const GemmShape& g) {
  const bool f32 = g.input == DType::kF32, bf16 = g.input == DType::kBF16;
  switch (form) {
    case GemmForm::kMatmul:
      return is_supported(g) && (f32 || (bf16 && has_bf16_products()));
    case GemmForm::kSgemm:
      return f32 && g.output == DType::kF32 && g.batch.empty() && is_supported(g);
    case GemmForm::kWidened:
      return !f32 && is_supported(g);
    case GemmForm::kTiles:
      return bf16 && g.batch.empty() && is_supported(g) && has_bf16_tiles();
  }
  return false;
}

namespace {

// Whether only columns of C are contiguous; every form needs contiguous rows.
bool is_by_columns(const GemmShape& shape) { return shape.n > 1 && shape.c_n != 1; }
GemmShape by_rows(const GemmShape& shape) {
  return is_by_columns(shape) ? transposed(shape) : shape;
}

// A^T B, as in the gradient of a weight.
bool has_transposed_first(const GemmShape& shape) {
  const GemmShape g = by_rows(shape);
  const bool a_transposed = g.m > 1 && g.a_m == 1 && g.k > 1 && g.a_k != 1;
  return a_transposed && (g.n == 1 || g.b_n == 1);
}

}  // namespace

std::string kernel_name(GemmForm form, const GemmShape& shape) {
  switch (form) {
    case GemmForm::kMatmul:
      if (!has_32_bit_extents(shape)) break;
      return call_onednn(
          [&]() -> std::string { return describe_matmul(by_rows(shape)).impl_info_str(); });
    case GemmForm::kSgemm:
      return "sgemm";
    case GemmForm::kWidened:
      return "sgemm of widened operands";
    case GemmForm::kTiles:
      return "tile_gemm";
  }
  return std::string(name(form));
}

GemmForm default_form(const GemmShape& g, bool native) {
  if (native && takes(GemmForm::kTiles, g)) return GemmForm::kTiles;
  // Over 21 shapes on two cores of an AMD EPYC (Zen 4), oneDNN 2.6's sgemm took 0.85 of the time of
  // its matmul in the median, and more than 1.03 of it for two.
  if (takes(GemmForm::kSgemm, g) && has_transposed_first(g)) return GemmForm::kSgemm;
  const bool multiplies =
      g.input == DType::kF32 || (g.input == DType::kBF16 && has_bf16_products());
  return multiplies ? GemmForm::kMatmul : GemmForm::kWidened;
}

int64_t gemm_workspace_bytes(GemmForm form, const GemmShape& shape) {
  GemmShape g = by_rows(shape);
  switch (form) {
    case GemmForm::kMatmul:
      return matmul_scratch_bytes(g);
    case GemmForm::kSgemm:
      return 0;
    case GemmForm::kWidened:
      return WideProduct(g).bytes + matmul_scratch_bytes(widened(g));
    case GemmForm::kTiles:
      return tile_gemm_workspace_bytes(g.m, g.n, g.k, omp_get_max_threads());
  }
  return 0;
}

GemmLaunch bind_gemm(GemmForm form, const GemmShape& shape, GemmOperands at) {
  int64_t needed = gemm_workspace_bytes(form, shape);
  if (needed > static_cast<int64_t>(at.workspace.size())) {
    auto arena = std::make_shared<Arena>(needed, "workspace of a product");
    at.workspace = {arena->data(), static_cast<size_t>(needed)};
    return [arena, launch = bind_gemm(form, shape, at)] { launch(); };
  }
  GemmShape g = by_rows(shape);
  if (is_by_columns(shape)) std::swap(at.a, at.b);
  switch (form) {
    case GemmForm::kMatmul:
      return bind_matmul(g, at);
    case GemmForm::kSgemm:
      return bind_sgemm(g, at);
    case GemmForm::kWidened:
      return bind_widened(g, at);
    case GemmForm::kTiles:
      return bind_tiles(g, at);
  }
  return {};
}

}  // namespace ridge::backends::cpu
