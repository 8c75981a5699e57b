#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tokenizers_ids.py TOKENIZER TEXTS: the ids that Hugging Face's tokenizers package gives to each text of a JSON list,
special tokens parsed and none added."""
import json
import sys

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
texts = json.load(open(sys.argv[2], encoding="utf-8"))
print(json.dumps([tokenizer.encode(text, add_special_tokens=False).ids for text in texts]))
