# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a model of transformers as ridge train does, and prints the loss of each step as JSON. The batch of each step
is all windows of the file of ids. Needs torch and transformers, for --adapter and --logits-adapter also peft.
Usage: finetune_peer.py MODEL_FOLDER IDS.json [--steps N] [--rate R] [--decay D] [--freeze PATTERN,...]
                        [--adapter FOLDER] [--logits-adapter FOLDER] [--threads N]
IDS.json is a list of windows, each of T + 1 ids. --adapter trains the LoRA adapter in FOLDER, from its values.
--logits-adapter trains nothing: it prints the logits after the first window's first T ids, with that adapter."""
import argparse
import fnmatch
import json

import torch
import transformers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("ids")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--freeze", default="")
    parser.add_argument("--adapter")
    parser.add_argument("--logits-adapter")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    with open(options.ids, encoding="utf-8") as file:
        windows = torch.tensor(json.load(file))
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32,
                                                              attn_implementation="eager")
    adapter = options.adapter or options.logits_adapter
    if adapter:
        import peft
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=options.adapter is not None)
    model.eval()  # no dropout
    if options.logits_adapter:
        with torch.no_grad():
            print(json.dumps(model(windows[:1, :-1]).logits[0, -1].tolist()))
        return
    for name, weight in model.named_parameters():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in options.freeze.split(",")):
            weight.requires_grad = False
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=options.rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=options.decay)
    losses = []
    for _ in range(options.steps):
        logits = model(windows[:, :-1]).logits
        # In fp32, torch 2.8's sum over Gemma's 262,144 logits alone is off by 4e-5.
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps({"transformers": transformers.__version__, "torch": torch.__version__,
                      "parameters": sum(weight.numel() for weight in trained), "losses": losses}))


main()
