# SPDX-License-Identifier: Apache-2.0
"""A module of PyTorch as a graph of Ridge."""
import math
from collections.abc import Callable, Sequence
from typing import Any

from ridge._ridge import Graph, Value
from ridge.errors import UsageError
from ridge.torch_export import Program, Ref, Row, exported_program

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NAMES = {"aten.neg": "neg", "aten.exp": "exp", "aten.log": "log", "aten.tanh": "tanh", "aten.sqrt": "sqrt",
          "aten.rsqrt": "rsqrt", "aten.reciprocal": "reciprocal", "aten.sigmoid": "sigmoid", "aten.sin": "sin",
          "aten.cos": "cos", "aten.abs": "abs", "aten.relu": "relu", "aten.silu": "silu", "aten.square": "square"}
_SAME = frozenset(["aten.alias", "aten.clone", "aten.contiguous", "aten.detach", "aten.dropout", "aten.lift_fresh_copy",
                   "aten._assert_tensor_metadata", "aten.feature_dropout", "aten.to", "aten._to_copy"])


class TorchGraph:
    """A module of PyTorch as a graph, made by `ridge.from_torch`. `graph` has an input for each tensor of the example,
    named as the module's `forward` names it, and a parameter for each of the module's; `values` has the arrays of
    parameters and constants by name; `inputs` and `outputs` are the graph's values."""

    def __init__(self, program: Program) -> None:
        self.graph = Graph()
        builder = _Builder(self.graph, program)
        self.inputs: list[Value] = [builder.values[name] for name in program.inputs]
        self.parameters: list[Value] = [builder.values[name] for name in program.parameters]
        self.outputs: list[Value] = builder.build()
        self.graph.output(*self.outputs)
        read = set(self.graph.inputs)
        self.values: dict[str, Any] = {name: each for name, each in program.values.items() if name in read}

    def run(self, *tensors: Any, **options: Any) -> Any:
        """The outputs for these inputs, in the order of the example. Options as those of `Graph.run`."""
        if len(tensors) != len(self.inputs):
            raise UsageError(f"[run] expected {len(self.inputs)} inputs, got {len(tensors)}")
        given = {value.name: _plain(tensor) for value, tensor in zip(self.inputs, tensors)}
        return self.graph.run({**self.values, **given}, **options)

    def _repr_html_(self) -> str:
        return self.graph._repr_html_()

    def __repr__(self) -> str:
        return f"<ridge.TorchGraph: {len(self.graph)} nodes, {len(self.parameters)} parameters>"


def _plain(tensor: Any) -> Any:
    return tensor.detach() if hasattr(tensor, "detach") else tensor


