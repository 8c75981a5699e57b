#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folders of quantized/: small random Llamas that published tools quantize and pack.

usage: make_quantized_models.py SOURCES OUT

SOURCES is a folder with the unpacked packages auto-gptq 0.7.1 (auto_gptq/), autoawq 0.2.9
(autoawq-0.2.9/) and compressed-tensors 0.20.1 (compressed_tensors/), of which single modules are
imported. It needs PyTorch and NumPy, and no GPU. Beside each model, dequantized.json has the FNV-1a
hash of each matrix [out, in] in fp16 as the tool dequantizes it.
"""
import importlib.util
import json
import pathlib
import struct
import sys
import types

import numpy as np
import torch

HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, VOCABULARY = 128, 256, 4, 2, 64
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD, "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS, "head_dim": HIDDEN // HEADS, "num_hidden_layers": 1,
    "vocab_size": VOCABULARY, "max_position_embeddings": 256, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float16"}
KV = KV_HEADS * HIDDEN // HEADS
MATRICES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (KV, HIDDEN),
    "self_attn.v_proj": (KV, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (FEED_FORWARD, HIDDEN), "mlp.up_proj": (FEED_FORWARD, HIDDEN),
    "mlp.down_proj": (HIDDEN, FEED_FORWARD)}


def load(path, package=None):
    """A module of a package, without the package's own imports."""
    name = f"{package}.{path.stem}" if package else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def replace_missing_modules():
    """The modules import transformers for a class that they compare with."""
    class Conv1D(torch.nn.Module):
        pass
    stub = types.ModuleType("transformers")
    stub.Conv1D = Conv1D
    stub.pytorch_utils = types.SimpleNamespace(Conv1D=Conv1D)
    sys.modules["transformers"] = stub
    torch.cuda.synchronize = lambda: None
    sys.modules["gptq_quantization"] = types.ModuleType("gptq_quantization")


def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return f"{value:016x}"


NAMES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32", torch.int64: "I64"}


def write_safetensors(path, tensors):
    header, blocks, at = {"__metadata__": {"format": "pt"}}, [], 0
    order = {"I64": 0, "I32": 1, "F16": 2, "BF16": 2}
    for name, tensor in sorted(tensors.items(), key=lambda each: (order[NAMES[each[1].dtype]], each[0])):
        data = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(data)]}
        blocks.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blocks))


def random_linear(out, width, generator):
    linear = torch.nn.Linear(width, out, bias=False, dtype=torch.float16)
    linear.weight.data = (0.08 * torch.randn(out, width, generator=generator) + 0.01).half()
    return linear


class AutoGptq:
    def __init__(self, sources, group, sym, act_order):
        folder = sources / "auto_gptq"
        load(folder / "quantization/quantizer.py", "gptq_quantization")
        self.gptq = load(folder / "quantization/gptq.py", "gptq_quantization")
        self.packed = load(folder / "nn_modules/qlinear/qlinear_cuda.py")
        self.group, self.sym, self.act_order = group, sym, act_order
        self.config = {"quant_method": "gptq", "bits": 4, "group_size": group, "sym": sym,
                       "desc_act": act_order, "static_groups": False, "damp_percent": 0.01,
                       "true_sequential": True, "checkpoint_format": "gptq"}

    def quantize(self, linear, generator):
        width = linear.in_features
        method = self.gptq.GPTQ(linear)
        method.quantizer.configure(4, perchannel=True, sym=self.sym, mse=False)
        sizes = 0.2 + torch.rand(width, generator=generator)
        method.add_batch(torch.randn(512, width, generator=generator) * sizes, None)
        scale, zero, groups = method.fasterquant(group_size=self.group, actorder=self.act_order)
        # Zero points are stored less 1, and the tool cannot store 0.
        assert zero.min() >= 1
        made = self.packed.QuantLinear(4, self.group, width, linear.out_features, False)
        linear.weight.data = linear.weight.data.float()
        made.pack(linear, scale.clone(), zero.clone(), groups)
        made.scales = made.scales.half()
        dequantized = made(torch.eye(width, dtype=torch.float16)).t()
        parts = {"qweight": made.qweight, "qzeros": made.qzeros, "scales": made.scales,
                 "g_idx": made.g_idx.to(torch.int32)}
        return parts, dequantized


def extremes(linear, group):
    """Scales and zero points [groups, out] of the least and the largest value of each group."""
    parts = linear.weight.data.float().reshape(linear.out_features, -1, group)
    low, high = parts.amin(2).clamp(max=0), parts.amax(2).clamp(min=0)
    scales = ((high - low) / 15).half()
    zeros = torch.round(-low / scales.float()).clamp(0, 15)
    return scales.t().contiguous(), zeros.t().contiguous()


