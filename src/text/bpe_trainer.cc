// SPDX-License-Identifier: Apache-2.0
// BPE training over distinct pieces with incremental pair counts: a merge updates only the pieces
// that contain its pair. The heap of candidates may have stale counts. A count only falls unless it
// is pushed again, so a stale candidate at the front is pushed back with its current count.
#include "text/bpe_trainer.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/printable.h"
#include "text/byte_alphabet.h"
#include "text/pair_table.h"

namespace ridge::text {
namespace {

constexpr int64_t kProgressEvery = 64;
constexpr size_t kAhead = 8;  // words prefetched ahead: a cache miss's time over a word's
constexpr size_t kWordsPerThread = 8192;  // fewer are counted faster than a thread wakes up

struct Pair {
  int32_t left;
  int32_t right;
  int64_t count;
  std::vector<uint32_t> words;  // pieces that contain it or once did
  int32_t result = kNoToken;    // set once the pair has been merged
  bool banned = false;
};

// A step of training: the pair that was joined, and whether its bytes are a new token ("a" + "aa"
// and "aa" + "a" make the same one).
struct Step {
  int32_t left;
  int32_t right;
  bool new_token;
};

// A distinct piece. The ids of all pieces are in one array, and each piece shrinks in place.
struct Word {
  size_t begin;
  int64_t count;
  uint32_t size;
};

class Merger {
 public:
  // `tokens` are byte strings: `specials` special tokens, then the 256 bytes.
  Merger(const std::vector<CountedPiece>& pieces,
         std::vector<std::string> tokens,
         const std::array<int32_t, 256>& byte_ids,
         int32_t specials)
      : bytes_(std::move(tokens)), specials_(specials) {
    for (int32_t id = 0; id < static_cast<int32_t>(bytes_.size()); ++id)
      ids_.emplace(id < specials ? bytes_of(id) : to_byte_alphabet(bytes_of(id)), id);
    for (const CountedPiece& piece : pieces) {
      if (piece.bytes.size() < 2) continue;
      words_.push_back({word_ids_.size(), piece.count, static_cast<uint32_t>(piece.bytes.size())});
      for (char c : piece.bytes) word_ids_.push_back(byte_ids[static_cast<uint8_t>(c)]);
    }
    count_pairs();
  }

  // Joins the best pair; nullopt if none is left.
  std::optional<Step> merge() {
    while (settle_top()) {
      uint32_t best = heap_.front().pair;
      pop();
      int32_t left = pairs_[best].left;
      int32_t right = pairs_[best].right;
      std::string joined = bytes_of(left) + bytes_of(right);
      auto [known, new_token] =
          ids_.emplace(to_byte_alphabet(joined), static_cast<int32_t>(bytes_.size()));
      // Text must never become a special token by merging.
      pairs_[best].banned = known->second < specials_;
      if (pairs_[best].banned) continue;
      if (new_token) bytes_.push_back(std::move(joined));
      bool new_merge = pairs_[best].result == kNoToken;
      join(best, left, right, known->second);
      if (new_merge) return Step{left, right, new_token};
    }
    return std::nullopt;
  }

  const std::vector<Pair>& pairs() const { return pairs_; }
  const std::string& bytes_of(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }

 private:
  struct Candidate {
    int64_t count;
    uint32_t pair;
  };

