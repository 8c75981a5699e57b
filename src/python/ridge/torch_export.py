# SPDX-License-Identifier: Apache-2.0
"""Reads a module of PyTorch through torch.export as plain rows. Knows no graph of Ridge; torch_graph.py builds that."""
import dataclasses
from typing import Any

from ridge.errors import UsageError

DTYPES = {"float32": "f32", "float64": "f32", "bfloat16": "bf16", "float16": "f16", "int64": "i32", "int32": "i32",
          "int16": "i32", "int8": "i32", "uint8": "i32", "bool": "i32"}


@dataclasses.dataclass(frozen=True)
class Ref:
    """The result of a row, or an input, parameter or constant, by its name."""
    name: str


@dataclasses.dataclass
class Row:
    """A call of an operator: 'aten.linear', its arguments by name, and the shapes and types of its results."""
    name: str
    op: str
    arguments: dict[str, Any]
    results: list[tuple[list[int], str]]


@dataclasses.dataclass
class Program:
    """A module: inputs and parameters as name -> (shape, type), the values of parameters and constants as arrays of
    numpy, the calls in their order, and its outputs."""
    inputs: dict[str, tuple[list[int], str]]
    parameters: dict[str, tuple[list[int], str]]
    values: dict[str, Any]
    rows: list[Row]
    outputs: list[Any]


def _type(tensor: Any) -> tuple[list[int], str]:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise UsageError(f"[from_torch] expected floats or ints, got a tensor of {name}")
    shape = [each for each in tensor.shape]
    if not all(isinstance(each, int) for each in shape):
        raise UsageError(f"[from_torch] expected a static shape, got {shape}")
    return shape, DTYPES[name]


def _result(value: Any) -> tuple[list[int], str]:
    """The type of a result; of one that no graph of Ridge can have, so that its operator is named, an empty one."""
    try:
        return _type(value)
    except (UsageError, AttributeError):
        return [], ""


def _array(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach().cpu()
    is_float = tensor.dtype.is_floating_point
    return tensor.to(torch.float32 if is_float else torch.int32).contiguous().numpy()


def _fake(value: Any) -> Any:
    return value.meta.get("val")


class _Reader:
    """Turns the nodes of an exported program into rows. What depends on no input and no parameter is computed here."""

    def __init__(self, exported: Any) -> None:
        self.exported = exported
        self.program = Program({}, {}, {}, [], [])
        self.constants: dict[str, Any] = {}  # tensors and numbers by the name of their node

    def read(self) -> Program:
        self._declare()
        for node in self.exported.graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self.program.outputs = [self._argument(each) for each in node.args[0]]
            elif node.op != "placeholder":
                raise UsageError(f"[from_torch] expected calls of operators, got {node.op} {node.name}")
        return self.program

    def _declare(self) -> None:
        signature = self.exported.graph_signature
        for each in signature.output_specs:
            if each.kind.name != "USER_OUTPUT":
                raise UsageError(f"[from_torch] expected a module without effects, it changes {each.target}")
        nodes = {node.name: node for node in self.exported.graph.nodes if node.op == "placeholder"}
        for each in signature.input_specs:
            name, kind = each.arg.name, each.kind.name
            if kind == "USER_INPUT":
                if _fake(nodes[name]) is None or not hasattr(_fake(nodes[name]), "shape"):
                    self.constants[name] = getattr(each.arg, "value", None)  # a number or None
                else:
                    self.program.inputs[name] = _type(_fake(nodes[name]))
            elif kind == "PARAMETER":
                tensor = self.exported.state_dict[each.target]
                self.program.parameters[name] = _type(tensor)
                self.program.values[name] = _array(tensor)
            else:
                buffers = {**self.exported.constants, **self.exported.state_dict}
                self.constants[name] = buffers[each.target]

    def _constant(self, value: Any) -> Any:
        """The argument with the values of constants in the place of nodes, or KeyError."""
        import torch

        return torch.fx.node.map_arg(value, lambda node: self.constants[node.name])

    def _call(self, node: Any) -> None:
        try:
            args, kwargs = self._constant(node.args), self._constant(node.kwargs)
        except KeyError:
            results = _fake(node)
            results = results if isinstance(results, (tuple, list)) else [results]
            op = getattr(node.target, "overloadpacket", node.target)
            name = str(op) if hasattr(node.target, "overloadpacket") else getattr(op, "__name__", str(op))
            self.program.rows.append(Row(node.name, name, self._arguments(node), [_result(each) for each in results]))
        else:
            self.constants[node.name] = node.target(*args, **kwargs)

    def _arguments(self, node: Any) -> dict[str, Any]:
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return {str(i): self._argument(each) for i, each in enumerate(node.args)}
        named = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
        named.update({each.name: value for each, value in zip(schema.arguments, node.args)})
        named.update(node.kwargs)
        return {name: self._argument(value) for name, value in named.items()}

    def _argument(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.fx.Node):
            if value.name not in self.constants:
                return Ref(value.name)
            constant = self.constants[value.name]
            if not isinstance(constant, torch.Tensor):
                return constant
            self.program.values.setdefault(value.name, _array(constant))
            return Ref(value.name)
        if isinstance(value, (list, tuple)):
            return [self._argument(each) for each in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        return str(value)  # a dtype, a layout or a device


def exported_program(module: Any, example: tuple[Any, ...], known: frozenset[str]) -> Program:
    """Exports a module with example inputs. Operators that are not among the known ones are decomposed if torch can.
    Raises ImportError without torch, and what torch.export raises."""
    import torch

    exported = torch.export.export(module, example)
    unknown = {node.target for node in exported.graph.nodes
               if node.op == "call_function" and str(getattr(node.target, "overloadpacket", "getitem")) not in known}
    table = torch.export.default_decompositions()
    table = {op: table[op] for op in unknown if op in table}
    if table:
        exported = exported.run_decompositions(table)
    return _Reader(exported).read()
