#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a folder a tokenizer (tokenizer.json, tokenizer_config.json, generation_config.json) and in it expected.json:
texts with the ids that Hugging Face's tokenizers package gives them. Needs `pip install tokenizers`. The vocabularies
are trained here on tests/data/text/corpus.en. Usage: make_tokenizer_vectors.py [qwen2]"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = HERE.parent.parent / "text" / "corpus.en"
MARK = "\u2581"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
POOLS = [[32], [32, 10], [10, 13, 32, 9], range(48, 58), range(97, 123), range(65, 91),
         [ord(c) for c in "'stredvlmSTREDVLM "], [ord(c) for c in ".,;:!?-_/\\()[]{}<>@#$%^&*+=|~`\""],
         range(0x400, 0x460), range(0x4E00, 0x4F00), range(0x1F600, 0x1F640), [0xA0, 0x2003, 0x3000, 0x85]]
PHRASES = ["<s>", "</s>", "<|end_of_text|>", "   ", "\t\t", "<unk>", "<0x0A>", " the ", "the", "of the", "[tag]"]


# Texts that are not in NFC: marks, Hangul letters, characters that are others' singletons.
MARKED = [range(0x300, 0x345), [ord(c) for c in "aeiou>=<AEIOUcn"], range(0x1100, 0x1113), range(0x1161, 0x1176),
          range(0x11A8, 0x11C3), [0x212B, 0x2126, 0x37E, 0x1FEF, 0xF900, 0x2ADC], range(0x900, 0x960), range(0x9B0, 0x9E0),
          range(0xE0, 0x180), range(0x3040, 0x30A0), range(0x5D0, 0x5EB), range(0x5B0, 0x5C8), range(0xAC00, 0xAC40)]


def random_text(rng, size, phrases=PHRASES, pools=POOLS):
    text = ""
    while len(text) < size:
        if rng.random() < 0.2:
            text += rng.choice(phrases)
            continue
        pool, run = rng.choice(pools), rng.choice([1, 1, 2, 3, 5, 8, 30])
        text += "".join(chr(rng.choice(pool)) for _ in range(run))
    return text


def byte_level(pre_tokenizer, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<s>", "<|end_of_text|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(CORPUS)], trainer)
    tokenizer.add_tokens([AddedToken("[tag]", normalized=False)])
    return tokenizer


def sentencepiece(prefix):
    """Pieces with distinct scores as a SentencePiece model has them; every pair of pieces that joins to one is a merge,
    in the order of scores, as the conversion of such a model makes them."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", MARK)
    trained.train([str(CORPUS)], trainers.BpeTrainer(vocab_size=700, show_progress=False))
    pieces = sorted(trained.get_vocab().items(), key=lambda item: item[1])
    pieces = [piece for piece, _ in pieces if "\n" not in piece]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    if MARK not in pieces:
        pieces.append(MARK)
    vocab = {token: id for id, token in enumerate(tokens + [p for p in pieces if p not in tokens])}
    merges = []
    for piece in pieces:
        merges += [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))
                   if piece[:cut] in vocab and piece[cut:] in vocab]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    replace = normalizers.Replace(" ", MARK)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), replace]) if prefix else replace
    if not prefix:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in tokens[:3]])
    tokenizer.add_tokens([AddedToken("[tag]", normalized=False)])
    return tokenizer


def template(tokenizer, bos):
    return processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
                                         special_tokens=[(bos, tokenizer.token_to_id(bos))])


def write(name, tokenizer, config, generation, texts):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    (folder / "expected.json").write_text(json.dumps({"texts": texts, "ids": ids}) + "\n")


def qwen2(texts):
    rng = random.Random(6)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix=""))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(CORPUS)], trainer)
    ends = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in ends])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ("<think>", "</think>")])
    phrases = [*ends, "<think>", "</think>", "   ", "\t\t", " the ", "of the", "\u0301", "e\u0301", "\r\n\r\n", "'S", "12"]
    texts = texts + [random_text(rng, rng.choice([10, 30, 80]), phrases, MARKED + POOLS) for _ in range(200)]
    id = tokenizer.token_to_id
    write("qwen2", tokenizer, {"bos_token": None, "eos_token": ends[2], "pad_token": ends[0], "unk_token": None,
                               "add_bos_token": False, "add_prefix_space": False},
          {"eos_token_id": [id(ends[2]), id(ends[0])], "pad_token_id": id(ends[0])}, texts)


def main():
    rng = random.Random(5)
    texts = ["", " ", "a", " a", "Hello, world!", "don't I'LL we'Ve", "12345 1 22", "x<s>y</s> z", " <s> a"]
    texts += [line for line in CORPUS.read_text().splitlines()[:12]]
    texts += [random_text(rng, rng.choice([10, 30, 80])) for _ in range(50)]
    qwen2(texts)
    if sys.argv[1:] == ["qwen2"]:
        return
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    smollm = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level])
    llama3 = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    ends = {"bos_token": "<s>", "eos_token": "<|end_of_text|>"}
    write("gpt2", byte_level(level, False), ends, {"eos_token_id": 1}, texts)
    write("smollm", byte_level(smollm, False), ends | {"add_bos_token": False}, {"eos_token_id": [1, 0]}, texts)
    third = byte_level(llama3, True)
    third.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template(third, "<s>")])
    write("llama3", third, ends | {"chat_template": "{{ messages }}"}, {"eos_token_id": 1}, texts)
    # What follows a special token gets a space there in some versions and none in others; spaces before it go to it.
    plain = [text for text in texts if "<s>" not in text and "</s>" not in text and "<unk>" not in text]
    second = sentencepiece(True)
    second.post_processor = template(second, "<s>")
    write("llama2", second, {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": True},
          {"eos_token_id": 2}, [text for text in plain if text and "[tag]" not in text])
    write("gemma", sentencepiece(False), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
          {"eos_token_id": 2}, texts)


main()
