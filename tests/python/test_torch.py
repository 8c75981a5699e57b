# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch as graphs, against values and gradients that PyTorch computed (data/torch_values.json); with PyTorch
installed, also against PyTorch itself."""
import json
import pathlib

import numpy as np
import pytest
import ridge
from ridge.torch_export import Program, Ref, Row
from ridge.torch_graph import TorchGraph

STORED = json.loads((pathlib.Path(__file__).parent / "data" / "torch_values.json").read_text())
CASES = ["mlp", "llama_block", "student_attention"]


def decoded(value):
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "ref" in value:
        return Ref(value["ref"])
    if "float" in value:
        return float(value["float"])
    if "array" in value:
        values = [float(each) if isinstance(each, str) else each for each in value["values"]]
        return np.array(values, value["array"]).reshape(value["shape"])
    return {key: decoded(each) for key, each in value.items()}


def program_of(case):
    fields = decoded(case["program"])
    rows = [Row(**row) for row in fields.pop("rows")]
    return Program(rows=rows, **fields)


def with_gradients(made):
    """Appends the gradients of the sum of the output's squares, or of a loss itself, for all parameters."""
    graph, output = made.graph, made.outputs[0]
    loss = output
    if len(output.shape) > 0:
        squares = output * output
        loss = graph.reshape(graph.reduce_sum(squares, axes=list(range(len(output.shape)))), shape=[])
    return graph.differentiate(loss, made.parameters)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("level", ["baseline", "compiled"])
def test_values_and_gradients_are_torchs(name, level):
    case = STORED[name]
    made = TorchGraph(program_of(case))
    inputs, output = decoded(case["inputs"]), decoded(case["output"])
    found = made.run(*inputs, device="cpu", level=level)
    np.testing.assert_allclose(found, output, rtol=1e-4, atol=1e-5)
    gradients = decoded(case["gradients"])
    parameters = [each.name for each in made.parameters]
    assert sorted(parameters) == sorted(gradients)
    made = TorchGraph(program_of(case))
    made.graph = made.graph.apply("expand", device="cpu") if name == "student_attention" else made.graph
    if name == "student_attention":
        made.parameters = [made.graph.parameter(p, gradients[p].shape) for p in parameters]
        made.outputs = list(made.graph.outputs)
    made.graph.output(*with_gradients(made))
    for parameter, value in zip(parameters, made.run(*inputs, device="cpu", level=level)):
        wanted = gradients[parameter]
        np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-5 + 1e-4 * np.abs(wanted).max(), err_msg=parameter)


def test_counts_of_a_module_are_exact():
    made = TorchGraph(program_of(STORED["mlp"]))
    rows = 3 * 4
    assert made.graph.cost(device="cpu").macs == rows * 12 * 24 * 2
    assert "12 nodes" not in repr(made) and len(made.parameters) == 6


def test_unknown_operators_are_named():
    rows = [Row("a", "aten.erfinv", {"self": Ref("x")}, [([2], "f32")]), Row("b", "aten.exp", {"self": Ref("a")}, [([2], "f32")]),
            Row("c", "mine.kernel", {"x": Ref("b")}, [([2], "f32")])]
    with pytest.raises(ridge.UsageError, match=r"aten\.erfinv \(a\), mine\.kernel \(c\)"):
        TorchGraph(Program({"x": ([2], "f32")}, {}, {}, rows, [Ref("c")]))
    row = Row("a", "aten.gelu", {"self": Ref("x"), "approximate": "none"}, [([2], "f32")])
    with pytest.raises(ridge.UsageError, match="aten.gelu"):
        TorchGraph(Program({"x": ([2], "f32")}, {}, {}, [row], [Ref("a")]))


def run_row(op, arguments, shape, **values):
    """One operator on arrays."""
    inputs = {name: (list(each.shape), "f32") for name, each in values.items()}
    row = Row("made", op, {key: Ref(each) if isinstance(each, str) and each in values else each
                           for key, each in arguments.items()}, [(list(shape), "f32")])
    return TorchGraph(Program(inputs, {}, {}, [row], [Ref("made")])).run(*values.values(), device="cpu")


