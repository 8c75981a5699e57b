#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes byte_level_llama_cpp.json and sentencepiece_llama_cpp.json: texts with the ids that llama.cpp gives them.

llama.cpp reads vocabularies only from GGUF, so each is written with gguf-py first: GPT-2's under the pre-tokenizers
gpt-2, smollm and llama-bpe, and a small SentencePiece one made up here. Needs `pip install gguf xllamacpp`; the wheel's
extension exports llama.cpp's C interface, which ctypes calls."""
import collections
import ctypes
import glob
import json
import os
import random
import tempfile

import gguf
import xllamacpp

VOCAB_ONLY = 72  # offset in bytes of llama_model_params.vocab_only in xllamacpp 2026.10.11549
HERE = os.path.dirname(os.path.abspath(__file__))
SPACE = "\u2581"


class Params(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 256)]


LLAMA = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(xllamacpp.__file__), "*.so"))[0])
LLAMA.llama_model_default_params.restype = Params
LLAMA.llama_model_load_from_file.restype = ctypes.c_void_p
LLAMA.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Params]
LLAMA.llama_model_get_vocab.restype = ctypes.c_void_p
LLAMA.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
LLAMA.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                                 ctypes.c_int, ctypes.c_bool, ctypes.c_bool]


def load(path):
    params = LLAMA.llama_model_default_params()
    params.bytes[VOCAB_ONLY] = 1
    return LLAMA.llama_model_get_vocab(LLAMA.llama_model_load_from_file(path.encode(), params))


def encode(vocab, text, special):
    raw = text.encode()
    room = 3 * len(raw) + 16
    ids = (ctypes.c_int * room)()
    count = LLAMA.llama_tokenize(vocab, raw, len(raw), ids, room, False, special)
    return ids[:count]


def write(path, model, pre, tokens, types, scores, merges, space_prefix, unknown):
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(128)
    w.add_embedding_length(8)
    w.add_block_count(1)
    w.add_feed_forward_length(8)
    w.add_head_count(1)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(len(tokens))
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types([t + 1 for t in types])
    if scores:
        w.add_token_scores(scores)
    if merges:
        w.add_token_merges(merges)
    w.add_add_space_prefix(space_prefix)
    w.add_add_bos_token(False)
    w.add_eos_token_id(2 if scores else len(tokens) - 1)
    if unknown is not None:
        w.add_unk_token_id(unknown)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


POOLS = [[32], [32, 10], [10, 13, 32, 9], range(48, 58), range(97, 123), range(65, 91),
         [ord(c) for c in "'’stredvlmSTREDVLM "], [ord(c) for c in ".,;:!?-_/\\()[]{}<>@#$%^&*+=|~`\""],
         range(0x400, 0x460), range(0x4E00, 0x4F00), [*range(0x1F600, 0x1F640), 0x200D, 0xFE0F],
         [0xA0, 0x2003, 0x3000, 0x1680, 0x85, 0x2028, 0x200B, 0xFEFF], [0x660, 0x661, 0xBD, 0x2167, 0xB2, 0x2460],
         [0x301, 0x308, 0x94D, 0xE31, 0x5B0], [0x2581, 32]]
PHRASES = ["<s>", "</s>", "<turn>", "[tag]", "<|endoftext|>", "\n\n\n", "   ", "\t\t", "<", ">", "<unk>", "<0x0A>"]


def random_text(rng, size):
    text = ""
    while len(text) < size:
        if rng.random() < 0.08:
            text += rng.choice(PHRASES)
            continue
        pool, run = rng.choice(POOLS), rng.choice([1, 1, 2, 3, 5, 8, 30])
        varied = rng.random() < 0.7
        text += "".join(chr(rng.choice(pool)) for _ in range(run)) if varied else chr(rng.choice(pool)) * run
    return text


