# SPDX-License-Identifier: Apache-2.0
"""Makes the small random models of tests/data/models that come from transformers, with their logits.
Needs torch, transformers and numpy. Usage: make_family_models.py OUT_FOLDER"""
import json
import pathlib
import sys

import torch
import transformers


def make(folder, config, model_class):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0, 0.15)
            if name.endswith("norm.weight"):
                weight.add_(1)
    ids = torch.randint(1, config.vocab_size, (2, 20))
    with torch.no_grad():
        logits = model(ids).logits.double()
    last = logits[:, -1]
    expected = {
        "transformers": transformers.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "ids": ids.tolist(),
        "argmax": logits.argmax(-1).tolist(),
        "logsumexp_last": [round(x, 5) for x in last.logsumexp(-1).tolist()],
        "logits_last8": [[round(x, 5) for x in row[:8].tolist()] for row in last],
    }
    model.save_pretrained(folder)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    out = pathlib.Path(sys.argv[1])
    shape = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                 max_position_embeddings=128)
    make(out / "mistral_fp32", transformers.MistralConfig(sliding_window=6, **shape),
         transformers.MistralForCausalLM)


main()
