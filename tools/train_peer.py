# SPDX-License-Identifier: Apache-2.0
"""Trains a Llama in PyTorch as `ridge train` does: the same weights, windows, order, schedule, clipping and AdamW. Prints
the loss of each step, validation losses and the time of the whole loop as JSON. Needs torch, numpy and safetensors (PyPI).
Usage: train_peer.py MODEL_FOLDER DATA_FOLDER [options, named as those of ridge train] [--compile]
MODEL_FOLDER is one of `ridge train --save`, DATA_FOLDER one of `ridge data tokenize`. The loader reads windows out of
mapped shards in this process, which on few cores is faster than one in a process of its own. --checkpoints saves weights and
moments by torch.save. --dtype fp64 shows what rounding makes of the losses."""
import argparse
import json
import math
import os
import time

import numpy
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def permuted(index, count, seed):
    """Ridge's order of windows: a Feistel network, walked until the value is below `count`."""
    half = max(((count - 1).bit_length() + 1) // 2, 1)
    while True:
        left, right = index >> half, index & ((1 << half) - 1)
        for turn in range(6):
            key = mix((mix(seed) + turn) & MASK)
            left, right = right, left ^ (mix(key ^ right) & ((1 << half) - 1))
        index = left << half | right
        if index < count:
            return index


class Windows:
    def __init__(self, folder, length, seed=0):
        with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
            index = json.load(file)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".bin"))
        dtype = numpy.uint16 if index["vocab_size"] <= 65536 else numpy.uint32
        shards = [numpy.memmap(os.path.join(folder, name), dtype, "r") for name in names]
        self.ids = shards[0] if len(shards) == 1 else numpy.concatenate(shards)
        self.length, self.seed, self.place = length, seed, 0
        self.count = (len(self.ids) - 1) // length

    def window(self, number):
        return self.ids[number * self.length:(number + 1) * self.length + 1].astype(numpy.int64)

    def next(self, rows):
        batch = []
        for _ in range(rows):
            epoch, index = divmod(self.place, self.count)
            batch.append(self.window(permuted(index, self.count, (self.seed << 40 ^ epoch) & MASK)))
            self.place += 1
        return torch.from_numpy(numpy.stack(batch))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, h, k, f = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["intermediate_size"]
        self.heads, self.kv_heads, self.head_size, self.eps = h, k, c.get("head_dim") or d // h, c["rms_norm_eps"]
        self.input_layernorm = nn.Parameter(torch.ones(d))
        self.post_attention_layernorm = nn.Parameter(torch.ones(d))
        self.qkv = nn.Linear(d, (h + 2 * k) * self.head_size, bias=False)
        self.o_proj = nn.Linear(h * self.head_size, d, bias=False)
        self.gate_up = nn.Linear(d, 2 * f, bias=False)
        self.down_proj = nn.Linear(f, d, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        h, k, e = self.heads, self.kv_heads, self.head_size
        qkv = self.qkv(F.rms_norm(x, (d,), self.input_layernorm, self.eps)).view(b, t, h + 2 * k, e).transpose(1, 2)
        qk, v = qkv[:, :h + k], qkv[:, h + k:]
        first, second = qk[..., :e // 2], qk[..., e // 2:]
        qk = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
        key, v = (each.repeat_interleave(h // k, 1) for each in (qk[:, h:], v))
        y = F.scaled_dot_product_attention(qk[:, :h], key, v, is_causal=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(b, t, h * e))
        gate, up = self.gate_up(F.rms_norm(x, (d,), self.post_attention_layernorm, self.eps)).chunk(2, -1)
        return x + self.down_proj(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, c, length):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.Parameter(torch.ones(c["hidden_size"]))
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        if c["tie_word_embeddings"]:
            self.lm_head.weight = self.embed_tokens.weight
        size = self.layers[0].head_size
        angles = torch.outer(torch.arange(length).double(), c["rope_theta"] ** (-torch.arange(0, size, 2).double() / size))
        self.cos, self.sin = angles.cos(), angles.sin()

    def load(self, folder):
        file = load_file(os.path.join(folder, "model.safetensors"))
        with torch.no_grad():
            self.embed_tokens.weight.copy_(file["model.embed_tokens.weight"])
            self.norm.copy_(file["model.norm.weight"])
            if not self.c["tie_word_embeddings"]:
                self.lm_head.weight.copy_(file["lm_head.weight"])
            for i, layer in enumerate(self.layers):
                at = f"model.layers.{i}."
                for name in ("input_layernorm", "post_attention_layernorm"):
                    getattr(layer, name).copy_(file[f"{at}{name}.weight"])
                layer.qkv.weight.copy_(torch.cat([file[f"{at}self_attn.{name}_proj.weight"] for name in "qkv"]))
                layer.o_proj.weight.copy_(file[at + "self_attn.o_proj.weight"])
                layer.gate_up.weight.copy_(torch.cat([file[f"{at}mlp.{name}_proj.weight"] for name in ("gate", "up")]))
                layer.down_proj.weight.copy_(file[at + "mlp.down_proj.weight"])

    def forward(self, windows):
        x = self.embed_tokens(windows[:, :-1])
        for layer in self.layers:
            x = layer(x, self.cos.to(x.dtype), self.sin.to(x.dtype))
        logits = self.lm_head(F.rms_norm(x, x.shape[-1:], self.norm, self.c["rms_norm_eps"]))
        return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def rate_at(o, step):
    if step < o.lr_warmup:
        return o.lr * step / o.lr_warmup
    if o.schedule != "cosine" or step <= o.lr_warmup:
        return o.lr
    done = min((step - o.lr_warmup) / (o.steps - o.lr_warmup), 1)
    return o.min_lr + (o.lr - o.min_lr) * 0.5 * (1 + math.cos(math.pi * done))


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--val-data")
    for name, default in (("seq-len", 128), ("batch-size", 8), ("steps", 20), ("lr-warmup", 0), ("val-every", 100),
                          ("val-batches", 20), ("save-every", 100), ("threads", 2), ("seed", 0)):
        parser.add_argument("--" + name, type=int, default=default)
    for name, default in (("lr", 3e-4), ("min-lr", 0), ("clip", 0), ("weight-decay", 0.01)):
        parser.add_argument("--" + name, type=float, default=default)
    parser.add_argument("--schedule", default="constant", choices=("constant", "cosine"))
    parser.add_argument("--checkpoints")
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "fp64"))
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    o = parsed()
    torch.set_num_threads(o.threads)
    with open(os.path.join(o.model, "config.json"), encoding="utf-8") as file:
        model = Llama(json.load(file), o.seq_len)
    model.load(o.model)
    if o.dtype == "fp64":
        model.double()
    decayed = [w for name, w in model.named_parameters() if w.dim() > 1 and "embed_tokens" not in name]
    others = [w for name, w in model.named_parameters() if w.dim() == 1 or "embed_tokens" in name]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": o.weight_decay}, {"params": others, "weight_decay": 0}],
                                  lr=o.lr, betas=(0.9, 0.999), eps=1e-8, fused=True)
    data = Windows(o.data, o.seq_len, o.seed)
    validation = Windows(o.val_data, o.seq_len) if o.val_data else None
    run = torch.compile(model) if o.compile else model

    def validate():
        sums = []
        windows = min(validation.count, o.val_batches * o.batch_size)
        with torch.no_grad():
            for first in range(0, windows - o.batch_size + 1, o.batch_size):
                batch = [validation.window(first + row) for row in range(o.batch_size)]
                sums.append(run(torch.from_numpy(numpy.stack(batch))).item())
        return sum(sums) / len(sums)

    if o.compile:  # compiled before the clock starts
        place = data.place
        run(data.next(o.batch_size)).backward()
        optimizer.zero_grad()
        if validation:
            validate()
        data.place = place
    losses, validations, waited, saved = [], [], 0.0, 0.0
    begin = time.perf_counter()
    for step in range(1, o.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(o, step)
        at = time.perf_counter()
        batch = data.next(o.batch_size)
        waited += time.perf_counter() - at
        loss = run(batch)
        loss.backward()
        if o.clip > 0:
            nn.utils.clip_grad_norm_(model.parameters(), o.clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if validation and (step % o.val_every == 0 or step == o.steps):
            validations.append([step, validate()])
        if o.checkpoints and (step % o.save_every == 0 or step == o.steps):
            at = time.perf_counter()
            os.makedirs(o.checkpoints, exist_ok=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                       os.path.join(o.checkpoints, "last.pt"))
            saved += time.perf_counter() - at
    seconds = time.perf_counter() - begin
    tokens = o.steps * o.batch_size * o.seq_len
    print(json.dumps({"torch": torch.__version__, "threads": o.threads, "seconds": seconds, "tokens_per_s": tokens / seconds,
                      "loader_s": waited, "save_s": saved, "validations": validations, "losses": losses}))


if __name__ == "__main__":
    main()
