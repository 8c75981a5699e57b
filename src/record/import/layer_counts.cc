// SPDX-License-Identifier: Apache-2.0
// Counts of whole layers: convolutions, norms over channels, pooling, recurrent networks, bags of
// embeddings, Fourier transforms, products of groups.
#include <algorithm>
#include <bit>

#include "record/import/count_parts.h"

namespace ridge::record {
namespace {

// Where a call has its sizes; -1: nowhere.
struct WindowPlaces {
  int stride = -1, padding = -1, dilation = -1, transposed = -1, output_padding = -1;
};

// The value for an axis of "[2, 2]" or "2", which stands for all axes; `otherwise` if not recorded.
std::optional<int64_t> of_axis(const RecordedCall& call,
                               int place,
                               size_t axis,
                               int64_t otherwise) {
  if (place < 0 || static_cast<size_t>(place) >= call.operands.size()) return otherwise;
  const std::vector<int64_t> all = integers(call.value(static_cast<size_t>(place)));
  if (all.empty()) return std::nullopt;
  return all[std::min(axis, all.size() - 1)];
}

bool is_true(const RecordedCall& call, int place) {
  return place >= 0 && call.value(static_cast<size_t>(place)) == "True";
}

// The spatial extents of the output of a window that slides over x [N,C,...].
std::optional<Extents> window_output(const RecordedCall& call,
                                     const Extents& x,
                                     std::span<const int64_t> window,
                                     const WindowPlaces& at) {
  Extents output;
  for (size_t i = 0; i < window.size(); ++i) {
    const auto stride = of_axis(call, at.stride, i, 1), padding = of_axis(call, at.padding, i, 0),
               dilation = of_axis(call, at.dilation, i, 1),
               more = of_axis(call, at.output_padding, i, 0);
    constexpr int64_t kMost = int64_t{1} << 40;
    if (!stride || !padding || !dilation || *stride < 1 || *dilation < 1 || *stride > kMost ||
        *dilation > kMost || std::abs(*padding) > kMost || window[i] > kMost)
      return std::nullopt;
    const int64_t reach = count_product({*dilation, std::max<int64_t>(window[i] - 1, 0)});
    const int64_t extent = x[2 + i];
    const int64_t size = is_true(call, at.transposed)
                             ? count_product({std::max<int64_t>(extent - 1, 0), *stride}) -
                                   2 * *padding + reach + more.value_or(0) + 1
                             : (extent + 2 * *padding - reach - 1) / *stride + 1;
    output.push_back(std::max<int64_t>(size, 0));
  }
  return output;
}

int64_t spatial(const Extents& extents) {
  return count_product(std::span(extents).subspan(std::min<size_t>(extents.size(), 2)));
}

// x [N,C,...] or, without a batch, [C,...].
std::optional<Extents> batched(const Operand* x, size_t rank) {
  if (x == nullptr || rank < 3) return std::nullopt;
  Extents extents = x->extents();
  if (extents.size() + 1 == rank) extents.insert(extents.begin(), 1);
  if (extents.size() != rank) return std::nullopt;
  return extents;
}

// Each element of the weight [O,C/groups,...] meets each position of the output once; of a
// transposed one [C,O/groups,...], each position of the input.
std::optional<Counts> convolution_at(const RecordedCall& call, const WindowPlaces& at) {
  const Operand* weight = call.tensor(1);
  if (weight == nullptr) return std::nullopt;
  const std::optional<Extents> x = batched(call.tensor(0), weight->extents().size());
  if (!x) return std::nullopt;
  const std::optional<Extents> positions =
      window_output(call, *x, std::span(weight->extents()).subspan(2), at);
  if (!positions) return std::nullopt;
  const bool transposed = is_true(call, at.transposed);
  Extents output = {(*x)[0], weight->extents()[transposed ? 1 : 0]};
  output.insert(output.end(), positions->begin(), positions->end());
  Counts counts = writing(call.operands[0].dtype, std::move(output));
  const int64_t places = transposed ? spatial(*x) : count_product(*positions);
  add_macs(counts, count_product({(*x)[0], places, weight->elements()}));
  counts.read_bytes = read_bytes(call);
  return counts;
}

// A window that slides over each channel: window and stride are operands 1 and 2.
std::optional<Counts> pooling_at(const RecordedCall& call, int dilation, int flops) {
  const Operand* x = call.tensor(0);
  const std::vector<int64_t> window = integers(call.value(1));
  if (x == nullptr || window.empty()) return std::nullopt;
  const size_t axes = std::min<size_t>(x->extents().size(), 2 + std::max<size_t>(window.size(), 1));
  if (axes < 3) return std::nullopt;
  const std::optional<Extents> in = batched(x, axes);
  // An empty stride is the window.
  const bool has_stride = !integers(call.value(2)).empty();
  Extents sizes(axes - 2);
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = window[std::min(i, window.size() - 1)];
  const std::optional<Extents> positions =
      in ? window_output(call, *in, sizes,
                         {.stride = has_stride ? 2 : 1, .padding = 3, .dilation = dilation})
         : std::nullopt;
  if (!positions) return std::nullopt;
  Extents output = {(*in)[0], (*in)[1]};
  output.insert(output.end(), positions->begin(), positions->end());
  Counts counts = writing(x->dtype, std::move(output));
  counts.work.flops = count_product({count_product(counts.output), count_product(sizes), flops});
  counts.read_bytes = x->bytes();
  return counts;
}

// The matrices in the lists of a recurrent network's weights.
int64_t matrix_elements(const RecordedCall& call) {
  int64_t sum = 0;
  for (const Operand& operand : call.operands)
    if (operand.kind == Operand::Kind::kTensorList)
      for (const Extents& each : operand.tensors)
        if (each.size() == 2) sum = count_product({1, sum + count_product(each)});
  return sum;
}

// Each token meets each element of the matrices once.
std::optional<Counts> recurrent_of(const RecordedCall& call, const Operand* x, int64_t elements) {
  if (x == nullptr || x->extents().size() < 2 || elements == 0 || x->extents().back() == 0)
    return std::nullopt;
  Counts counts = writing(x->dtype, x->extents());
  add_macs(counts, count_product({x->elements() / x->extents().back(), elements}));
  counts.read_bytes = read_bytes(call);
  return counts;
}

int64_t truths(std::string_view text) {
  int64_t count = 0;
  for (size_t at = text.find("True"); at != std::string_view::npos; at = text.find("True", at + 4))
    ++count;
  return count;
}

// The columns of a weight [n,k] or [k,n] for inputs of this width; 0 if it has none. Two values of
// four bits may share a byte, or eight of them 32 bits.
int64_t weight_columns(const Operand& weight, int64_t width) {
  if (weight.extents().size() != 2) return 0;
  const int64_t first = weight.extents()[0], second = weight.extents()[1];
  const int64_t packed = weight.dtype == DType::kU8 ? 2 : weight.dtype == DType::kI32 ? 8 : 1;
  if (second == width) return first;
  if (first == width) return count_product({second, weight.dtype == DType::kI32 ? packed : 1});
  if (packed > 1 && count_product({second, packed}) == width) return first;
  if (packed > 1 && count_product({first, packed}) == width) return second;
  return 0;
}

std::optional<Counts> serving_product_from(const RecordedCall& call, size_t first) {
  std::vector<const Operand*> matrices;
  for (const Operand& each : call.operands)
    if (each.is_tensor() && each.extents().size() >= 2) matrices.push_back(&each);
  if (matrices.size() < first + 2) return std::nullopt;
  const Operand &x = *matrices[first], &weight = *matrices[first + 1];
  const int64_t width = x.extents().back();
  const int64_t columns = weight_columns(weight, width);
  if (width == 0 || columns == 0) return std::nullopt;
  Extents output = x.extents();
  output.back() = columns;
  Counts counts = writing(product_type(x.dtype), std::move(output));
  const int64_t packed = x.dtype == DType::kU8 && weight.dtype == DType::kU8 ? 2 : 1;
  add_macs(counts, count_product({x.elements(), packed, columns}));
  counts.read_bytes = x.bytes() + weight.bytes();
  return counts;
}

// Those with two axes or more.
std::vector<const Operand*> float_tensors(const RecordedCall& call) {
  std::vector<const Operand*> floats;
  for (const Operand& each : call.operands)
    if (each.is_tensor() && is_float(each.dtype) && each.extents().size() >= 2)
      floats.push_back(&each);
  return floats;
}

}  // namespace

namespace counts {

std::optional<Counts> convolution(const RecordedCall& call, const Arithmetic&) {
  return convolution_at(call, {3, 4, 5, 6, 7});
}
std::optional<Counts> convolution_of_kind(const RecordedCall& call, const Arithmetic&) {
  return convolution_at(call, {.stride = 3, .padding = 4, .dilation = 5});
}
std::optional<Counts> convolution_padding_first(const RecordedCall& call, const Arithmetic&) {
  return convolution_at(call, {.stride = 4, .padding = 3, .dilation = 5});
}
std::optional<Counts> convolution_without_bias(const RecordedCall& call, const Arithmetic&) {
  return convolution_at(call, {.stride = 3, .padding = 2, .dilation = 4});
}
std::optional<Counts> convolution_of_window(const RecordedCall& call, const Arithmetic&) {
  return convolution_at(call, {.stride = 4, .padding = 5, .dilation = 6});
}

std::optional<Counts> convolution_backward(const RecordedCall& call, const Arithmetic&) {
  const Operand* weight = call.tensor(2);
  if (weight == nullptr || call.value(10).empty()) return std::nullopt;
  const size_t rank = weight->extents().size();
  const std::optional<Extents> gradient = batched(call.tensor(0), rank),
                               x = batched(call.tensor(1), rank);
  if (!gradient || !x) return std::nullopt;
  std::string_view mask = call.value(10);
  const bool of_x = mask.starts_with("[True");
  const bool of_weight = truths(mask.substr(0, mask.rfind(','))) > (of_x ? 1 : 0);
  Counts counts = writing(call.operands[1].dtype, of_x ? *x : weight->extents());
  const int64_t places = spatial(is_true(call, 7) ? *x : *gradient);
  add_macs(counts, count_product(
                       {(*x)[0], places, weight->elements(), int64_t{of_x} + int64_t{of_weight}}));
  counts.read_bytes = read_bytes(call);
  if (of_x && of_weight) counts.written_bytes += weight->bytes();
  return counts;
}

std::optional<Counts> channel_norm(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(0);
  if (x == nullptr || x->extents().size() < 2) return std::nullopt;
  Counts counts = writing(x->dtype, x->extents());
  const int64_t channels = x->extents()[1];
  counts.work = {0,
                 count_product({x->elements(), arithmetic.flops}) +
                     count_product({channels, arithmetic.row_flops}),
                 channels};
  counts.read_bytes = read_bytes(call);
  return counts;
}

std::optional<Counts> average_pool(const RecordedCall& call, const Arithmetic& arithmetic) {
  return pooling_at(call, -1, arithmetic.flops);
}
std::optional<Counts> max_pool(const RecordedCall& call, const Arithmetic& arithmetic) {
  return pooling_at(call, 4, arithmetic.flops);
}

std::optional<Counts> pooling_to(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(0);
  const std::vector<int64_t> sizes = integers(call.value(1));
  if (x == nullptr || sizes.empty() || sizes.size() > x->extents().size()) return std::nullopt;
  Extents output = x->extents();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) return std::nullopt;
    output[output.size() - sizes.size() + i] = sizes[i];
  }
  Counts counts = writing(x->dtype, std::move(output));
  counts.work.flops = count_product({x->elements(), arithmetic.flops});
  counts.read_bytes = x->bytes();
  return counts;
}

