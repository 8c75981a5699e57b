#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records a training step of six small models of random weights on the CPU, eager and compiled, and beside it the FLOPs
that PyTorch counts (models.json):

    python3 -m venv venv && venv/bin/pip install torch transformers
    TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE=1 venv/bin/python make_model_traces.py

ResNet-50, an LSTM, and transformers' ViT, GPT-2, BERT and Mixtral. FlopCounterMode has no formula for recurrent
networks and for grouped products: `by_hand` has their forward MACs in closed form. Rows of Python functions that are
no module are dropped, and so are strides and stacks, to keep the files small; nothing else is changed."""
import gzip
import json
import pathlib
import tempfile

import torch
import torch.nn.functional as F
import transformers
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.flop_counter import FlopCounterMode

HERE = pathlib.Path(__file__).parent
VOCABULARY, WIDTH, BATCH, LENGTH = 1000, 64, 2, 32
EXPERTS, CHOSEN, FEED_FORWARD, LAYERS = 4, 2, 128, 2


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, after, 1, bias=False), nn.BatchNorm2d(after))
        self.skip = nn.Identity() if before == after else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(before, width, stride if i == 0 else 1))
            before = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0])


def models():
    sizes = {"num_hidden_layers": LAYERS, "hidden_size": WIDTH, "num_attention_heads": 4, "intermediate_size": FEED_FORWARD}
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH))
    image = torch.randn(BATCH, 3, 64, 64)
    yield "resnet50", resnet50(), image, {}
    yield "lstm", Recurrent(), ids, {"lstm_forward_macs": LAYERS * BATCH * LENGTH * 4 * WIDTH * 2 * WIDTH}
    yield "vit", transformers.ViTModel(
        transformers.ViTConfig(image_size=64, patch_size=8, **sizes), add_pooling_layer=False), image, {}
    yield "gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=4, bos_token_id=0,
        eos_token_id=0)), ids, {}
    yield "bert", transformers.BertModel(
        transformers.BertConfig(vocab_size=VOCABULARY, **sizes), add_pooling_layer=False), ids, {}
    mixtral = transformers.MixtralConfig(
        vocab_size=VOCABULARY, num_key_value_heads=2, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN, **sizes)
    yield "mixtral", transformers.MixtralForCausalLM(mixtral), ids, {
        "expert_forward_macs": LAYERS * BATCH * LENGTH * CHOSEN * 3 * WIDTH * FEED_FORWARD}


def loss_of(output):
    for key in ("logits", "last_hidden_state"):
        output = getattr(output, key, output)
    return output.square().mean()


def record(step, path):
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=1, active=1), record_shapes=True) as p:
        for _ in range(4):
            step()
            p.step()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        p.export_chrome_trace(file.name)
        trace = json.load(open(file.name))
    kept = []
    for event in trace["traceEvents"]:
        if event.get("ph") != "X":
            continue
        args = event.get("args", {})
        for key in ("Input Strides", "Ev Idx", "Record function id", "Call stack", "Python id", "Module Hierarchy"):
            args.pop(key, None)
        kept.append(event)
    trace["traceEvents"] = kept
    text = json.dumps(trace, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, 9, mtime=0))


def main():
    torch.set_num_threads(1)
    facts = {"torch": torch.__version__}
    for name, model, data, by_hand in models():
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        with FlopCounterMode(display=False) as counter:
            loss_of(model(data)).backward()
        flops = counter.get_flop_counts()["Global"]
        facts[name] = {"flops": {str(op): count for op, count in flops.items()}, "by_hand": by_hand}
        for suffix, run in (("eager", model), ("compiled", torch.compile(model))):
            def step():
                optimizer.zero_grad()
                loss_of(run(data)).backward()
                optimizer.step()
            try:
                record(step, HERE / f"{name}_{suffix}.json.gz")
            except Exception as error:
                print(name, suffix, str(error)[:300])
    (HERE / "models.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
