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


def test_operators_are_numpys():
    """Values with values and numbers on either side, with numpy's shapes."""
    shapes = {"a": (4, 3), "b": (3,), "c": (4, 1), "d": (2, 4, 3), "e": ()}
    data = {name: np.asarray(random.uniform(0.5, 2, shape), np.float32) for name, shape in shapes.items()}
    formulas = [
        lambda a, b, c, d, e: a + b, lambda a, b, c, d, e: b - a, lambda a, b, c, d, e: a * c, lambda a, b, c, d, e: a / c,
        lambda a, b, c, d, e: d + a, lambda a, b, c, d, e: b * c, lambda a, b, c, d, e: e * d, lambda a, b, c, d, e: c - e,
        lambda a, b, c, d, e: a * 2, lambda a, b, c, d, e: 2 * a, lambda a, b, c, d, e: a + 1, lambda a, b, c, d, e: 1 - a,
        lambda a, b, c, d, e: a - 0.5, lambda a, b, c, d, e: a / 4, lambda a, b, c, d, e: 3 / a, lambda a, b, c, d, e: -a,
        lambda a, b, c, d, e: +a, lambda a, b, c, d, e: abs(1 - a), lambda a, b, c, d, e: a ** 2,
        lambda a, b, c, d, e: a ** 3, lambda a, b, c, d, e: a ** 0.5, lambda a, b, c, d, e: a ** -1,
        lambda a, b, c, d, e: a ** -0.5, lambda a, b, c, d, e: np.float32(3) * a, lambda a, b, c, d, e: a.T,
        lambda a, b, c, d, e: a.sum(), lambda a, b, c, d, e: d.mean(), lambda a, b, c, d, e: (a + b) * 2 - a / c,
    ]
    for number, formula in enumerate(formulas):
        graph = ridge.Graph()
        values = [graph.input(name, shape) for name, shape in shapes.items()]
        wanted = formula(*data.values())
        made = formula(*values)
        assert made.shape == np.shape(wanted) and made.ndim == np.ndim(wanted), number
        graph.output(made if made.name == "" else graph.copy(made))
        given = {name: data[name] for name in graph.optimize(device="cpu", level="baseline").inputs}
        for level in ("baseline", "compiled"):
            found = graph.run(given, device="cpu", level=level)
            np.testing.assert_allclose(found, wanted, rtol=2e-6, err_msg=str(number))


@pytest.mark.parametrize("left, right", [((4, 3), (3, 5)), ((3,), (3, 5)), ((4, 3), (3,)), ((3,), (3,)), ((2, 4, 3), (3, 5)),
                                         ((2, 4, 3), (2, 3, 5)), ((1, 4, 3), (2, 3, 5)), ((2, 1, 4, 3), (6, 3, 5)),
                                         ((2, 4, 3), (3,))])
def test_products_are_numpys(left, right):
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in (left, right))
    graph = ridge.Graph()
    made = graph.input("a", left) @ graph.input("b", right)
    assert made.shape == np.shape(a @ b)
    graph.output(made)
    for level in ("baseline", "compiled"):
        np.testing.assert_allclose(graph.run(a=a, b=b, device="cpu", level=level), a @ b, rtol=1e-5, atol=1e-5)


