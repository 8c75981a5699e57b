// SPDX-License-Identifier: Apache-2.0
// Draws in the order of the workshop's constructors, initialization and data set.
#include "train/workshop_data.h"

#include "base/error.h"

namespace ridge::train {
namespace {

constexpr float kInitialStd = 0.02f;
constexpr int64_t kRows = 1000;

struct Matrix {
  const char* name;
  int64_t rows, columns;
};

std::vector<Matrix> layer_matrices(const models::ModelConfig& c) {
  int64_t q = c.heads * c.head_size, kv = c.kv_heads * c.head_size;
  return {{"self_attn.q_proj", q, c.hidden},           {"self_attn.k_proj", kv, c.hidden},
          {"self_attn.v_proj", kv, c.hidden},          {"self_attn.o_proj", c.hidden, q},
          {"mlp.gate_proj", c.feed_forward, c.hidden}, {"mlp.up_proj", c.feed_forward, c.hidden},
          {"mlp.down_proj", c.hidden, c.feed_forward}};
}

using Put = std::function<void(const std::string&, std::vector<float>)>;

// Biases start at zero; the workshop's model has none.
void draw_biases(const models::ModelConfig& c, const std::string& prefix, const Put& put) {
  for (const Matrix& m : layer_matrices(c)) {
    bool biased = std::string_view(m.name).starts_with("mlp")    ? c.mlp_bias
                  : std::string_view(m.name).ends_with("o_proj") ? c.output_bias
                                                                 : c.qkv_bias;
    if (biased)
      put(prefix + m.name + ".bias", std::vector<float>(static_cast<size_t>(m.rows), 0.0f));
  }
}

std::vector<float> normal(Random& random, int64_t n) {
  std::vector<float> data(static_cast<size_t>(n));
  random.fill_normal(data, kInitialStd);
  return data;
}

}  // namespace

void draw_weights(const models::ModelConfig& c,
                  uint32_t seed,
                  const std::function<void(const std::string&, std::vector<float>)>& put) {
  Random random(seed);
  std::vector<Matrix> matrices = layer_matrices(c);
  int64_t table = c.vocabulary * c.hidden, layer = 0;
  for (const Matrix& m : matrices) layer += m.rows * m.columns;
  // The workshop's constructors draw once for each element, and all of these values are
  // overwritten.
  random.skip(table + c.layers * layer + table);
  std::vector<float> ones(static_cast<size_t>(c.hidden), 1.0f);
  std::vector<float> embedding = normal(random, table);
  if (!c.tied_head) put("model.embed_tokens.weight", std::move(embedding));
  for (int64_t l = 0; l < c.layers; ++l) {
    std::string prefix = fmt::format("model.layers.{}.", l);
    for (const Matrix& m : matrices)
      put(prefix + m.name + ".weight", normal(random, m.rows * m.columns));
    draw_biases(c, prefix, put);
    put(prefix + "input_layernorm.weight", ones);
    put(prefix + "post_attention_layernorm.weight", ones);
  }
  // The head is initialized last. If it is tied, its values are the embedding table.
  put(c.tied_head ? "model.embed_tokens.weight" : "lm_head.weight", normal(random, table));
  put("model.norm.weight", ones);
}

WorkshopData::WorkshopData(int64_t vocabulary, int64_t sequence, uint32_t seed)
    : random_(seed), sequence_(sequence) {
  if (vocabulary < 2 || sequence < 1)
    throw usage_error("[data] expected a vocabulary >= 2 and a sequence >= 1, got {} and {}",
                      vocabulary, sequence);
  rows_.resize(kRows);
  for (auto& row : rows_) {
    row.resize(static_cast<size_t>(sequence + 1));
    for (int32_t& id : row)
      id = 1 + static_cast<int32_t>(random_.below(static_cast<uint32_t>(vocabulary - 1)));
  }
}

Batch WorkshopData::next(int64_t batch_size) {
  if (batch_size > kRows)
    throw usage_error("[data] expected a batch of at most {} rows, got {}", kRows, batch_size);
  std::vector<uint32_t> order = random_.permutation(kRows);
  Batch batch;
  batch.rows.assign(order.begin(), order.begin() + batch_size);
  for (uint32_t index : batch.rows) {
    const std::vector<int32_t>& row = rows_[index];
    for (int64_t t = 0; t < sequence_; ++t) {
      batch.ids.push_back(row[static_cast<size_t>(t)]);
      batch.positions.push_back(static_cast<int32_t>(t));
      batch.labels.push_back(t + 2 <= sequence_ ? row[static_cast<size_t>(t + 2)] : -1);
    }
  }
  return batch;
}

}  // namespace ridge::train
