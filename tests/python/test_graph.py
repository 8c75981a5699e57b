# SPDX-License-Identifier: Apache-2.0
"""Graphs: values against numpy, gradients against closed forms and differences, counts by hand."""
import numpy as np
import pytest
import ridge

N, D, F = 6, 8, 5
random = np.random.default_rng(3)


def mlp():
    """x w^T, its silu, and the data of a run."""
    graph = ridge.Graph()
    x = graph.input("x", (N, D))
    w = graph.parameter("w", [F, D])
    y = graph.silu(graph.matmul(x, w, einsum="nd,fd->nf"))
    data = {"x": random.standard_normal((N, D), np.float32), "w": random.standard_normal((F, D), np.float32)}
    return graph, x, w, y, data


def silu(a):
    return a / (1 + np.exp(-a))


def test_values_are_numpys():
    graph, _, _, y, data = mlp()
    assert y.shape == (N, F) and y.dtype == "f32"
    wanted = silu(data["x"].astype(np.float64) @ data["w"].T)
    for level in ("baseline", "compiled"):
        np.testing.assert_allclose(graph.run(data, device="cpu", level=level), wanted, atol=1e-5)
    np.testing.assert_allclose(graph.run(x=data["x"].tolist(), w=data["w"][:, ::-1][:, ::-1], device="cpu"), wanted,
                               atol=1e-5)


def test_several_outputs_and_arithmetic():
    graph = ridge.Graph()
    a, b = graph.input("a", (3,)), graph.input("b", (3,))
    graph.output(a + b, a - b, a * b, a / b)
    x, y = np.array([1, 2, 3], np.float32), np.array([4, 8, 2], np.float32)
    for found, wanted in zip(graph.run(a=x, b=y, device="cpu"), (x + y, x - y, x * y, x / y)):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype, error", [("f32", 1e-7), ("bf16", 4e-3), ("f16", 5e-4), ("f64", 1e-7)])
def test_types_go_both_ways(dtype, error):
    graph = ridge.Graph()
    graph.output(graph.copy(graph.input("x", (16,), dtype)))
    x = random.standard_normal(16).astype(np.float32)
    try:
        found = graph.run(x=x, device="cpu")
    except ridge.Error as refused:
        assert dtype == "f64" or "f16" in str(refused) or dtype == "f16", refused
        return
    np.testing.assert_allclose(found, x, rtol=error, atol=error)


def test_ids_index_rows():
    graph = ridge.Graph()
    table, ids = graph.parameter("table", (10, 4)), graph.input("ids", (3,), "i32")
    graph.output(graph.embedding(table, ids))
    rows = random.standard_normal((10, 4)).astype(np.float32)
    np.testing.assert_array_equal(graph.run(table=rows, ids=np.array([7, 0, 7]), device="cpu"), rows[[7, 0, 7]])


