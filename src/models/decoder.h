// SPDX-License-Identifier: Apache-2.0
// The parts of a graph that decoder families share: weights, norms, projections, rotation, heads.
// Each family builds its layers from them (llama.cc, gemma3.cc).
#pragma once

#include <string>

#include "models/column_orders.h"
#include "models/forward_graph.h"

namespace ridge::models {

// Says how tokens of the flat axis attend to each other: in whole sequences or through a cache.
class AttentionForm {
 public:
  virtual ~AttentionForm() = default;
  struct Options {
    int64_t layer = 0;
    int64_t window = 0;  // 0: none
    double scale = 1;
  };
  // q [N,H,E], k and v [N,K,E] -> [N,H,E].
  virtual ValueId attend(Builder& b, ValueId q, ValueId k, ValueId v, const Options& options) = 0;
};

class Decoder {
 public:
  Decoder(const ModelConfig& model,
          const OpTable& ops,
          WeightLookup weights,
          AttentionForm& attention)
      : config(model),
        b(out.graph, ops),
        load_(out.load.graph, ops),
        lookup_(std::move(weights)),
        attention_(attention) {
    load_.set_phase(Phase::kLoad);
  }

  // ids and positions i32[N] -> the last hidden states [N,D] before the final norm. With `rows`
  // i32[M], only those of the tokens at these rows [M,D]; the last layer then skips what only the
  // other tokens need.
  ValueId build_layers(ValueId ids, ValueId positions, ValueId rows = kNoValue);
  // A module alone takes the parts: ids i32[N] -> [N,D]; the angles of a layer.
  ValueId build_embedding(ValueId ids);
  void build_rotation(ValueId positions, int64_t layer);
  ValueId build_layer(ValueId x, int64_t layer);  // [N,D] -> [N,D], as the config's family has it
  ValueId build_last_norm(ValueId x);             // [M,D] -> [M,D]
  // [M,D] -> logits [M,V], with the last norm.
  ValueId build_head(ValueId x);

  // For the families' layers.
  // As the file stores it. *x, which it multiplies, gets its columns in the matrix's order.
  ValueId matrix(const std::string& name, Shape shape, ValueId* x = nullptr);
  ValueId vector(const std::string& name, int64_t extent);  // in fp32
  ValueId norm(ValueId x, const std::string& name);  // over the last axis of [N,D] or [N,heads,E]
  ValueId project(ValueId x, const std::string& name, int64_t out, bool bias);  // [N,D] -> [N,out]
  // Projects, rotates, attends and projects back; the last layer only for the tokens that
  // gather_last_tokens keeps. [N,D] -> [N or M,D]
  ValueId attention(ValueId normed, const std::string& prefix, int64_t layer);
  // Last-token gather: in the last layer, keeps only the tokens whose logits are computed. Used on
  // the values that follow a layer's attention. [N,...] -> [N or M,...]
  ValueId gather_last_tokens(ValueId x, int64_t layer);
  ValueId gated_mlp(ValueId x, const std::string& prefix);

  const ModelConfig& config;
  ForwardGraph out;
  Builder b;

 private:
  struct Rotation {
    ValueId cos = kNoValue, sin = kNoValue;
  };
  Rotation rotation(ValueId positions, double theta, const RopeScaling& scaling);
  ValueId project_heads(ValueId x, const std::string& name, int64_t heads);  // [N,D] -> [N,heads,E]
  // Queries, keys and values, each [N,heads,E].
  struct Qkv {
    ValueId q, k, v;
  };
  Qkv project_qkv(ValueId normed, const std::string& prefix);
  // Queries or keys [N,heads,E], normalized head by head first if the model does so; `norm_name`
  // is that of the weight.
  ValueId rotate(ValueId x, const std::string& norm_name, int64_t layer);
  ValueId attend(ValueId q, ValueId k, ValueId v, int64_t layer);  // -> [N,H*E]
  ValueId table();
  ValueId parameter(const std::string& name, const Type& type, const StoredWeight& stored);

  Builder load_;
  WeightLookup lookup_;
  AttentionForm& attention_;
  ValueId table_ = kNoValue;
  ColumnOrders orders_;
  ValueId rows_ = kNoValue;
  Rotation full_, window_;
};

// One layer of a family: [N,D] -> [N,D].
ValueId build_llama_layer(Decoder& d, ValueId x, int64_t layer);
ValueId build_gemma3_layer(Decoder& d, ValueId x, int64_t layer);

}  // namespace ridge::models