class _Builder:
    """Adds a row at a time. Each operator that is known is a method or a name of _NAMES."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self.graph = graph
        self.program = program
        self.values: dict[str, Value] = {}
        self.parts: dict[str, Sequence[Value]] = {}  # results of operators with several
        for name, (shape, dtype) in program.inputs.items():
            self.values[name] = graph.input(name, shape, dtype)
        for name, (shape, dtype) in program.parameters.items():
            self.values[name] = graph.parameter(name, shape, dtype)

    def build(self) -> list[Value]:
        unknown = sorted({f"{row.op} ({row.name})" for row in self.program.rows if row.op not in KNOWN})
        if unknown:
            raise UsageError(f"[from_torch] expected operators that Ridge has, got {', '.join(unknown)}")
        for row in self.program.rows:
            try:
                made = self._call(row)
            except UsageError as error:
                raise UsageError(f"[from_torch] {row.op} ({row.name}): {error}") from error
            if isinstance(made, Value):
                self.values[row.name] = made
            else:
                self.parts[row.name] = made
        return [self.value(each) for each in self.program.outputs]

    def _call(self, row: Row) -> Any:
        arguments = row.arguments
        if row.op in _SAME:
            return self._cast(self.value(next(iter(arguments.values()))), row.results[0][1])
        if row.op in _NAMES:
            return getattr(self.graph, _NAMES[row.op])(self.value(arguments["self"]))
        return _OPERATORS[row.op](self, row, arguments)

    def value(self, given: Any) -> Value:
        """A value of the graph: of a row, an input, a parameter, or a constant, which becomes a parameter."""
        if isinstance(given, Ref):
            if given.name not in self.values and given.name in self.program.values:
                array = self.program.values[given.name]
                dtype = "f32" if array.dtype.kind == "f" else "i32"
                self.values[given.name] = self.graph.parameter(given.name, array.shape, dtype)
            if given.name in self.values:
                return self.values[given.name]
        raise UsageError(f"expected a tensor, got {given}")

    def constant(self, name: str, array: Any) -> Value:
        """A constant that no row of the program has."""
        self.program.values[name] = array
        value = self.graph.parameter(name, array.shape, "f32")
        return value

    def array(self, given: Any) -> Any:
        """The array of a constant, or None for another value."""
        return self.program.values.get(given.name) if isinstance(given, Ref) and given.name not in self.values else None

    def _cast(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else self.graph.cast(value, dtype=dtype)

    def shaped(self, value: Value, shape: Sequence[int]) -> Value:
        same = tuple(shape) == tuple(value.shape)
        return value if same else self.graph.reshape(value, shape=list(shape))

    def expanded(self, value: Value, shape: Sequence[int]) -> Value:
        """The value repeated to a shape, by the rules of broadcasting."""
        value = self.shaped(value, [1] * (len(shape) - len(value.shape)) + list(value.shape))
        same = tuple(value.shape) == tuple(shape)
        return value if same else self.graph.broadcast(value, shape=list(shape))

    def pair(self, op: str, a: Any, b: Any) -> Value:
        """A function of two tensors that are broadcast together."""
        x, y = self.value(a), self.value(b)
        dtype = x.dtype if x.dtype == y.dtype or len(y.shape) == 0 else "f32"
        rank = max(len(x.shape), len(y.shape))
        extents = [([1] * (rank - len(each.shape)) + list(each.shape)) for each in (x, y)]
        shape = [max(m, n) if 0 not in (m, n) else 0 for m, n in zip(*extents)]
        x, y = (self.expanded(self._cast(each, dtype), shape) for each in (x, y))
        made: Value = getattr(self.graph, op)(x, y)
        return made

    def scaled(self, value: Value, factor: float) -> Value:
        return value if factor == 1 else self.graph.scale(value, parameter=float(factor))

    def shifted(self, value: Value, term: float) -> Value:
        return value if term == 0 else self.graph.add_scalar(value, parameter=float(term))

    def product(self, a: Value, b: Value) -> Value:
        """torch.matmul: batches are broadcast, a vector has no axis of its own in the result."""
        m, k, n = "m", "k", "n"
        x, y = len(a.shape), len(b.shape)
        rows = m if x > 1 else ""
        columns = n if y > 1 else ""
        rank = max(x, y) - 2
        batch = _LETTERS[:max(rank, 0)]
        if x > 2 and y > 2:
            shape = [max(i, j) for i, j in zip(_lead(a, rank), _lead(b, rank))]
            a = self.expanded(a, shape + list(a.shape[-2:]))
            b = self.expanded(b, shape + list(b.shape[-2:]))
        left = (batch if len(a.shape) > 2 else "") + rows + k
        right = (batch if len(b.shape) > 2 else "") + k + columns
        made: Value = self.graph.matmul(a, b, einsum=f"{left},{right}->{batch}{rows}{columns}")
        return made

    def sum(self, value: Value, axes: Sequence[int], keep: bool) -> Value:
        made = self.graph.reduce_sum(value, axes=list(axes))
        shape = [n for i, n in enumerate(made.shape) if i not in axes]
        return made if keep else self.shaped(made, shape)

    def rows(self, value: Value) -> Value:
        return self.shaped(value, [math.prod(value.shape[:-1]), value.shape[-1]])


def _lead(value: Value, rank: int) -> list[int]:
    return [1] * (rank + 2 - len(value.shape)) + list(value.shape[:-2])


def _axes(value: Value, given: Any) -> list[int]:
    axes = range(len(value.shape)) if given in (None, []) else [given] if isinstance(given, int) else given
    return sorted(axis % len(value.shape) for axis in axes)


_OPERATORS: dict[str, Callable[[_Builder, Row, dict[str, Any]], Any]] = {}


def _operator(*names: str) -> Callable[[Callable[[_Builder, Row, dict[str, Any]], Any]], Any]:
    def add(function: Callable[[_Builder, Row, dict[str, Any]], Any]) -> Any:
        _OPERATORS.update({name: function for name in names})
        return function
    return add


@_operator("getitem")
def _getitem(b: _Builder, _: Row, a: dict[str, Any]) -> Any:
    return b.parts[a["0"].name][a["1"]]


def _number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


@_operator("aten.add", "aten.sub", "aten.rsub")
def _sum(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    x, y, alpha = a["self"], a["other"], float(a.get("alpha", 1))
    if row.op == "aten.rsub":
        x, y = y, x
        if alpha != 1:
            raise UsageError("expected alpha=1")
    sign = 1.0 if row.op == "aten.add" else -1.0
    if _number(y):
        return b.shifted(b.value(x), sign * alpha * y)
    if _number(x):
        return b.shifted(b.scaled(b.value(y), sign), float(x))
    if alpha != 1:
        b.values[f"{row.name}.scaled"] = b.scaled(b.value(y), alpha)
        y = Ref(f"{row.name}.scaled")
    return b.pair("add" if sign > 0 else "sub", x, y)


@_operator("aten.mul", "aten.div")
def _factor(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    x, y = a["self"], a["other"]
    is_product = row.op == "aten.mul"
    if a.get("rounding_mode") is not None:
        raise UsageError("expected no rounding_mode")
    if _number(y):
        return b.scaled(b.value(x), float(y) if is_product else 1 / float(y))
    if _number(x) and is_product:
        return b.scaled(b.value(y), float(x))
    return b.pair("mul" if is_product else "div", x, y)


@_operator("aten.maximum", "aten.minimum")
def _choice(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    return b.pair("max" if row.op == "aten.maximum" else "min", a["self"], a["other"])


@_operator("aten.pow")
def _power(b: _Builder, _: Row, a: dict[str, Any]) -> Any:
    x, power = b.value(a["self"]), a["exponent"]
    g = b.graph
    if power in (0.5, -0.5, -1):
        return {0.5: g.sqrt, -0.5: g.rsqrt, -1: g.reciprocal}[power](x)
    if not _number(power) or power != int(power) or not 1 <= power <= 16:
        raise UsageError(f"expected an exponent of 1 to 16, 0.5, -0.5 or -1, got {power}")
    made = None
    for bit in bin(int(power))[2:]:
        made = None if made is None else g.square(made)
        if bit == "1":
            made = x if made is None else made * x
    return made


@_operator("aten.gelu")
def _gelu(b: _Builder, _: Row, a: dict[str, Any]) -> Any:
    if a.get("approximate", "none") != "tanh":
        raise UsageError("expected approximate='tanh', Ridge has no error function")
    return b.graph.gelu_tanh(b.value(a["self"]))


@_operator("aten.linear")
def _linear(b: _Builder, _: Row, a: dict[str, Any]) -> Value:
    x, w = b.value(a["input"]), b.value(a["weight"])
    made = b.graph.matmul(b.rows(x), w, einsum="nd,fd->nf")
    if a.get("bias") is not None:
        made = made + b.expanded(b.value(a["bias"]), made.shape)
    return b.shaped(made, [*x.shape[:-1], w.shape[0]])


@_operator("aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.dot")
def _matmul(b: _Builder, _: Row, a: dict[str, Any]) -> Value:
    x, y = (b.value(each) for each in list(a.values())[:2])
    if len(x.shape) == 1 and len(y.shape) == 1:
        return b.sum(x * y, [0], False)
    return b.product(x, y)


@_operator("aten.addmm", "aten.baddbmm")
def _addmm(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    names = ("mat1", "mat2") if row.op == "aten.addmm" else ("batch1", "batch2")
    made = b.scaled(b.product(b.value(a[names[0]]), b.value(a[names[1]])), a.get("alpha", 1))
    return made + b.expanded(b.scaled(b.value(a["self"]), a.get("beta", 1)), made.shape)


@_operator("aten.einsum")
def _einsum(b: _Builder, _: Row, a: dict[str, Any]) -> Any:
    equation = a["equation"].replace(" ", "")
    if "->" not in equation or "." in equation:
        raise UsageError(f"expected letters and an arrow, got {equation}")
    return b.graph.einsum(*(b.value(each) for each in a["tensors"]), einsum=equation)


@_operator("aten.sum", "aten.mean")
def _reduce(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    x = b.value(a["self"])
    axes = _axes(x, a.get("dim"))
    count = math.prod(x.shape[axis] for axis in axes)
    return b.scaled(b.sum(x, axes, bool(a.get("keepdim"))), 1 if row.op == "aten.sum" else 1 / count)


@_operator("aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax")
def _softmax(b: _Builder, row: Row, a: dict[str, Any]) -> Any:
    x = b.value(a["self"])
    if a["dim"] % len(x.shape) != len(x.shape) - 1:
        raise UsageError(f"expected the last axis, got {a['dim']}")
    if "log" not in row.op:
        return b.graph.softmax(x)
    return b.shaped(b.graph.log_softmax(b.rows(x)), x.shape)


@_operator("aten.layer_norm", "aten.rms_norm")
def _norm(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    x, g = b.value(a["input"]), b.graph
    if len(a["normalized_shape"]) != 1:
        raise UsageError(f"expected the last axis, got {a['normalized_shape']}")
    is_layer = row.op == "aten.layer_norm"
    eps = 1.1920928955078125e-07 if a.get("eps") is None else float(a["eps"])
    axis, width = len(x.shape) - 1, x.shape[-1]

    def mean(value: Value) -> Value:
        return b.scaled(b.sum(value, [axis], True), 1 / width)

    if is_layer:
        x = x - b.expanded(mean(x), x.shape)
    made = x * b.expanded(g.rsqrt(b.shifted(mean(g.square(x)), eps)), x.shape)
    if a.get("weight") is not None:
        made = made * b.expanded(b.value(a["weight"]), x.shape)
    if a.get("bias") is not None:
        made = made + b.expanded(b.value(a["bias"]), x.shape)
    return made


@_operator("aten.masked_fill", "aten.where")
def _select(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    """Where a constant mask holds, a constant; elsewhere a value: a product with a constant and a sum."""
    import numpy

    if row.op == "aten.where":
        mask, fill, x = b.array(a["condition"]), a["self"], a["other"]
        if mask is not None and not _number(fill) and b.array(fill) is None:
            mask, fill, x = 1 - mask, x, fill
    else:
        mask, fill, x = b.array(a["mask"]), a["value"], a["self"]
    filled = numpy.float32(fill) if _number(fill) else b.array(fill)
    if mask is None or filled is None:
        raise UsageError("expected a mask and a value that depend on no input")
    shape, holds = row.results[0][0], mask.astype(bool)
    y = b.constant(f"{row.name}.fill", numpy.where(holds, filled, numpy.float32(0)).astype(numpy.float32))
    value = b.expanded(b.value(x), shape)
    if not numpy.isneginf(filled).all():  # minus infinity stays what it is
        value = value * b.expanded(b.constant(f"{row.name}.kept", (~holds).astype(numpy.float32)), shape)
    return value + b.expanded(y, shape)


@_operator("aten.scaled_dot_product_attention")
def _attention(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    import numpy

    q, k, v = (b.value(a[each]) for each in ("query", "key", "value"))
    if a.get("dropout_p"):
        raise UsageError("expected no dropout")
    if a.get("enable_gqa"):
        k, v = (_repeated(b, each, q.shape[-3] // each.shape[-3]) for each in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if a.get("scale") is None else float(a["scale"])
    turned = b.graph.transpose(k, permutation=[*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2])
    scores = b.scaled(b.product(q, turned), scale)
    if a.get("is_causal"):
        mask = numpy.triu(numpy.full(scores.shape[-2:], -numpy.inf, numpy.float32), 1)
        scores = scores + b.expanded(b.constant(f"{row.name}.mask", mask), scores.shape)
    if a.get("attn_mask") is not None:
        mask = b.array(a["attn_mask"])
        if mask is not None and mask.dtype.kind != "f":
            mask = numpy.where(mask.astype(bool), numpy.float32(0), numpy.float32(-numpy.inf))
        value = b.value(a["attn_mask"]) if mask is None else b.constant(f"{row.name}.mask", mask)
        scores = scores + b.expanded(value, scores.shape)
    return b.product(b.graph.softmax(scores), v)


def _repeated(b: _Builder, x: Value, times: int) -> Value:
    """Each head `times` times in a row."""
    if times == 1:
        return x
    shape = list(x.shape)
    wide = b.shaped(x, [*shape[:-2], 1, *shape[-2:]])
    wide = b.expanded(wide, [*shape[:-2], times, *shape[-2:]])
    return b.shaped(b.graph.copy(wide), [*shape[:-3], shape[-3] * times, *shape[-2:]])


@_operator("aten.repeat_interleave")
def _repeat_interleave(b: _Builder, _: Row, a: dict[str, Any]) -> Value:
    x, axis = b.value(a["self"]), a.get("dim")
    if not isinstance(a.get("repeats"), int) or axis is None:
        raise UsageError("expected a number of repeats and an axis")
    axis, times, shape = axis % len(x.shape), a["repeats"], list(x.shape)
    wide = b.expanded(b.shaped(x, [*shape[:axis + 1], 1, *shape[axis + 1:]]), [*shape[:axis + 1], times, *shape[axis + 1:]])
    return b.shaped(b.graph.copy(wide), [*shape[:axis], shape[axis] * times, *shape[axis + 1:]])


@_operator("aten.cross_entropy_loss")
def _cross_entropy(b: _Builder, _: Row, a: dict[str, Any]) -> Any:
    if a.get("weight") is not None or a.get("label_smoothing") or a.get("reduction", 1) != 1:
        raise UsageError("expected the mean over labels, without weights and smoothing")
    return b.graph.softmax_cross_entropy(b.value(a["self"]), b.value(a["target"]))[0]


@_operator("aten.embedding")
def _embedding(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    ids = b.value(a["indices"])
    made = b.graph.embedding(b.value(a["weight"]), b.shaped(ids, [math.prod(ids.shape)]))
    return b.shaped(made, row.results[0][0])


@_operator("aten.view", "aten.reshape", "aten._unsafe_view", "aten.flatten", "aten.unflatten", "aten.unsqueeze",
           "aten.squeeze")
def _reshape(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    return b.shaped(b.value(a["self"]), row.results[0][0])


@_operator("aten.expand", "aten.expand_as", "aten.broadcast_to")
def _expand(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    return b.expanded(b.value(a["self"]), row.results[0][0])


@_operator("aten.permute", "aten.transpose", "aten.t", "aten.mT", "aten.numpy_T")
def _transpose(b: _Builder, row: Row, a: dict[str, Any]) -> Any:
    x = b.value(a["self"])
    order = list(range(len(x.shape)))
    if row.op == "aten.permute":
        order = [axis % len(order) for axis in a["dims"]]
    else:
        i, j = (a["dim0"] % len(order), a["dim1"] % len(order)) if "dim0" in a else (-2, -1)
        if len(order) > 1:
            order[i], order[j] = order[j], order[i]
    return b.graph.transpose(x, permutation=order)


def _sliced(b: _Builder, x: Value, axis: int, begin: int, end: int) -> Value:
    whole = begin == 0 and end == x.shape[axis]
    return x if whole else b.graph.slice(x, axis=axis, begin=begin, end=end)


@_operator("aten.slice")
def _slice(b: _Builder, _: Row, a: dict[str, Any]) -> Value:
    x, axis = b.value(a["self"]), a["dim"] % len(b.value(a["self"]).shape)
    begin, end, step = slice(a.get("start"), a.get("end"), a.get("step", 1)).indices(x.shape[axis])
    if step != 1:
        raise UsageError(f"expected a step of 1, got {step}")
    return _sliced(b, x, axis, begin, end)


@_operator("aten.select", "aten.narrow")
def _part(b: _Builder, row: Row, a: dict[str, Any]) -> Value:
    x, axis = b.value(a["self"]), a["dim"] % len(b.value(a["self"]).shape)
    begin = a["index" if row.op == "aten.select" else "start"] % x.shape[axis]
    return b.shaped(_sliced(b, x, axis, begin, begin + a.get("length", 1)), row.results[0][0])


@_operator("aten.split", "aten.split_with_sizes", "aten.chunk", "aten.unbind", "aten.tensor_split")
def _split(b: _Builder, row: Row, a: dict[str, Any]) -> list[Value]:
    x, axis = b.value(a["self"]), a.get("dim", 0) % len(b.value(a["self"]).shape)
    parts, begin = [], 0
    for shape, _ in row.results:
        count = 1 if row.op == "aten.unbind" else shape[axis]
        parts.append(b.shaped(_sliced(b, x, axis, begin, begin + count), shape))
        begin += count
    return parts


@_operator("aten.cat", "aten.concat", "aten.stack")
def _concat(b: _Builder, row: Row, a: dict[str, Any]) -> Any:
    values = [b.value(each) for each in a["tensors"]]
    axis = a.get("dim", 0) % len(row.results[0][0])
    if row.op == "aten.stack":
        values = [b.shaped(each, [*each.shape[:axis], 1, *each.shape[axis:]]) for each in values]
    return b.graph.concat(*values, axis=axis)


KNOWN = frozenset(_OPERATORS) | frozenset(_NAMES) | _SAME


def from_torch(module: Any, example: Any) -> TorchGraph:
    """A module of PyTorch as a graph. example: a tensor or a tuple of tensors for the module's `forward`; their shapes
    are the graph's. The module is exported by torch.export in its present mode: call `.eval()` first to leave dropout
    out. What depends on no input and no parameter is computed once and becomes a constant.

    Raises UsageError that names every operator that Ridge has not, and ImportError without torch."""
    examples = example if isinstance(example, tuple) else (example,)
    return TorchGraph(exported_program(module, examples, KNOWN))