def test_gradients_are_the_closed_form():
    graph, x, w, y, data = mlp()
    loss = graph.reshape(graph.reduce_sum(y * y, axes=[0, 1]), shape=[])
    gradients = graph.differentiate(loss, [x, w])
    assert [each.shape for each in gradients] == [x.shape, w.shape]
    graph.output(loss, *gradients)
    found = graph.run(data, device="cpu")
    a = data["x"].astype(np.float64) @ data["w"].T
    s = 1 / (1 + np.exp(-a))
    da = 2 * silu(a) * (s + a * s * (1 - s))
    np.testing.assert_allclose(found[0], (silu(a)**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(found[1], da @ data["w"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[2], da.T @ data["x"], rtol=1e-3, atol=1e-4)


def test_counts_are_exact():
    graph, *_ = mlp()
    cost = graph.cost(device="cpu")
    assert cost.macs == N * D * F and cost.flops == 2 * N * D * F + 4 * N * F
    assert cost.bytes == 4 * (N * D + F * D + 3 * N * F) and cost.launches == 2
    assert cost.compulsory_bytes == 4 * (N * D + F * D + N * F)
    assert [row["op"] for row in cost.nodes] == ["matmul", "silu"]
    assert sum(row["flops"] for row in cost.nodes) == cost.flops
    assert cost.peak_bytes <= cost.arena_bytes <= cost.owned_bytes


def test_a_pass_rewrites():
    graph = ridge.Graph()
    x = graph.input("x", (64, 64))
    graph.output(graph.exp(graph.neg(graph.square(x))))
    made = graph.apply("generate_pointwise", device="cpu")
    assert len(graph) == 3 and len(made) == 1 and "generated_pointwise" in made.text()
    assert made.cost(device="cpu").bytes < graph.cost(device="cpu").bytes
    assert made.cost(device="cpu").flops == graph.cost(device="cpu").flops
    data = random.standard_normal((64, 64)).astype(np.float32)
    np.testing.assert_allclose(made.run(x=data, device="cpu"), graph.run(x=data, device="cpu"), rtol=1e-5)
    assert len(graph.optimize(level="compiled", device="cpu")) == 1
    for wrong in ("nonsense", "-generate_pointwise", ""):
        with pytest.raises(ridge.UsageError):
            graph.apply(wrong, device="cpu")


def test_text_comes_back():
    graph, _, _, y, data = mlp()
    graph.output(y)
    again = ridge.parse(graph.text())
    assert again.text() == graph.text() and again.inputs == ["x", "w"]
    np.testing.assert_array_equal(again.run(data, device="cpu"), graph.run(data, device="cpu"))


def test_times_are_measured():
    graph, *_ = mlp()
    measured = graph.profile(device="cpu", seconds=0.05, backward=True)
    assert measured.ns > 0 and measured.samples >= 7 and measured.low_ns <= measured.ns <= measured.high_ns
    assert measured.macs == 3 * N * D * F


def wrong_calls():
    graph, x, w, y, data = mlp()
    other = ridge.Graph().input("z", (2,))
    return [
        lambda: graph.input("v", (1,) * 9), lambda: graph.input("v", (-1,)), lambda: graph.input("v", 3),
        lambda: graph.input("v", (2,), "f99"), lambda: graph.input("v", (2**62, 4)), lambda: graph.input("", (2,)),
        lambda: graph.input("x", (3, 3)), lambda: graph.matmul(x), lambda: graph.matmul(x, w),
        lambda: graph.matmul(x, w, einsum="nope"), lambda: graph.matmul(x, w, einsum=3), lambda: graph.add(x, w),
        lambda: graph.silu(x, nonsense=1), lambda: graph.add(x, other), lambda: graph.silu("x"), lambda: x + 3,
        lambda: graph.output(3), lambda: graph.differentiate(y), lambda: graph.differentiate(x, 3),
        lambda: graph.run(device="cpu"), lambda: graph.run(x=data["x"], device="cpu"),
        lambda: graph.run({**data, "v": 1}, device="cpu"), lambda: graph.run({**data, "x": "text"}, device="cpu"),
        lambda: graph.run({**data, "x": data["w"]}, device="cpu"), lambda: graph.run({**data, "x": None}, device="cpu"),
        lambda: graph.run([1], device="cpu"), lambda: graph.run(data, device="tpu"),
        lambda: graph.run(data, device="cpu", level="best"), lambda: graph.run(data, device="cpu", threads=-1),
        lambda: ridge.Graph().cost(), lambda: graph.cost(nonsense=1), lambda: graph.profile(seconds=0, device="cpu"),
        lambda: ridge.parse(3), lambda: ridge.parse("return %9"),
    ]


@pytest.mark.parametrize("index", range(len(wrong_calls())))
def test_wrong_calls_raise(index):
    with pytest.raises((ridge.Error, TypeError, RuntimeError)):
        wrong_calls()[index]()


def test_random_calls_raise_or_answer():
    """A thousand calls of ops with arguments that seldom fit: an exception or a value each."""
    graph, x, w, y, _ = mlp()
    values = [x, w, y, graph.input("ids", (N,), "i32"), graph.input("s", ()), ridge.Graph().input("z", (2,)), None, 3, "x"]
    attributes = ["axis", "einsum", "shape", "begin", "end", "eps", "dtype", "value", "scale", "heads", "kv_heads"]
    contents = [0, -1, 1 << 40, 0.5, "nd,fd->nf", "f32", [1, 2], [], None, True, graph]
    methods = [name for name in dir(graph) if not name.startswith("_")
               and name not in ("run", "cost", "profile", "apply", "optimize", "text", "inputs", "outputs")]
    assert len(methods) > 60
    draw = np.random.default_rng(11)
    raised = 0
    for _ in range(1000):
        method = getattr(graph, methods[draw.integers(len(methods))])
        inputs = [values[i] for i in draw.integers(len(values), size=draw.integers(4))]
        given = {attributes[draw.integers(len(attributes))]: contents[draw.integers(len(contents))]
                 for _ in range(draw.integers(3))}
        try:
            method(*inputs, **given)
        except (ridge.Error, TypeError, RuntimeError):
            raised += 1
    assert 500 < raised < 1000
    graph.text()
