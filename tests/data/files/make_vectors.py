# SPDX-License-Identifier: Apache-2.0
"""Makes the files beside it with the formats' own Python packages (gguf 0.19.0, safetensors 0.8.0, ml_dtypes), so
that tests hold Ridge against something that is not Ridge. Usage: python make_vectors.py FOLDER"""
import pathlib
import sys

import gguf
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(20240601)
Q = gguf.GGMLQuantizationType
SIMPLE = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0]
SUPER = [Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K]
# Byte offsets of the half-precision scales in a block.
SCALES = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0], Q.Q2_K: [80, 82], Q.Q3_K: [108],
          Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208]}


def random_blocks(kind, count):
    """Random bits everywhere, scales of all finite magnitudes and both signs."""
    blocks = rng.integers(0, 256, (count, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    for offset in SCALES[kind]:
        bits = rng.integers(0, 0x7c00, count).astype(np.uint16) | (rng.integers(0, 2, count) << 15).astype(np.uint16)
        blocks[:, offset:offset + 2] = bits.view(np.uint8).reshape(count, 2)
    return blocks


def make_quants():
    tensors = {}
    for kind in SIMPLE + SUPER:
        blocks = random_blocks(kind, 9)
        tensors[f"{kind.name.lower()}.blocks"] = blocks
        tensors[f"{kind.name.lower()}.values"] = gguf.dequantize(blocks, kind)
    for kind in SIMPLE:
        source = rng.standard_normal((40, 32)).astype(np.float32) * np.exp2(rng.integers(-12, 8, (40, 1))).astype(np.float32)
        source[3] = 0
        source[4] = 1.5
        source[5] = -0.25
        source[6] = np.abs(source[6])
        source[7] = np.round(source[7] * 4 / np.abs(source[7]).max()) / 4 + 0.0  # ties; no -0, where gguf-py and ggml differ
        tensors[f"{kind.name.lower()}.source"] = source
        tensors[f"{kind.name.lower()}.encoded"] = gguf.quantize(source, kind)
    codes = np.arange(256, dtype=np.uint8)
    tensors["f8_e4m3.values"] = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    tensors["f8_e5m2.values"] = codes.view(ml_dtypes.float8_e5m2).astype(np.float32)
    safetensors.numpy.save_file(tensors, folder / "quants.safetensors")


def make_safetensors():
    sizes = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int64": 8,
             "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1}
    tensors = {}
    for name, size in sizes.items():
        tensors[f"t.{name}"] = (name, [2, 3], rng.integers(0, 2 if name == "bool" else 256, 6 * size, dtype=np.uint8))
    tensors["scalar"] = ("float32", [], np.array([2.5], np.float32))
    tensors["empty"] = ("float32", [0, 3], np.empty(0, np.float32))
    tensors["quote\"\\\u00e9\n"] = ("uint8", [1], np.array([7], np.uint8))
    specs = {name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
             for name, (dtype, shape, data) in tensors.items()}
    (folder / "all_dtypes.safetensors").write_bytes(safetensors.serialize(specs, {"format": "pt"}))


def make_gguf():
    path = folder / "all_types.gguf_sample"
    writer = gguf.GGUFWriter(path, "sample")
    writer.add_uint8("n.u8", 200)
    writer.add_int8("n.i8", -100)
    writer.add_uint16("n.u16", 60000)
    writer.add_int16("n.i16", -30000)
    writer.add_uint32("n.u32", 4000000000)
    writer.add_int32("n.i32", -2000000000)
    writer.add_uint64("n.u64", 2**63 + 5)
    writer.add_int64("n.i64", -2**62)
    writer.add_float32("n.f32", 0.1)
    writer.add_float64("n.f64", 0.1)
    writer.add_bool("b.yes", True)
    writer.add_bool("b.no", False)
    writer.add_string("s.text", "h\u00e9llo \"world\"")
    writer.add_key_value("s.empty_text", "", gguf.GGUFValueType.STRING)
    writer.add_array("a.i32", [1, -2, 3])
    writer.add_array("a.f32", [0.5, -1.25])
    writer.add_array("a.strings", ["a", "bc", "", "\u4f60"])
    writer.add_array("a.bools", [True, False])
    writer.add_array("a.nested", [[1, 2], [3]])
    for kind in [Q.F32, Q.F16, Q.BF16, Q.F64, Q.I8, Q.I16, Q.I32, Q.I64]:
        size = gguf.GGML_QUANT_SIZES[kind][1]
        data = rng.integers(0, 128, (2, 3 * size), dtype=np.uint8)
        writer.add_tensor(f"plain.{kind.name}", data, raw_shape=(2, 3 * size), raw_dtype=kind)
    for kind in SIMPLE + SUPER:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        writer.add_tensor(f"block.{kind.name}", random_blocks(kind, 3).reshape(3, size), raw_dtype=kind)
    writer.add_tensor("four", np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


make_quants()
make_safetensors()
make_gguf()