std::optional<Counts> like_second(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(1);
  if (x == nullptr) return std::nullopt;
  Counts counts = writing(x->dtype, x->extents());
  counts.work.flops = count_product({x->elements(), arithmetic.flops});
  counts.read_bytes = read_bytes(call);
  return counts;
}

std::optional<Counts> recurrent(const RecordedCall& call, const Arithmetic&) {
  return recurrent_of(call, call.tensor(0), matrix_elements(call));
}

std::optional<Counts> recurrent_backward(const RecordedCall& call, const Arithmetic& arithmetic) {
  std::optional<Counts> counts = recurrent(call, arithmetic);
  if (counts) add_macs(*counts, count_product({counts->work.macs, 2}));
  return counts;
}

std::optional<Counts> recurrent_layer(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand *input = call.tensor(1), *hidden = call.tensor(2);
  for (const Operand* each : {input, hidden})
    if (each == nullptr || each->extents().size() != 2) return std::nullopt;
  std::optional<Counts> counts =
      recurrent_of(call, call.tensor(0), input->elements() + hidden->elements());
  if (counts && arithmetic.flops > 1)
    add_macs(*counts, count_product({counts->work.macs, arithmetic.flops}));
  return counts;
}

std::optional<Counts> bag(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand *table = call.tensor(0), *ids = call.tensor(1), *offsets = call.tensor(2);
  if (table == nullptr || ids == nullptr || offsets == nullptr || table->extents().size() != 2)
    return std::nullopt;
  const int64_t width = table->extents()[1];
  Counts counts = writing(table->dtype, {offsets->elements(), width});
  counts.work.flops = count_product({ids->elements(), width, arithmetic.flops});
  counts.read_bytes = count_product({ids->elements(), width, info(table->dtype).bytes_per_block}) +
                      ids->bytes() + offsets->bytes();
  return counts;
}