def test_a_layer_is_written_as_in_numpy_and_differentiated():
    graph = ridge.Graph()
    x, w, bias = graph.input("x", (N, D)), graph.parameter("w", (F, D)), graph.parameter("bias", (F,))
    y = x @ w.T + bias
    loss = (y ** 2).mean()
    assert loss.shape == ()
    dw, dbias = graph.differentiate(loss, [w, bias])
    graph.output(loss, dw, dbias)
    data = {name: random.standard_normal(shape).astype(np.float32)
            for name, shape in (("x", (N, D)), ("w", (F, D)), ("bias", (F,)))}
    a = data["x"].astype(np.float64) @ data["w"].T + data["bias"]
    da = 2 * a / a.size
    for level in ("baseline", "compiled"):
        found = graph.run(data, device="cpu", level=level)
        np.testing.assert_allclose(found[0], (a ** 2).mean(), rtol=1e-5)
        np.testing.assert_allclose(found[1], da.T @ data["x"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[2], da.sum(0), rtol=1e-4, atol=1e-5)


def test_refused_operators_leave_the_graph_alone():
    graph = ridge.Graph()
    x, i, h = graph.input("x", (4, 3)), graph.input("i", (4, 3), "i32"), graph.input("h", (3,), "bf16")
    other = ridge.Graph().input("z", (4, 3))
    before = graph.text()
    for wrong, kind in [(lambda: x + i, ridge.UsageError), (lambda: i * 2, ridge.UsageError), (lambda: x * h, ridge.UsageError),
                        (lambda: x + graph.input("x5", (5,)), ridge.UsageError), (lambda: x @ x, ridge.UsageError),
                        (lambda: x + other, ridge.UsageError), (lambda: x / 0, ridge.UsageError),
                        (lambda: x ** 5, ridge.UsageError), (lambda: x * float("nan"), ridge.UsageError),
                        (lambda: float("nan") - x, ridge.UsageError), (lambda: float("inf") / x, ridge.UsageError),
                        (lambda: x ** np.array([2.0]), TypeError),
                        (lambda: x + "1", TypeError), (lambda: "1" + x, TypeError), (lambda: x + None, TypeError),
                        (lambda: x + np.ones((4, 3)), TypeError), (lambda: np.ones((4, 3)) * x, TypeError),
                        (lambda: x @ 2, TypeError), (lambda: [1] + x, TypeError), (lambda: x.T.T + i.T, ridge.UsageError)]:
        with pytest.raises(kind) as raised:
            wrong()
        assert str(raised.value)
    with pytest.raises(ridge.UsageError, match=r"broadcast, got f32\[4,3\] and f32\[5\]"):
        x + graph.input("x5", (5,))
    assert before.split("\n")[0] in graph.text() and len(graph) <= 3  # the transposes above


NAMES = {"f32": ["f32", "float32", "fp32", np.float32, np.dtype("float32")], "f16": ["half", "float16", np.float16],
         "bf16": ["bfloat16", "bf16"], "i32": ["int32", np.int32, np.dtype(np.int32)], "f64": ["double", np.float64]}


def test_types_have_the_names_of_other_libraries():
    class Torchs:
        """As torch.float16 shows itself."""

        def __init__(self, name):
            self.name = name

        def __str__(self):
            return f"torch.{self.name}"

    for dtype, names in NAMES.items():
        for index, name in enumerate([*names, Torchs(names[0]) if isinstance(names[0], str) else names[0]]):
            graph = ridge.Graph()
            assert graph.input(f"x{index}", (2,), name).dtype == dtype, name
    graph = ridge.Graph()
    assert graph.cast(graph.input("x", (2,)), dtype=np.float16).dtype == "f16"
    assert graph.fill(shape=[2], value=1.0, dtype="float32").dtype == "f32"
    for wrong in ("f99", None, 3, [], "", b"f32", np.complex64, object()):
        with pytest.raises((ridge.UsageError, TypeError), match="dtype"):
            graph.input("y", (2,), wrong)


def test_devices_have_the_names_of_torch():
    class Device:
        type, index = "cpu", None

        def __str__(self):
            return "cpu"

    graph, _, _, y, data = mlp()
    np.testing.assert_array_equal(graph.run(data, device=Device()), graph.run(data, device="cpu"))
    with pytest.raises(ridge.UsageError, match="CUDA_VISIBLE_DEVICES"):
        graph.run(data, device="cuda:1")
    with pytest.raises(ridge.UsageError, match="int"):
        graph.run(data, device=3)
    try:
        graph.run(data, device="cuda:0")
    except ridge.Error as error:
        assert "cuda" in str(error).lower() or "GPU" in str(error)  # there is none


def test_a_plan_has_the_memory():
    """Two lookups of 64 x 64 floats in a row, without a workspace on any processor: both outputs live while the second runs, and
    the inputs are stored."""
    graph = ridge.Graph()
    x, ids = graph.input("x", (64, 64)), graph.input("ids", (64,), "i32")
    graph.output(graph.embedding(graph.embedding(x, ids), ids))
    plan = graph.plan(device="cpu")
    memory, cost = plan.data["memory"], graph.cost(device="cpu")
    size, stored = 64 * 64 * 4, 64 * 64 * 4 + 64 * 4
    assert plan.data["flops"] == cost.flops and plan.data["bytes"] == cost.bytes
    assert memory["arena_bytes"] == cost.arena_bytes == 2 * size and memory["store_bytes"]["data"] == stored
    assert memory["owned_bytes"] == stored + 2 * size == cost.owned_bytes
    assert [point["op"] for point in memory["timeline"]] == ["embedding", "embedding"]
    assert [point["total_bytes"] for point in memory["timeline"]] == [stored + size, stored + 2 * size]
    assert memory["peak_at"]["node"] == 1 and memory["live_peak_bytes"] == stored + 2 * size
    assert [each["bytes"] for each in memory["tensors_at_peak"]] == [size, size, size, stored - size]
    first, second = sorted(memory["buffers"], key=lambda each: each["first"])
    assert {first["offset"], second["offset"]} == {0, size} and (first["last"], second["first"]) == (1, 1)
    assert plan.picture.startswith("<svg") and "activations" in plan.text and "embedding" in plan.text
    chain = ridge.Graph()
    chain.output(chain.exp(chain.silu(chain.input("x", (64, 64)))))
    assert chain.plan(device="cpu").data["memory"]["arena_bytes"] == size  # in place
    assert chain.plan(device="cpu", level="compiled").data["launches"] == 1


def test_what_is_returned_shows_itself():
    graph, *_ = mlp()
    cost, measured = graph.cost(device="cpu"), graph.profile(device="cpu", seconds=0.02)
    assert repr(graph) == "<ridge.Graph: 2 nodes, x f32[6,8], w f32[5,8]>"
    assert "matmul" in str(cost) and "ridge.Cost" in repr(cost) and "ridge.Measurement" in repr(measured)
    for each in (graph, cost, measured, graph.plan(device="cpu")):
        page = each._repr_html_()
        assert page.startswith("<div><pre") and page.endswith("</div>") and "<script" not in page


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
        lambda: graph.silu(x, nonsense=1), lambda: graph.add(x, other), lambda: graph.silu("x"), lambda: x + "3",
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
