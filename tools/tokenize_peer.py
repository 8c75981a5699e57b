# SPDX-License-Identifier: Apache-2.0
"""Times tokenizers and tiktoken on a text with a byte-level tokenizer of `ridge tokenizer train` (pre-tokenizer gpt2 or
llama3), beside `ridge data tokenize`, by turns, and compares the numbers of ids. Needs tokenizers and tiktoken (PyPI).
Usage: tokenize_peer.py RIDGE TOKENIZER_FOLDER TEXT [--threads N] [--turns N] [--pattern gpt2|llama3]
The peers get the text in memory, cut at lines into parts of 64 KiB, and give lists of ids. Ridge's time is that of the
whole command: it starts, reads the tokenizer and the file, and writes and syncs the shards with their hashes."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PATTERNS = {
    "gpt2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "llama3": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
              r"""|\s*[\r\n]+|\s+(?!\S)|\s+""",
}


def tiktoken_encoding(folder, pattern):
    import tiktoken
    with open(os.path.join(folder, "vocab.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)
    printed = [b for b in range(256) if chr(b).isprintable() and chr(b) != " " and b != 0xAD]
    alphabet = {chr(b): b for b in printed}
    alphabet.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printed)})
    special = {token: rank for token, rank in vocabulary.items() if token.startswith("<|")}
    ranks = {bytes(alphabet[c] for c in token): rank for token, rank in vocabulary.items() if token not in special}
    return tiktoken.Encoding("local", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def parts_of(text, size=65536):
    parts, begin = [], 0
    while begin < len(text):
        end = text.rfind("\n", begin, begin + size) + 1 if begin + size < len(text) else len(text)
        end = end if end > begin else begin + size
        parts.append(text[begin:end])
        begin = end
    return parts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ridge")
    parser.add_argument("tokenizer")
    parser.add_argument("text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pattern", default="gpt2", choices=PATTERNS)
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import tiktoken
    import tokenizers
    with open(options.text, encoding="utf-8", errors="replace", newline="") as file:
        text = file.read()
    parts = parts_of(text)
    fast = tokenizers.Tokenizer.from_file(os.path.join(options.tokenizer, "tokenizer.json"))
    encoding = tiktoken_encoding(options.tokenizer, PATTERNS[options.pattern])

    def run_ridge():
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run([options.ridge, "data", "tokenize", options.text, "--tokenizer", options.tokenizer, "--out",
                                   folder + "/out", "--no-eos", "--json"], check=True, capture_output=True).stdout
            return json.loads(said)["ids"]

    def run_tokenizers():
        return sum(len(each.ids) for each in fast.encode_batch_fast(parts, add_special_tokens=False))

    def run_tiktoken():
        return sum(map(len, encoding.encode_ordinary_batch(parts, num_threads=options.threads)))

    runs = {"ridge": run_ridge, "tokenizers " + tokenizers.__version__: run_tokenizers,
            "tiktoken " + tiktoken.__version__: run_tiktoken}
    seconds, ids = {name: [] for name in runs}, {}
    for _ in range(options.turns):
        for name, run in runs.items():
            begin = time.perf_counter()
            ids[name] = run()
            seconds[name].append(time.perf_counter() - begin)
    size = len(text.encode())
    for name in runs:
        median = statistics.median(seconds[name])
        print(f"{name:20} {ids[name]:12,} ids  {size / median / 1e6:8.1f} MB/s  {ids[name] / median / 1e6:6.2f} M ids/s  "
              f"median of {options.turns}: {median:.3f} s ({min(seconds[name]):.3f} - {max(seconds[name]):.3f})")
    sys.stdout.flush()


main()
