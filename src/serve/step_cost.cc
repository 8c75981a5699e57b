// SPDX-License-Identifier: Apache-2.0
// Splits a graph's cost into per-token, per-row and per-KV-entry parts.
#include "serve/step_cost.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cost/rate_limits.h"
#include "models/inference_names.h"

namespace ridge::serve {
namespace {

constexpr const char* kContext = "context";

bool is_rows(std::string_view input) {
  return input.starts_with(models::kRows) && input.substr(models::kRows.size()).starts_with('.');
}

// Returns for each node whether it depends on the rows of the logits.
std::vector<bool> depend_on_rows(const Graph& graph) {
  std::vector<bool> values, nodes;
  for (const Value& value : graph.values)
    values.push_back(value.producer == kNoNode && is_rows(value.name));
  for (const Node& node : graph.nodes) {
    const bool depends = std::ranges::any_of(
        node.inputs, [&](ValueId each) { return values[static_cast<size_t>(each)]; });
    for (ValueId each : node.outputs) values[static_cast<size_t>(each)] = depends;
    nodes.push_back(depends);
  }
  return nodes;
}

// The number of sequences in the block tables; 0 without a cache.
int64_t slots_of(const Graph& graph) {
  for (const char* table : {models::kBlockTable, models::kWindowBlockTable})
    if (const ValueId found = graph.find(table); found != kNoValue) return graph.shape(found)[0];
  return 0;
}

int64_t extent_of(const Graph& graph, std::string_view input) {
  for (const Value& value : graph.values)
    if (value.name.starts_with(input) && value.producer == kNoNode) return value.type.shape[0];
  return 0;
}

Work operator-(const Work& a, const Work& b) {
  return {a.macs - b.macs, a.flops - b.flops, a.transcendentals - b.transcendentals};
}

Work divided(const Work& work, int64_t by) {
  RIDGE_CHECK(work.macs % by == 0 && work.flops % by == 0 && work.transcendentals % by == 0,
              "{} FLOPs are not those of {} equal parts", work.flops, by);
  return {work.macs / by, work.flops / by, work.transcendentals / by};
}

// The cost of an attention node, split into a part per KV entry and a part per token.
struct Attention {
  AttentionCost by_key;
  Work by_token;
  int64_t other_bytes = 0;  // bytes read other than keys and values
};

// Splits the cost of a node by evaluating it for a context of 1 and of 2.
Attention split_attention(const Graph& graph, const Node& node, int64_t tokens, int64_t slots) {
  const CallTypes types(graph, node);
  Work work[2];
  int64_t bytes[2] = {};
  for (int64_t keys : {1, 2}) {
    Attrs attrs = node.attrs;
    attrs.set(kContext, keys);
    const Call call{types.inputs, types.outputs, attrs};
    work[keys - 1] = node.op->work(call);
    const std::optional<Traffic> traffic = node.op->traffic(call);
    for (int64_t each : traffic->read_bytes) bytes[keys - 1] += each;
  }
  const int64_t sequences = std::min(tokens, slots);
  Attention made;
  made.by_key = {node.attrs.has("window") ? node.attrs.integer("window") : 0,
                 divided(work[1] - work[0], tokens), (bytes[1] - bytes[0]) / sequences};
  made.by_token = work[0] - times(tokens, made.by_key.pair);
  made.other_bytes = bytes[0] - sequences * made.by_key.key_bytes;
  return made;
}

void add(std::vector<AttentionCost>& all, const AttentionCost& each) {
  const auto found = std::ranges::find(all, each.window, &AttentionCost::window);
  if (found == all.end()) return all.push_back(each);
  found->pair += each.pair;
  found->key_bytes += each.key_bytes;
}

// The number of pairs of a token of the part and a KV entry that it attends to.
int64_t pairs(const PartExtent& part, int64_t window) {
  const int64_t end = part.begin + part.tokens;
  const auto below = [](int64_t position) { return position * (position + 1) / 2; };
  if (window == 0) return below(end) - below(part.begin);
  const int64_t full = std::clamp(window, part.begin, end);  // From here on windows are full.
  return below(full) - below(part.begin) + (end - full) * window;
}

// The number of different KV entries that the part attends to.
int64_t keys(const PartExtent& part, int64_t window) {
  const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, part.begin + 1 - window);
  return part.begin + part.tokens - first;
}

// Splits an amount by weights. Shares are differences of rounded running sums and add up exactly.
class Shares {
 public:
  Shares(int64_t amount, int64_t weights) : amount_(amount), weights_(weights) {}
  int64_t next(int64_t weight) {
    seen_ += weight;
    const int64_t upto = static_cast<int64_t>(static_cast<__int128>(amount_) * seen_ /
                                              std::max<int64_t>(weights_, 1));
    return upto - std::exchange(given_, upto);
  }

