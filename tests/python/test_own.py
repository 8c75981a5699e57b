# SPDX-License-Identifier: Apache-2.0
"""Passes and kernels of one's own: verified, costed, timed."""
import numpy as np
import pytest
import ridge

SILU = """
%0 = input f32[4,8] "x"
%1 : f32[4,8] = sigmoid(%0) #forward
%2 : f32[4,8] = mul(%0, %1) #forward
return %2
"""


def silu():
    graph = ridge.Graph()
    graph.output(graph.silu(graph.input("x", (4, 8))))
    return graph


def gated(rows, columns):
    """x * sigmoid(x) * u, and its value in numpy."""
    graph = ridge.Graph()
    x, u = graph.input("x", (rows, columns)), graph.input("u", (rows, columns))
    graph.output(graph.sigmoid(x) * x * u)
    draw = np.random.default_rng(3)
    data = {"x": draw.standard_normal((rows, columns), np.float32), "u": draw.standard_normal((rows, columns), np.float32)}
    return graph, data, data["x"] / (1 + np.exp(-data["x"])) * data["u"]


def test_a_rule_rewrites_and_costs_less():
    rule = ridge.Pass("one_silu", SILU, silu())
    assert rule.error < 1e-12 and rule.name == "one_silu"
    graph, data, wanted = gated(16, 32)
    assert rule.matches(graph) == 1  # operands of a product may be swapped
    made = graph.apply(rule, device="cpu")
    assert len(graph) == 3 and len(made) == 2 and "silu" in made.text()
    np.testing.assert_allclose(made.run(data, device="cpu"), wanted, atol=1e-5)
    before, after = graph.cost(device="cpu"), made.cost(device="cpu")
    assert after.bytes < before.bytes and after.launches == before.launches - 1
    assert rule.matches(made) == 0


def test_values_that_others_read_stay():
    rule = ridge.Pass("one_silu", SILU, silu())
    graph = ridge.Graph()
    x = graph.input("x", (4, 8))
    s = graph.sigmoid(x)
    graph.output(x * s, s)
    made = graph.apply(rule, device="cpu")
    assert sorted(row["op"] for row in made.cost(device="cpu").nodes) == ["sigmoid", "silu"]


def test_a_rule_of_products():
    """(a b) c = a (b c): fewer FLOPs where c is narrow."""
    def left(n):
        g = ridge.Graph()
        a, b, c = g.input("a", (n, n)), g.input("b", (n, n)), g.input("c", (n, 1))
        g.output(g.matmul(g.matmul(a, b, einsum="ij,jk->ik"), c, einsum="ik,kl->il"))
        return g

    right = ridge.Graph()
    a, b, c = right.input("a", (4, 4)), right.input("b", (4, 4)), right.input("c", (4, 1))
    right.output(right.matmul(a, right.matmul(b, c, einsum="ik,kl->il"), einsum="ij,jk->ik"))
    rule = ridge.Pass("associate", left(4), right)
    wide = left(64)
    made = wide.apply(rule, device="cpu")
    assert wide.cost(device="cpu").macs == 64**3 + 64**2 and made.cost(device="cpu").macs == 2 * 64**2
    data = {name: np.random.default_rng(1).standard_normal(shape, np.float32)
            for name, shape in [("a", (64, 64)), ("b", (64, 64)), ("c", (64, 1))]}
    np.testing.assert_allclose(made.run(data, device="cpu"), wide.run(data, device="cpu"), atol=1e-3)


def test_rules_that_lie_are_refused():
    other = ridge.Graph()
    other.output(other.tanh(other.input("x", (4, 8))))
    two = ridge.Graph()
    x = two.input("x", (4, 8))
    two.output(two.exp(x), two.neg(x))
    narrow = ridge.Graph()
    narrow.output(narrow.silu(narrow.input("x", (4, 4))))
    foreign = ridge.Graph()
    foreign.output(foreign.input("x", (4, 8)) + foreign.input("y", (4, 8)))
    for replacement in (other, two, narrow, foreign, "nonsense", 3, None, ridge.Graph()):
        with pytest.raises((ridge.UsageError, TypeError)):
            ridge.Pass("wrong", SILU, replacement)
    for pattern in (two, "", 3, ridge.Graph()):
        with pytest.raises((ridge.UsageError, TypeError)):
            ridge.Pass("wrong", pattern, silu())
    near = ridge.Graph()
    near.output(near.scale(near.silu(near.input("x", (4, 8))), parameter=1.001))
    with pytest.raises(ridge.UsageError, match="differs"):
        ridge.Pass("near", SILU, near)
    assert 1e-4 < ridge.Pass("near", SILU, near, tolerance=1e-2).error < 1e-2
    with pytest.raises(ridge.UsageError):
        silu().apply(3, device="cpu")


SOURCE = """
extern "C" void my_silu(const Tensor* in, const Tensor* out) {
  const float* x = in[0].as();
  float* y = out[0].as();
  const int64_t n = in[0].elements();
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1 + std::exp(-x[i]));
}
"""


