# SPDX-License-Identifier: Apache-2.0
"""Arrays of each type go both ways: by numpy, by DLPack, by the buffer protocol, and without numpy's own types."""
import numpy as np
import pytest
import ridge

random = np.random.default_rng(13)
VALUES = random.standard_normal(24).astype(np.float32)


def copied(values, dtype, **options):
    """What a graph of one copy returns."""
    graph = ridge.Graph()
    graph.output(graph.copy(graph.input("x", (24,), dtype)))
    return graph.run(x=values, device="cpu", **options)


def as_bf16(values):
    """bfloat16 of floats, rounded to nearest even, as bits."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


class Dlpack:
    """An array that has DLPack's protocol alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype, kind", [("f32", np.float32), ("f16", np.float16), ("f64", np.float64)])
def test_floats_come_back_bit_by_bit(dtype, kind):
    x = VALUES.astype(kind)
    if dtype == "f64":
        x = x.astype(np.float32).astype(np.float64)  # graphs run in float32
    try:
        found = copied(x, dtype, float32=False)
    except ridge.Error as refused:
        assert dtype == "f64", refused
        return
    assert found.dtype == kind
    np.testing.assert_array_equal(found, x)
    again = copied(Dlpack(found), dtype, float32=False)
    assert np.from_dlpack(again).ctypes.data == again.ctypes.data
    np.testing.assert_array_equal(again, x)
    np.testing.assert_array_equal(copied(x, dtype), x.astype(np.float32))  # float32 unless asked otherwise
    np.testing.assert_array_equal(copied(memoryview(x.astype(np.float32)), dtype), x.astype(np.float32))


def test_bfloat16_comes_back_bit_by_bit():
    """As an object of DLPack, whose elements are those of numpy's float32 rounded."""
    wanted = (as_bf16(VALUES).astype(np.uint32) << 16).view(np.float32)
    first = copied(VALUES, "bf16", float32=False)
    np.testing.assert_array_equal(copied(first, "bf16"), wanted)
    np.testing.assert_array_equal(copied(first, "f32"), wanted)  # bf16 is a short f32
    again = copied(Dlpack(first) if type(first).__module__ != "numpy" else first, "bf16", float32=False)
    np.testing.assert_array_equal(copied(again, "f32"), wanted)


def test_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = VALUES.astype(ml_dtypes.bfloat16)
    for given in (x, np.stack([x, x], 1)[:, 0]):  # dense, and every other element
        found = copied(given, "bf16", float32=False)
        assert found.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(found.view(np.uint16), x.view(np.uint16))


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int8", "int16", "bool"])
def test_torch(kind):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, kind)
    x = torch.from_numpy(VALUES * 4).to(dtype)
    own = {"float16": "f16", "bfloat16": "bf16"}.get(kind, "f32")
    found = copied(x, own, float32=False)
    tensor = torch.from_dlpack(found) if hasattr(found, "__dlpack__") and kind != "bfloat16" or not hasattr(found, "view") \
        else torch.from_numpy(found.view(np.uint16)).view(torch.bfloat16)
    assert torch.equal(tensor.to(torch.float32), x.to(torch.float32))
    graph = ridge.Graph()
    assert graph.input("y", (2,), torch.float16).dtype == "f16"


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_])
def test_ints_are_numbers_and_ids(kind):
    x = (np.arange(24) % (2 if kind == np.bool_ else 100)).astype(kind)
    np.testing.assert_array_equal(copied(x, "f32"), x.astype(np.float32))
    np.testing.assert_array_equal(copied(x[::-1].reshape(4, 6).T.ravel("F"), "f32"), x[::-1].astype(np.float32))
    if kind != np.bool_:
        graph = ridge.Graph()
        graph.output(graph.embedding(graph.parameter("table", (100, 2)), graph.input("ids", (24,), "i32")))
        table = random.standard_normal((100, 2)).astype(np.float32)
        np.testing.assert_array_equal(graph.run(table=table, ids=x, device="cpu"), table[x.astype(int)])


@pytest.mark.parametrize("wrong", [np.array([1 + 2j] * 24), np.array(["a"] * 24), np.array([None] * 24), np.zeros(23), "text",
                                   np.zeros(24, "datetime64[s]"), b"bytes", {}, object()])
def test_other_elements_are_refused(wrong):
    with pytest.raises((ridge.UsageError, TypeError), match="x"):
        copied(wrong, "f32")