class AutoAwq:
    def __init__(self, sources, group):
        for name in ("awq", "awq.utils", "awq.utils.utils", "awq.utils.module"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["awq.utils.utils"].get_best_device = lambda: "cpu"
        sys.modules["awq.utils.module"].try_import = lambda name: (None, "not installed")
        folder = sources / "autoawq-0.2.9/awq"
        self.packing = load(folder / "utils/packing_utils.py", "awq.utils")
        self.packed = load(folder / "modules/linear/gemm.py")
        self.group = group
        self.config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True,
                       "version": "gemm", "modules_to_not_convert": None}

    def quantize(self, linear, generator):
        scales, zeros = extremes(linear, self.group)
        made = self.packed.WQLinear_GEMM.from_linear(linear, 4, self.group, scales=scales, zeros=zeros)
        parts = {"qweight": made.qweight, "qzeros": made.qzeros, "scales": made.scales}
        values = self.packing.dequantize_gemm(made.qweight, made.qzeros, made.scales, 4, self.group)
        return parts, values.t()


class CompressedTensors:
    def __init__(self, sources, group):
        self.packing = load(sources / "compressed_tensors/compressors/pack_quantized/helpers.py")
        self.group = group
        weights = {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group",
                   "group_size": group, "actorder": None, "dynamic": False}
        self.config = {"quant_method": "compressed-tensors", "format": "pack-quantized",
                       "quantization_status": "compressed", "ignore": ["lm_head"],
                       "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                                     "input_activations": None,
                                                     "output_activations": None}}}

    def quantize(self, linear, generator):
        scales, zeros = (each.t().contiguous() for each in extremes(linear, self.group))
        wide, of_column = scales.float().repeat_interleave(self.group, 1), \
            zeros.repeat_interleave(self.group, 1)
        quants = torch.clamp(torch.round(linear.weight.data.float() / wide) + of_column, 0, 15) - 8
        packed = self.packing.pack_to_int32(quants.to(torch.int8), 4)
        packed_zeros = self.packing.pack_to_int32((zeros - 8).to(torch.int8), 4, packed_dim=0)
        parts = {"weight_packed": packed, "weight_zero_point": packed_zeros.contiguous(),
                 "weight_scale": scales, "weight_shape": torch.tensor(linear.weight.shape)}
        back = self.packing.unpack_from_int32(packed, 4, linear.weight.shape)
        back_zeros = self.packing.unpack_from_int32(packed_zeros, 4, scales.shape, packed_dim=0)
        less = (back.half() - back_zeros.half().repeat_interleave(self.group, 1))
        return parts, less * scales.repeat_interleave(self.group, 1)


def make(folder, tool, seed):
    generator = torch.Generator().manual_seed(seed)
    tensors, hashes = {}, {}
    for name, rows in (("model.embed_tokens", VOCABULARY), ("lm_head", VOCABULARY)):
        tensors[name + ".weight"] = (0.5 * torch.randn(rows, HIDDEN, generator=generator)).half()
    for name in ("model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm",
                 "model.norm"):
        tensors[name + ".weight"] = (1 + 0.1 * torch.randn(HIDDEN, generator=generator)).half()
    # The calibration is the same for the matrices that have the same input.
    inputs = {"q_proj": 1, "k_proj": 1, "v_proj": 1, "o_proj": 2, "gate_proj": 3, "up_proj": 3,
              "down_proj": 4}
    for module, (out, width) in MATRICES.items():
        calibration = torch.Generator().manual_seed(seed + inputs[module.split(".")[1]])
        parts, values = tool.quantize(random_linear(out, width, generator), calibration)
        for part, tensor in parts.items():
            tensors[f"model.layers.0.{module}.{part}"] = tensor
        assert values.shape == (out, width) and values.dtype == torch.float16
        hashes[f"model.layers.0.{module}.weight"] = fnv1a(values.contiguous().numpy().tobytes())
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors)
    config = CONFIG | {"quantization_config": tool.config}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "dequantized.json").write_text(json.dumps(hashes, indent=2) + "\n")


def main():
    sources, out = map(pathlib.Path, sys.argv[1:3])
    torch.manual_seed(0)
    np.random.seed(0)
    replace_missing_modules()
    make(out / "gptq_g128", AutoGptq(sources, 128, True, False), 10)
    make(out / "gptq_g32", AutoGptq(sources, 32, True, False), 15)
    make(out / "gptq_g32_act_order", AutoGptq(sources, 32, False, True), 20)
    make(out / "awq_g128", AutoAwq(sources, 128), 30)
    make(out / "compressed_g64", CompressedTensors(sources, 64), 40)


if __name__ == "__main__":
    main()
