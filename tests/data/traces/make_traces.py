#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the traces of this folder with PyTorch and transformers, and beside each the FLOPs that PyTorch counts:

    python3 -m venv venv && venv/bin/pip install torch transformers
    TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE=1 venv/bin/python make_traces.py

Four programs on the CPU: training steps of a small Llama with unfused attention (`unfused`), with PyTorch's fused
attention and norm (`fused`), and compiled by TorchInductor (`compiled`), three steps each; and `generate` of a random
Gemma 3. Rows of Python functions that are no module are dropped, and so are the strides, to keep the files small;
nothing else is changed. torch_flops.json has FlopCounterMode's counts of one step and of the generation."""
import gzip
import json
import math
import pathlib
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.flop_counter import FlopCounterMode

HERE = pathlib.Path(__file__).parent
VOCABULARY, WIDTH, HEADS, KV_HEADS, HEAD, FEED_FORWARD, LAYERS, BATCH, LENGTH = 1000, 192, 6, 2, 32, 768, 2, 4, 128


class Norm(nn.Module):
    def __init__(self, is_fused):
        super().__init__()
        self.weight, self.is_fused = nn.Parameter(torch.ones(WIDTH)), is_fused

    def forward(self, x):
        if self.is_fused:
            return F.rms_norm(x, (WIDTH,), self.weight, 1e-6)
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class Layer(nn.Module):
    def __init__(self, is_fused):
        super().__init__()
        self.is_fused = is_fused
        self.before_attention, self.before_mlp = Norm(is_fused), Norm(is_fused)
        self.query = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.key = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.value = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=True)
        self.output = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, FEED_FORWARD, bias=False), nn.Linear(WIDTH, FEED_FORWARD, bias=False)
        self.down = nn.Linear(FEED_FORWARD, WIDTH, bias=False)

    def attend(self, query, key, value):
        if self.is_fused:
            return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        key = key.repeat_interleave(HEADS // KV_HEADS, 1)
        value = value.repeat_interleave(HEADS // KV_HEADS, 1)
        scores = query @ key.transpose(-2, -1) / math.sqrt(HEAD)
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        return F.softmax(scores + mask, -1) @ value

    def forward(self, x):
        y = self.before_attention(x)
        split = lambda part, heads: part.view(BATCH, LENGTH, heads, HEAD).transpose(1, 2)
        attended = self.attend(split(self.query(y), HEADS), split(self.key(y), KV_HEADS), split(self.value(y), KV_HEADS))
        x = x + self.output(attended.transpose(1, 2).reshape(BATCH, LENGTH, HEADS * HEAD))
        y = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, is_fused):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer(is_fused) for _ in range(LAYERS))
        self.norm, self.head = Norm(is_fused), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids, labels):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, VOCABULARY), labels.view(-1))


def training_step(is_fused, is_compiled):
    torch.manual_seed(0)
    model = Llama(is_fused)
    optimizer = torch.optim.AdamW(model.parameters(), fused=is_fused)
    ids, labels = torch.randint(0, VOCABULARY, (2, BATCH, LENGTH))
    called = torch.compile(model) if is_compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        called(ids, labels).backward()
        optimizer.step()

    return step


def generation():
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig
    torch.manual_seed(0)
    model = Gemma3ForCausalLM(Gemma3TextConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=FEED_FORWARD, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=1, head_dim=48, sliding_window=64, max_position_embeddings=256)).eval()
    ids = torch.randint(3, VOCABULARY, (BATCH, LENGTH))

    def generate():
        with torch.no_grad():
            model.generate(ids, max_new_tokens=4, min_new_tokens=4, do_sample=False)

    return generate


def is_kept(event):
    return event.get("cat") != "python_function" or event["name"].startswith("nn.Module: ")


def save(profiler, name):
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(f"{folder}/trace.json")
        trace = json.loads(pathlib.Path(f"{folder}/trace.json").read_text("utf-8"))
    trace["traceEvents"] = [event for event in trace["traceEvents"] if is_kept(event)]
    trace["host_name"], trace["traceName"] = "example", name
    for event in trace["traceEvents"]:
        if isinstance(event.get("args"), dict):
            event["args"].pop("Input Strides", None)
    with gzip.GzipFile(HERE / f"{name}.json.gz", "wb", mtime=0) as out:
        out.write(json.dumps(trace).encode())


def record(name, act, steps, may_count=True):
    act()
    act()
    options = dict(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True)
    if steps == 1:
        with profile(**options) as profiler:
            act()
        save(profiler, name)
    else:
        with profile(**options, schedule=schedule(wait=0, warmup=1, active=steps),
                     on_trace_ready=lambda ready: save(ready, name)) as profiler:
            for _ in range(steps + 1):
                act()
                profiler.step()
    if not may_count:
        return {}
    with FlopCounterMode(display=False) as counter:
        act()
    return {str(op): int(flops) for op, flops in counter.get_flop_counts()["Global"].items()}


def main():
    torch.set_num_threads(1)
    counts = {"torch": torch.__version__,
              "unfused": record("unfused", training_step(False, False), 3),
              "fused": record("fused", training_step(True, False), 3)}
    record("compiled", training_step(True, True), 3, may_count=False)
    counts["compiled"] = counts["fused"]
    counts["generate"] = record("generate", generation(), 1)
    (HERE / "torch_flops.json").write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