def test_operators_are_numpys():
    draw = np.random.default_rng(2)
    x, y, z = (draw.standard_normal(shape, np.float32) for shape in [(2, 3, 4), (3, 4), (2, 4, 5)])
    two = {"self": "x", "other": "y"}
    for op, arguments, wanted in [
        ("aten.add", {**two, "alpha": 2}, x + 2 * y), ("aten.sub", two, x - y), ("aten.mul", two, x * y),
        ("aten.div", two, x / y), ("aten.maximum", two, np.maximum(x, y)), ("aten.rsub", {"self": "x", "other": 2}, 2 - x),
        ("aten.add", {"self": "x", "other": 0.5}, x + 0.5), ("aten.div", {"self": "x", "other": 4}, x / 4),
        ("aten.pow", {"self": "x", "exponent": 3}, x**3), ("aten.pow", {"self": "x", "exponent": 2}, x**2),
        ("aten.mean", {"self": "x", "dim": [-1], "keepdim": True}, x.mean(-1, keepdims=True)),
        ("aten.mean", {"self": "x", "dim": 1, "keepdim": False}, x.mean(1)), ("aten.sum", {"self": "x"}, x.sum()),
        ("aten.transpose", {"self": "x", "dim0": -1, "dim1": 0}, x.swapaxes(-1, 0)),
        ("aten.permute", {"self": "x", "dims": [2, 0, 1]}, x.transpose(2, 0, 1)),
        ("aten.slice", {"self": "x", "dim": 1, "start": 1, "end": 2**63 - 1, "step": 1}, x[:, 1:]),
        ("aten.select", {"self": "x", "dim": 1, "index": -1}, x[:, -1]), ("aten.unsqueeze", {"self": "x", "dim": 1}, x[:, None]),
        ("aten.repeat_interleave", {"self": "x", "repeats": 3, "dim": 1}, x.repeat(3, 1)),
        ("aten.einsum", {"equation": "abc, bc -> ab", "tensors": [Ref("x"), Ref("y")]}, np.einsum("abc,bc->ab", x, y)),
        ("aten.cat", {"tensors": [Ref("x"), Ref("x")], "dim": -1}, np.concatenate([x, x], -1)),
        ("aten.stack", {"tensors": [Ref("x"), Ref("x")], "dim": 1}, np.stack([x, x], 1)),
        ("aten.matmul", {"self": "x", "other": "z"}, x @ z), ("aten.matmul", {"self": "y", "other": "z"}, y @ z),
        ("aten.bmm", {"self": "x", "mat2": "z"}, x @ z),
    ]:
        found = run_row(op, arguments, wanted.shape, x=x, y=y, z=z)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=f"{op} {arguments}")
    for op, arguments in [("aten.pow", {"self": "x", "exponent": 2.3}), ("aten.softmax", {"self": "x", "dim": 0}),
                          ("aten.slice", {"self": "x", "dim": 0, "start": 0, "end": 2, "step": 2}), ("aten.add", {"self": "x", "other": None}),
                          ("aten.masked_fill", {"self": "x", "mask": "y", "value": 1.0})]:
        with pytest.raises(ridge.UsageError, match=op):
            run_row(op, arguments, (2, 3, 4), x=x, y=y)


def test_torch_itself():
    torch = pytest.importorskip("torch")
    from torch_values import cases, truth
    for name, (module, example) in cases().items():
        made = ridge.from_torch(module, example)
        output, _ = truth(module, example)
        np.testing.assert_allclose(made.run(*example, device="cpu"), output, rtol=1e-4, atol=1e-5, err_msg=name)

    class Unknown(torch.nn.Module):
        def forward(self, x):
            return torch.fft.fft(x).real

    with pytest.raises(ridge.UsageError, match="fft"):
        ridge.from_torch(Unknown(), torch.ones(4))