def byte_level(folder, base):
    rng = random.Random(77)
    by_id = sorted(json.load(open(os.path.join(HERE, "gpt2_vocab.json"))).items(), key=lambda item: item[1])
    tokens = [token for token, _ in by_id]
    merges = [line.rstrip("\n") for line in open(os.path.join(HERE, "gpt2_merges.txt")) if line.strip()]
    types = [0] * (len(tokens) - 1) + [2]
    texts = base + ["I'LL we'Ve don'T 'sos 's", "12345 1 22 333 4444 x1y22", "a\r\n\r\nb  \n  c\n\n   d", " !?\n\n\nx",
                    "\t\tfoo\tbar", "x <|endoftext|> y<|endoftext|>", "3 ٣٤٥ ½Ⅷ", "  5  6", "\u3000全角 スペース\u2003em",
                    "foo\u0301bar  \u0301", "a'b'c 'ſ x'ſ", "<|endoftext|>", "\x85\x0b\x0c\x1c"]
    texts += [random_text(rng, rng.choice([10, 30, 80])) for _ in range(60)]
    out = {"texts": texts}
    for name, pre in [("gpt2", "gpt-2"), ("smollm", "smollm"), ("llama3", "llama-bpe")]:
        path = os.path.join(folder, name + ".gguf")
        write(path, "gpt2", pre, tokens, types, None, merges, False, None)
        vocab = load(path)
        out[name] = [encode(vocab, text, False) for text in texts]
        out[name + "_special"] = [encode(vocab, text, True) for text in texts]
    return out


def made_up_vocabulary(rng):
    counts = collections.Counter()
    for word in open(os.path.join(HERE, "corpus.en")).read().split()[:8000]:
        word = SPACE + word
        for i in range(len(word)):
            for j in range(i + 2, min(i + 9, len(word) + 1)):
                counts[word[i:j]] += 1
    frequent = [piece for piece, _ in counts.most_common(900)]
    # Pieces that meet each other in several ways, one that holds a space mark inside, and a part of a special token. (llama.cpp would also
    # make a control token by merging; Ridge does not, so no two pieces here join to one.)
    tricky = [SPACE * 2, ">" + SPACE + "<", SPACE + "a", SPACE + "b", "ab", "ba", "aba", "bab", "aab", "éa", "ñé", "日本",
              "日", "本語", SPACE + "日本", "🙂🙂", "<turn"]
    tokens = ["<unk>", "<s>", "</s>", "<turn>", "[tag]", "  ", "   ", "\n\n"] + ["<0x%02X>" % b for b in range(256)]
    types = [1, 2, 2, 2, 3, 3, 3, 3] + [5] * 256
    scores = [0.0] * len(tokens)
    for piece in dict.fromkeys(tricky + frequent):
        tokens.append(piece)
        scores.append(float(rng.choice([-rng.randrange(1, 600), -rng.randrange(1, 12)])))  # with many ties
    missing = set("qz語")
    for c in sorted({c for p in frequent + tricky for c in p} | set("0123456789<>/[].,!?abé日🙂\n")):
        if c not in missing and c not in tokens:
            tokens.append(c)
            scores.append(-1000.0)
    return tokens, types + [0] * (len(tokens) - len(types)), scores, frequent


def sentencepiece(folder, base):
    rng = random.Random(78)
    tokens, types, scores, frequent = made_up_vocabulary(rng)
    spaced = [piece.replace(SPACE, " ") for piece in frequent]
    texts = base + ["abab abba aabaab", "<s>hi</s>", "<turn>user  x[tag]  y", "   a    b     c", " <s> x", "a> <b", "> <",
                    "日本語日本", "🙂🙂🙂", "qqzz", "naïve\n\n\nb", "[tag][tag] a [tag]", " ", "", SPACE,
                    "a" + SPACE + "b", "<0x41>", "<unk>"]
    texts += ["".join(rng.choice(spaced) for _ in range(rng.randrange(1, 12))) for _ in range(40)]
    texts += [random_text(rng, 40) for _ in range(20)] + ["".join(rng.choices("ab ><", k=60)) for _ in range(20)]
    out = {"tokens": tokens, "types": types, "scores": scores, "bos": 1, "eos": 2, "unknown": 0, "texts": texts}
    for name, prefix in [("plain", False), ("prefix", True)]:
        path = os.path.join(folder, name + ".gguf")
        write(path, "llama", "default", tokens, types, scores, None, prefix, 0)
        vocab = load(path)
        out[name] = [encode(vocab, text, False) for text in texts]
        out[name + "_special"] = [encode(vocab, text, True) for text in texts]
    return out


def main():
    base = [case["text"] for case in json.load(open(os.path.join(HERE, "tokens_smollm2.json")))]
    with tempfile.TemporaryDirectory() as folder:
        for name, make in [("byte_level", byte_level), ("sentencepiece", sentencepiece)]:
            with open(os.path.join(HERE, name + "_llama_cpp.json"), "w") as file:
                json.dump(make(folder, base), file, separators=(",", ":"))


if __name__ == "__main__":
    main()
