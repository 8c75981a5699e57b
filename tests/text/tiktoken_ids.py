#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPT-2's encoding built from the files in tests/data/text by tiktoken: tiktoken_ids.py DATA TEXTS.
TEXTS is a JSON file with a list of texts; prints, for each, the ids without and with special tokens."""
import json
import sys

import tiktoken

data, texts = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
printed = [b for b in range(256) if chr(b).isprintable() and chr(b) != " " and b != 0xAD]
alphabet = {chr(b): b for b in printed}
alphabet.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printed)})
vocabulary = json.load(open(data + "/gpt2_vocab.json", encoding="utf-8"))
special = {"<|endoftext|>": vocabulary.pop("<|endoftext|>")}
encoding = tiktoken.Encoding(
    name="gpt2-local", special_tokens=special,
    pat_str=r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    mergeable_ranks={bytes(alphabet[c] for c in token): rank for token, rank in vocabulary.items()})
print(json.dumps([[encoding.encode(text, disallowed_special=()), encoding.encode(text, allowed_special="all")]
                  for text in texts]))