  // Heap order: the count first, then the bytes of the left token, then of the right one.
  auto order() const {
    return [this](const Candidate& a, const Candidate& b) {
      if (a.count != b.count) return a.count < b.count;
      const Pair& p = pairs_[a.pair];
      const Pair& q = pairs_[b.pair];
      int left = bytes_of(p.left).compare(bytes_of(q.left));
      return left != 0 ? left < 0 : bytes_of(p.right) < bytes_of(q.right);
    };
  }

  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), order());
    heap_.pop_back();
  }

  void push(uint32_t pair) {
    if (pairs_[pair].count <= 0 || pairs_[pair].banned) return;
    heap_.push_back({pairs_[pair].count, pair});
    std::push_heap(heap_.begin(), heap_.end(), order());
  }

  // Updates the front of the heap until its count is current; false if the heap is empty.
  bool settle_top() {
    while (!heap_.empty()) {
      Candidate top = heap_.front();
      if (top.count == pairs_[top.pair].count) return true;
      pop();
      push(top.pair);
    }
    return false;
  }

  // Rewrites the pieces that contain the pair, then pushes the pairs that are new or more frequent.
  void join(uint32_t pair, int32_t left, int32_t right, int32_t token) {
    std::vector<uint32_t> words = std::move(pairs_[pair].words);
    pairs_[pair].words.clear();
    pairs_[pair].result = token;
    first_new_ = static_cast<uint32_t>(pairs_.size());
    raised_.clear();
    for (size_t i = 0; i < words.size(); ++i) {
      // Words are scattered in memory. Prefetching overlaps their two cache misses with the words
      // before.
      if (i + 2 * kAhead < words.size()) __builtin_prefetch(&words_[words[i + 2 * kAhead]]);
      if (i + kAhead < words.size())
        __builtin_prefetch(&word_ids_[words_[words[i + kAhead]].begin]);
      rewrite(words[i], left, right, token);
    }
    pairs_[pair].count = 0;  // overlaps ("aaa") may have changed it meanwhile
    for (auto p = first_new_; p < pairs_.size(); ++p) push(p);
    for (uint32_t p : raised_) push(p);
  }

  void change(int32_t left, int32_t right, int64_t by, uint32_t word) {
    auto [index, fresh] = table_.insert(left, right);
    if (fresh) {
      index = static_cast<uint32_t>(pairs_.size());
      pairs_.push_back({left, right, 0, {}});
    }
    Pair& pair = pairs_[index];
    pair.count += by;
    if (by < 0) return;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    // Happens only if a merge makes a token that already existed.
    if (index < first_new_ && (raised_.empty() || raised_.back() != index))
      raised_.push_back(index);
  }

  void rewrite(uint32_t word, int32_t left, int32_t right, int32_t token) {
    int32_t* ids = &word_ids_[words_[word].begin];
    uint32_t n = words_[word].size;
    int64_t count = words_[word].count;
    uint32_t out = 0;
    for (uint32_t i = 0; i < n;) {
      if (i + 1 >= n || ids[i] != left || ids[i + 1] != right) {
        ids[out++] = ids[i++];
        continue;
      }
      if (out > 0) {
        change(ids[out - 1], left, -count, word);
        change(ids[out - 1], token, count, word);
      }
      if (i + 2 < n) {
        change(right, ids[i + 2], -count, word);
        change(token, ids[i + 2], count, word);
      }
      ids[out++] = token;
      i += 2;
    }
    words_[word].size = out;
  }

  // Each thread counts a range of words. The ranges are joined in order, so that the lists of words
  // ascend.
  void count_pairs() {
    struct Local {
      PairTable<uint32_t> table;
      std::vector<Pair> pairs;
    };
    size_t words = words_.size();
    size_t parts =
        std::clamp<size_t>(words / kWordsPerThread, 1, static_cast<size_t>(omp_get_max_threads()));
    std::vector<Local> locals(parts);
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
    for (size_t part = 0; part < parts; ++part) {
      Local& local = locals[part];
      for (size_t w = words * part / parts; w < words * (part + 1) / parts; ++w) {
        const int32_t* ids = &word_ids_[words_[w].begin];
        for (uint32_t i = 0; i + 1 < words_[w].size; ++i) {
          auto [index, fresh] = local.table.insert(ids[i], ids[i + 1]);
          if (fresh) {
            index = static_cast<uint32_t>(local.pairs.size());
            local.pairs.push_back({ids[i], ids[i + 1], 0, {}});
          }
          Pair& pair = local.pairs[index];
          pair.count += words_[w].count;
          if (pair.words.empty() || pair.words.back() != w)
            pair.words.push_back(static_cast<uint32_t>(w));
        }
      }
    }
    for (Local& local : locals) {
      for (Pair& from : local.pairs) {
        auto [index, fresh] = table_.insert(from.left, from.right);
        if (fresh) {
          index = static_cast<uint32_t>(pairs_.size());
          pairs_.push_back(std::move(from));
        } else {
          Pair& to = pairs_[index];
          to.count += from.count;
          to.words.insert(to.words.end(), from.words.begin(), from.words.end());
        }
      }
    }
    for (uint32_t p = 0; p < pairs_.size(); ++p) heap_.push_back({pairs_[p].count, p});
    std::make_heap(heap_.begin(), heap_.end(), order());
  }

  std::vector<Word> words_;
  std::vector<int32_t> word_ids_;
  std::vector<std::string> bytes_;  // each token has an entry
  PairTable<uint32_t> table_;       // pair to its index in pairs_
  std::vector<Pair> pairs_;
  std::vector<Candidate> heap_;
  std::unordered_map<std::string, int32_t> ids_;  // by the spelling in the vocabulary
  int32_t specials_;
  uint32_t first_new_ = 0;
  std::vector<uint32_t> raised_;
};