std::optional<Counts> fourier(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(0);
  const std::vector<int64_t> axes = integers(call.value(1));
  if (x == nullptr || axes.empty()) return std::nullopt;
  Counts counts = writing(x->dtype, x->extents());
  int64_t stages = 0;
  for (const int64_t axis : axes) {
    const int64_t at = axis < 0 ? axis + std::ssize(x->extents()) : axis;
    if (at < 0 || at >= std::ssize(x->extents())) return std::nullopt;
    const auto length = static_cast<uint64_t>(x->extents()[static_cast<size_t>(at)]);
    stages += std::bit_width(std::max<uint64_t>(length, 1) - 1);
  }
  counts.work.flops = count_product({x->elements(), stages, arithmetic.flops}) / 2;
  counts.read_bytes = x->bytes();
  return counts;
}

std::optional<Counts> grouped_product(const RecordedCall& call, const Arithmetic&) {
  const Operand *a = call.tensor(0), *b = call.tensor(1);
  if (a == nullptr || b == nullptr) return std::nullopt;
  const Extents &left = a->extents(), &right = b->extents();
  if (left.size() < 2 || left.size() > 3 || right.size() < 2 || right.size() > 3)
    return std::nullopt;
  // Groups cut the rows, the columns or the depth of matrices; a batch has all three.
  int64_t rows = left[left.size() - 2], depth = left.back(), columns = right.back();
  if (right[right.size() - 2] != depth) {
    // Other libraries' weights are turned, or the rows whose groups cut the depth.
    if (right.size() == 3 && columns == depth)
      columns = right[1];
    else if (left.size() == 2 && right.size() == 2 && right[0] == rows)
      std::swap(rows, depth);
    else
      return std::nullopt;
  }
  const Operand* offsets = call.tensor(2);
  Extents output = {rows, columns};
  if (left.size() == right.size() && (left.size() == 3 || offsets != nullptr))
    output.insert(output.begin(), left.size() == 3 ? left[0] : offsets->elements());
  Counts counts = writing(a->dtype == DType::kF8E4M3 ? DType::kBF16 : a->dtype, std::move(output));
  const int64_t batch = left.size() == 3 && right.size() == 3 ? left[0] : 1;
  add_macs(counts, count_product({batch, rows, depth, columns}));
  counts.read_bytes = a->bytes() + b->bytes();
  return counts;
}

