#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a folder with transformers and prints what peers_slow_test.cc compares: peer_logits.py FOLDER IDS [TEXT].
One JSON object: logsumexp and the first 64 logits after the ids (1,2,3), the ids of TEXT, how many parameters."""
import json
import sys

import torch
import transformers

folder, ids = sys.argv[1], [int(each) for each in sys.argv[2].split(",")]
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
with torch.no_grad():
    logits = model(torch.tensor([ids])).logits[0, -1].double()
result = {"logsumexp": logits.logsumexp(0).item(), "logits": logits[:64].tolist(),
          "parameters": sum(p.numel() for p in model.parameters())}
if len(sys.argv) > 3:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    result["ids"] = tokenizer(sys.argv[3], add_special_tokens=False)["input_ids"]
print(json.dumps(result))