// Tells of the pairs that may be merged, in the order in which they would be if no count changed.
void tell_pairs(const Merger& merger, const BpeTrainerOptions& options) {
  if (!options.pairs) return;
  std::vector<const Pair*> order;
  for (const Pair& pair : merger.pairs())
    if (pair.count > 0 && !pair.banned) order.push_back(&pair);
  const auto key = [&](const Pair* pair) {
    return std::tie(pair->count, merger.bytes_of(pair->left), merger.bytes_of(pair->right));
  };
  const auto told = order.begin() + std::min(std::ssize(order), kMostToldPairs);
  std::partial_sort(order.begin(), told, order.end(),
                    [&](const Pair* a, const Pair* b) { return key(a) > key(b); });
  std::vector<PairCount> pairs;
  for (auto each = order.begin(); each != told; ++each)
    pairs.push_back({to_byte_alphabet(merger.bytes_of((*each)->left)),
                     to_byte_alphabet(merger.bytes_of((*each)->right)), (*each)->count});
  options.pairs(pairs, std::ssize(order));
}

void check_options(const BpeTrainerOptions& options) {
  size_t smallest = options.special_tokens.size() + 256;
  if (options.vocab_size < 0 || static_cast<size_t>(options.vocab_size) < smallest ||
      static_cast<size_t>(options.vocab_size) > kMaxTokens)
    throw usage_error(
        "[bpe_trainer] vocabulary size: expected {} ({} special tokens and 256 bytes) to {}, got "
        "{}",
        smallest, options.special_tokens.size(), kMaxTokens, options.vocab_size);
  std::set<std::string_view> seen;
  for (const std::string& token : options.special_tokens) {
    if (token.empty() || token.size() > kMaxSpecialTokenBytes)
      throw usage_error("[bpe_trainer] special token: expected 1 to {} bytes, got {}",
                        kMaxSpecialTokenBytes, token.size());
    auto as_byte = from_byte_alphabet(token);
    if (!seen.insert(token).second || (as_byte && as_byte->size() == 1))
      throw usage_error("[bpe_trainer] special token {} is already a token", printable(token));
  }
}

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainerOptions options)
    : options_((check_options(options), std::move(options))),
      counter_(options_.pre_tokenizer, options_.special_tokens) {}

void BpeTrainer::add_text(std::string_view text,
                          const std::function<void(int64_t, int64_t)>& progress) {
  counter_.add(text, progress);
}

TokenizerSpec BpeTrainer::train() const {
  TokenizerSpec spec;
  spec.pre_tokenizer = options_.pre_tokenizer;
  std::vector<std::string> bytes;
  for (const std::string& token : options_.special_tokens) {
    bytes.push_back(token);
    spec.tokens.push_back(token);
    spec.types.push_back(TokenType::kControl);
  }
  std::array<int32_t, 256> byte_ids{};
  for (uint8_t byte : byte_alphabet_order()) {
    byte_ids[byte] = static_cast<int32_t>(bytes.size());
    bytes.emplace_back(1, static_cast<char>(byte));
    spec.tokens.push_back(to_byte_alphabet(bytes.back()));
  }
  auto first = static_cast<int64_t>(bytes.size());
  auto specials = static_cast<int32_t>(options_.special_tokens.size());
  Merger merger(counter_.table().pieces(), std::move(bytes), byte_ids, specials);
  int64_t wanted = options_.vocab_size - first;
  tell_pairs(merger, options_);
  for (int64_t made = 0; made < wanted;) {
    std::optional<Step> step = merger.merge();
    if (!step) break;
    const std::string& left = spec.tokens[static_cast<size_t>(step->left)];
    const std::string& right = spec.tokens[static_cast<size_t>(step->right)];
    spec.merges.push_back(left + " " + right);
    tell_pairs(merger, options_);
    if (!step->new_token) continue;
    spec.tokens.push_back(left + right);
    ++made;
    if (options_.progress && (made % kProgressEvery == 0 || made == wanted))
      options_.progress(made, wanted);
  }
  spec.types.resize(spec.tokens.size(), TokenType::kNormal);
  return spec;
}

}  // namespace ridge::text