 private:
  int64_t amount_, weights_, seen_ = 0, given_ = 0;
};

}  // namespace

StepCost& StepCost::operator+=(const StepCost& other) {
  model += other.model;
  executed_flops += other.executed_flops;
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  needed_bytes += other.needed_bytes;
  return *this;
}

LinearWork model_work(const Graph& built) {
  LinearWork made;
  made.token_count = extent_of(built, "positions");
  made.row_count = extent_of(built, models::kRows);
  const std::vector<bool> by_row = depend_on_rows(built);
  for (size_t i = 0; i < built.nodes.size(); ++i) {
    const Node& node = built.nodes[i];
    if (node.from.empty()) continue;
    const Work work = built.origins[static_cast<size_t>(node.from[0].id)].work.forward;
    if (node.attrs.has(kContext)) {
      const Attention attention = split_attention(built, node, made.token_count, made.token_count);
      made.tokens += attention.by_token;
      add(made.attention, attention.by_key);
    } else {
      (by_row[i] ? made.rows : made.tokens) += work;
    }
  }
  made.tokens = divided(made.tokens, made.token_count);
  if (made.row_count > 0) made.rows = divided(made.rows, made.row_count);
  return made;
}

BucketCost::BucketCost(const LinearWork& model, const cost::CostedGraph& costed) : model_(model) {
  const Graph& graph = costed.graph;
  executed_.token_count = extent_of(graph, "positions");
  const std::vector<bool> by_row = depend_on_rows(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const cost::NodeCost& cost = costed.costs[i];
    written_bytes_ += cost.written_bytes;
    if (node.attrs.has(kContext)) {
      const Attention attention =
          split_attention(graph, node, executed_.token_count, slots_of(graph));
      executed_.tokens += attention.by_token;
      add(executed_.attention, attention.by_key);
      read_bytes_ += attention.other_bytes;
    } else {
      (by_row[i] ? executed_.rows : executed_.tokens) += cost.work;
      read_bytes_ += cost.read_bytes;
    }
  }
  weight_bytes_ = cost::parameter_bytes(costed);
  const std::map<DType, int64_t> macs = cost::typed_amounts(costed).macs;
  const auto most = std::ranges::max_element(macs, {}, &std::pair<const DType, int64_t>::second);
  if (most != macs.end()) product_type_ = most->first;
}

// The cost of a sequence that does not depend on the other sequences of the run.
StepCost BucketCost::own_cost(const PartExtent& part) const {
  StepCost cost;
  cost.model = times(part.tokens, model_.tokens);
  if (part.samples) cost.model += model_.rows;
  for (const AttentionCost& each : model_.attention)
    cost.model += times(pairs(part, each.window), each.pair);
  for (const AttentionCost& each : executed_.attention) {
    cost.executed_flops += pairs(part, each.window) * each.pair.flops;
    cost.read_bytes += keys(part, each.window) * each.key_bytes;
    cost.needed_bytes += keys(part, each.window) * each.key_bytes;
  }
  return cost;
}

std::vector<StepCost> BucketCost::share(std::span<const PartExtent> parts) const {
  int64_t tokens = 0, rows = 0;
  for (const PartExtent& each : parts) {
    tokens += each.tokens;
    rows += each.samples;
  }
  const bool samples = rows > 0;  // If none samples, the padded logits are split by tokens.
  Shares by_token(executed_.tokens.flops + (samples ? 0 : executed_.rows.flops), tokens),
      by_row(samples ? executed_.rows.flops : 0, rows), read(read_bytes_, std::ssize(parts)),
      written(written_bytes_, std::ssize(parts)), weights(weight_bytes_, std::ssize(parts));
  std::vector<StepCost> costs;
  for (const PartExtent& each : parts) {
    StepCost cost = own_cost(each);
    cost.executed_flops += by_token.next(each.tokens) + by_row.next(each.samples);
    cost.read_bytes += read.next(1);
    cost.written_bytes += written.next(1);
    cost.needed_bytes += weights.next(1);
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace ridge::serve