std::optional<Counts> serving_product(const RecordedCall& call, const Arithmetic&) {
  return serving_product_from(call, 0);
}
std::optional<Counts> serving_product_into(const RecordedCall& call, const Arithmetic&) {
  return serving_product_from(call, 1);
}

std::optional<Counts> gated(const RecordedCall& call, const Arithmetic& arithmetic) {
  const std::vector<const Operand*> floats = float_tensors(call);
  if (floats.size() < 2) return std::nullopt;
  const bool is_first_output = floats[0]->elements() < floats[1]->elements();
  const Operand &out = *floats[is_first_output ? 0 : 1], &x = *floats[is_first_output ? 1 : 0];
  if (x.elements() != count_product({out.elements(), 2})) return std::nullopt;
  Counts counts = writing(out.dtype, out.extents());
  counts.work = {0, count_product({out.elements(), arithmetic.flops}),
                 count_product({out.elements(), arithmetic.transcendentals})};
  counts.read_bytes = x.bytes();
  return counts;
}

std::optional<Counts> rotated(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* positions = nullptr;
  for (const Operand& each : call.operands)
    if (positions == nullptr && each.is_tensor() && !is_float(each.dtype)) positions = &each;
  if (positions == nullptr || positions->elements() == 0) return std::nullopt;
  Counts counts;
  for (const Operand* each : float_tensors(call)) {
    if (each->extents()[0] != positions->elements()) continue;
    if (counts.output.empty())
      counts = writing(each->dtype, each->extents());
    else
      counts.written_bytes += each->bytes();
    counts.work.flops += count_product({each->elements(), arithmetic.flops});
  }
  if (counts.output.empty()) return std::nullopt;
  counts.read_bytes = counts.written_bytes + positions->bytes();
  return counts;
}

std::optional<Counts> appended(const RecordedCall& call, const Arithmetic&) {
  const std::vector<const Operand*> floats = float_tensors(call);
  if (floats.size() < 2 || floats[0]->extents()[0] != floats[1]->extents()[0]) return std::nullopt;
  Counts counts = writing(floats[0]->dtype, floats[0]->extents());
  counts.written_bytes += floats[1]->bytes();
  counts.read_bytes = counts.written_bytes;
  return counts;
}

std::optional<Counts> paged_attention(const RecordedCall& call, const Arithmetic&) {
  const Operand *q = nullptr, *k = nullptr;
  for (const Operand& each : call.operands) {
    if (!each.is_tensor() || each.extents().size() < 3) continue;
    if (q == nullptr) {
      if (each.extents().size() == 3) q = &each;
    } else if (k == nullptr) {
      k = &each;
    }
  }
  if (q == nullptr || k == nullptr) return std::nullopt;
  const Extents& keys = k->extents();
  Counts counts = writing(q->dtype, q->extents());
  counts.macs_per_pair = count_product({2, q->extents()[1], q->extents()[2]});
  counts.bytes_per_key =
      count_product({2, keys[keys.size() - 2], keys.back(), info(k->dtype).bytes_per_block});
  counts.read_bytes = q->bytes();
  return counts;
}

}  // namespace counts
}  // namespace ridge::record