def test_a_kernel_in_cpp():
    kernel = ridge.kernel("my_silu", SOURCE, like="silu", shapes=[(64, 48)])
    assert 0 < kernel.error < 1e-6
    report = kernel.profile(seconds=0.02)
    ours, own = report.data["cases"]
    assert ours["form"] == "ridge" and own["form"] == "my_silu" and ours["flops"] == own["flops"]
    assert "my_silu" in report.text and report.page().startswith("<!") and "<svg" in report._repr_html_()
    with pytest.raises(ridge.UsageError, match="differs"):
        ridge.kernel("my_silu", SOURCE.replace("1 + std", "1.01f + std"), like="silu", shapes=[(64, 48)])
    with pytest.raises(ridge.UsageError, match="differs"):  # the last element is never written
        ridge.kernel("my_silu", SOURCE.replace("i < n", "i + 1 < n"), like="silu", shapes=[(64, 48)])
    with pytest.raises(ridge.UsageError, match="compile"):
        ridge.kernel("my_silu", "void f( {", like="silu", shapes=[(64, 48)])
    with pytest.raises(ridge.UsageError, match="extern"):
        ridge.kernel("other", SOURCE, like="silu", shapes=[(64, 48)])


def test_a_kernel_in_python():
    def mine(x, w):
        return x @ w.T

    kernel = ridge.kernel("mine", mine, like="matmul", shapes=[(8, 16), (4, 16)], einsum="nd,fd->nf")
    assert kernel.error < 1e-5 and "mine" in repr(kernel)
    assert kernel.profile(seconds=0.01).data["cases"]
    rows = ridge.kernel("rows", lambda table, ids: table[ids], like="embedding", shapes=[(10, 4), (3,)],
                        dtype=["f32", "i32"])
    assert rows.error == 0
    for source in (lambda x, w: x, lambda x: x, lambda x, w: (x, w), 3, None, lambda x, w: 1 / 0):
        with pytest.raises((ridge.Error, TypeError, ValueError, ZeroDivisionError)):
            ridge.kernel("wrong", source, like="matmul", shapes=[(8, 16), (4, 16)], einsum="nd,fd->nf")
    for options in ({"like": "nothing"}, {"shapes": [(8,)]}, {"dtype": "q4_0"}, {"dtype": ["f32"]}, {"nonsense": 1}):
        with pytest.raises(ridge.Error):
            ridge.kernel("wrong", mine, **{"like": "matmul", "shapes": [(8, 16), (4, 16)], "einsum": "nd,fd->nf", **options})


CUDA = """
extern "C" __global__ void cuda_silu(Tensor x, Tensor y) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < x.elements()) y.as()[i] = x.as()[i] / (1 + expf(-x.as()[i]));
}
"""


def cuda_kernel(source=CUDA, **options):
    return ridge.kernel("cuda_silu", source, like="silu", shapes=[(64, 48)], **options)


def needs_nvrtc():
    """Skips where CUDA C++ cannot be compiled; a GPU is not needed for the compiler's messages."""
    try:
        cuda_kernel(CUDA.replace("expf", "nothing"))
    except ridge.DeviceError as error:
        pytest.skip(str(error))
    except ridge.UsageError:
        pass


def test_cuda_does_not_compile():
    needs_nvrtc()
    with pytest.raises(ridge.UsageError, match=r"cuda_silu.cu\(4\): error: identifier .nothing. is undefined"):
        cuda_kernel(CUDA.replace("expf", "nothing"))
    for options in ({"block": 2048}, {"block": (32, 32, 2)}, {"block": []}, {"grid": 0}, {"grid": (1, 1, 1, 1)}, {"grid": (1, 1 << 20)},
                    {"shared_bytes": -1}, {"shared_bytes": 1 << 30}):
        with pytest.raises(ridge.UsageError, match="block|grid|shared_bytes"):
            cuda_kernel(**options)
    for options in ({"block": "text"}, {"grid": [None]}, {"shared_bytes": None}):
        with pytest.raises((TypeError, ridge.Error)):
            cuda_kernel(**options)


def test_a_kernel_in_cuda():
    needs_nvrtc()
    try:
        kernel = cuda_kernel()
    except ridge.DeviceError as error:
        pytest.skip(str(error))
    assert 0 < kernel.error < 1e-6
    ours, own = kernel.profile(seconds=0.02).data["cases"]
    assert ours["form"] == "ridge" and own["form"] == "cuda_silu" and ours["flops"] == own["flops"]
    for source in (CUDA.replace("1 + expf", "1.01f + expf"), CUDA.replace("Tensor y)", "Tensor y, Tensor z)"),
                   CUDA.replace('extern "C"', "")):
        with pytest.raises(ridge.UsageError, match="differs|parameters|expected a function"):
            cuda_kernel(source)
    with pytest.raises(ridge.UsageError, match="differs"):  # the last block is missing
        cuda_kernel(grid=11)
    with pytest.raises(ridge.UsageError, match="device"):
        kernel.profile(device="cpu")
