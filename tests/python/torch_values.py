# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch and what PyTorch computes for them, written to data/torch_values.json for tests that run without
PyTorch. Usage, where torch is installed: PYTHONPATH=build/python python tests/python/torch_values.py"""
import dataclasses
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DATA = pathlib.Path(__file__).parent / "data" / "torch_values.json"


class Mlp(nn.Module):
    """A block with LayerNorm, GELU and a residual."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(12), nn.Linear(12, 24), nn.Linear(24, 12)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    """RMSNorm, rotary embeddings, grouped heads, causal attention of PyTorch and a gated MLP."""

    def __init__(self, width=16, heads=4, kv_heads=2, length=6):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.n1, self.n2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 20, bias=False), nn.Linear(width, 20, bias=False)
        self.down = nn.Linear(20, width, bias=False)
        angle = torch.arange(length)[:, None] * 10000.0**(-torch.arange(0, self.size, 2) / self.size)
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def turned(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x):
        batch, length, width = x.shape
        y = self.n1(x)
        q = self.turned(self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2))
        k = self.turned(self.k(y).view(batch, length, self.kv_heads, self.size).transpose(1, 2))
        v = self.v(y).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, length, width))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class StudentAttention(nn.Module):
    """Attention as a student writes it: one projection, a mask, a softmax by hand, and a loss."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 11)
        self.register_buffer("mask", torch.tril(torch.ones(5, 5)))

    def forward(self, ids, labels):
        x = self.embed(ids)
        q, k, v = self.qkv(x).split(8, dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(8)
        scores = scores.masked_fill(self.mask[:5, :5] == 0, float("-inf"))
        e = torch.exp(scores - 1.0)
        y = (e / e.sum(-1, keepdim=True)) @ v
        return F.cross_entropy(self.out(x + y).view(-1, 11), labels.view(-1))


def cases():
    torch.manual_seed(4)
    ids = torch.randint(0, 11, (2, 5))
    return {"mlp": (Mlp(), (torch.randn(3, 4, 12),)), "llama_block": (LlamaBlock(), (torch.randn(2, 6, 16),)),
            "student_attention": (StudentAttention(), (ids, ids.roll(-1, 1)))}


def truth(module, example):
    """The output, and the gradients of the sum of its squares (of a loss: its own) by parameter."""
    module.zero_grad()
    output = module(*example)
    (output if output.dim() == 0 else (output * output).sum()).backward()
    gradients = {name: p.grad.numpy() for name, p in module.named_parameters()}
    return output.detach().numpy(), gradients


def encoded(value):
    """As JSON has it: arrays as {"array": type, "shape", "values"}, references as {"ref": name}."""
    from ridge.torch_export import Ref
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, np.ndarray):
        flat = value.ravel().tolist()
        values = [each if not isinstance(each, float) or math.isfinite(each) else str(each) for each in flat]
        return {"array": value.dtype.name, "shape": list(value.shape), "values": values}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, dict):
        return {key: encoded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(each) for each in value]
    return value


def main():
    from ridge.torch_export import exported_program
    from ridge.torch_graph import KNOWN
    made = {}
    for name, (module, example) in cases().items():
        program = exported_program(module, example, KNOWN)
        output, gradients = truth(module, example)
        fields = {field.name: getattr(program, field.name) for field in dataclasses.fields(program)}
        fields["rows"] = [dataclasses.asdict(row) | {"arguments": row.arguments} for row in program.rows]
        made[name] = encoded({"program": fields, "inputs": [each.numpy() for each in example], "output": output,
                              "gradients": {f"p_{key.replace('.', '_')}": each for key, each in gradients.items()}})
    made["torch"] = torch.__version__
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
