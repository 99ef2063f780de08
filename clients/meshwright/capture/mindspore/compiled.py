"""Compilation of a network for one device by MindSpore's front end, with operators as data.

Nothing runs, and no weight is read. MindSpore's protobuf classes read the compiled graph (MindIR).
An attribute with the path identifies each primitive after compilation.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from mindspore import nn
from mindspore.graph.api import _cell_graph_executor
from mindspore.parallel._auto_parallel_context import auto_parallel_context
from mindspore.train.mind_ir_pb2 import ModelProto, TensorProto

from meshwright.capture.mindspore.primitives import primitives_of
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import DTYPE_BYTES, DType

_MARK = "meshwright"
_FRONT_END = "MS_DEV_PRECOMPILE_ONLY"  # switch of MindSpore to stop before the back end
_DTYPES = {
    "FLOAT": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "DOUBLE": "float64",
    "FLOAT64": "float64", "INT64": "int64", "INT32": "int32", "INT16": "int16", "INT8": "int8",
    "UINT8": "uint8", "BOOL": "bool", "COMPLEX64": "complex64", "COMPLEX128": "complex128",
}  # fmt: skip
# formats of struct for constants of one number
_FORMATS = {
    "float64": "<d", "float32": "<f", "float16": "<e", "int64": "<q", "int32": "<i",
    "int16": "<h", "int8": "<b", "uint8": "<B", "bool": "<?",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """One tensor of the compiled graph."""

    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class CompiledOperator:
    """One operator of the compiled graph.

    name: MindSpore's full name, such as `Default/fc1-Linear/MatMul-op0`. path: of its primitive,
    empty for an operator of a function. inputs: keys of its inputs. results: its output tensors,
    with the key of the operator.
    """

    key: str
    name: str
    kind: str
    path: str
    attrs: Mapping[str, Any]
    inputs: tuple[str, ...]
    results: tuple[Result, ...]


@dataclass
class CompiledNetwork:
    """A compiled graph; constants are numbers, tuples of numbers or small tensors by key."""

    inputs: dict[str, Result] = field(default_factory=dict)
    parameters: dict[str, tuple[str, Result]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Result] = field(default_factory=dict)
    operators: list[CompiledOperator] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def compile_network(network: nn.Cell, arguments: Sequence[Any]) -> CompiledNetwork:
    """The operators of a network for these arguments, in execution order.

    Raises GraphError for a network that MindSpore cannot compile, and for control flow that depends
    on values.
    """
    mode = auto_parallel_context().get_parallel_mode()
    if mode != "stand_alone":
        raise GraphError(
            f"the parallel mode is {mode}, in which MindSpore compiles the part of one device. "
            "Capture the network in the mode stand_alone"
        )
    with _path_marks(network), _front_end_only():
        try:
            phase, _ = _cell_graph_executor.compile(network, *arguments, phase="meshwright")
            mind_ir = _cell_graph_executor._get_func_graph_proto(network, phase, "mind_ir")
        except Exception as failure:  # the network may raise any exception during compilation
            message = " ".join(str(failure).split())[:400]
            raise GraphError(
                f"MindSpore cannot compile {type(network).__name__}: {message}"
            ) from failure
    model = ModelProto()
    model.ParseFromString(mind_ir)
    if model.functions:
        raise GraphError(
            f"{type(network).__name__} has control flow that depends on values "
            f"({len(model.functions)} graphs besides the main one). Compile it with one branch"
        )
    return _read(model)


@contextmanager
def _path_marks(network: nn.Cell) -> Iterator[None]:
    primitives = list(primitives_of(network))
    for path, primitive in reversed(primitives):  # the first of several paths to one primitive
        primitive.add_prim_attr(_MARK, path)
    try:
        yield
    finally:
        for _, primitive in primitives:
            primitive.del_prim_attr(_MARK)


@contextmanager
def _front_end_only() -> Iterator[None]:
    before = os.environ.get(_FRONT_END)
    os.environ[_FRONT_END] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FRONT_END]
        else:
            os.environ[_FRONT_END] = before


def _read(model: ModelProto) -> CompiledNetwork:
    compiled = CompiledNetwork()
    for source in model.graph.input:
        compiled.inputs[source.name] = _result(source.tensor[0], source.name)
    for parameter in model.graph.parameter:
        name = parameter.ref_key or parameter.name.partition(":")[2]
        compiled.parameters[parameter.name] = (name, _result(parameter, name))
    primitives = {primitive.name: primitive for primitive in model.primitives}
    for node in model.graph.node:
        key = node.output[0]
        if node.op_type == "Constant":
            value = node.attribute[0]
            compiled.constants[key] = _value(value)
            if len(value.tensors) == 1:
                compiled.tensors[key] = _result(value.tensors[0], key)
            continue
        primitive = primitives.get(node.op_type.removeprefix("REF::"))
        attrs = {} if primitive is None else {a.name: _value(a) for a in primitive.attribute}
        path = attrs.pop(_MARK, "")
        compiled.operators.append(
            CompiledOperator(
                key=key,
                name=node.domain,
                kind=node.op_type if primitive is None else primitive.op_type,
                path=str(path),
                attrs=attrs,
                inputs=tuple(node.input),
                results=tuple(_results(node)),
            )
        )
    compiled.outputs = [output.name for output in model.graph.output]
    return compiled


def _results(node: Any) -> Iterator[Result]:
    for attribute in node.attribute:
        if attribute.name == "shape":
            for entry in (attribute, *attribute.values):
                for tensor in entry.tensors:
                    yield _result(tensor, node.domain)


def _result(tensor: TensorProto, name: str) -> Result:
    type_name = TensorProto.DataType.Name(tensor.data_type)
    dtype = _DTYPES.get(type_name, type_name.lower())
    if dtype not in DTYPE_BYTES:
        raise GraphError(f"tensor {name!r} is of the type {type_name}, which graphs do not support")
    if any(size < 0 for size in tensor.dims):
        raise GraphError(
            f"the shape of {name!r}, {list(tensor.dims)}, depends on values that are unknown "
            "before a run"
        )
    return Result(tuple(tensor.dims), cast(DType, dtype))


def _value(attribute: Any) -> Any:
    """The plain value of an attribute; of a tensor the number, or None for several elements."""
    kind = type(attribute).AttributeType.Name(attribute.type)
    if kind in ("TUPLE", "LIST"):
        return tuple(_value(item) for item in attribute.values)
    if kind == "DICT":
        return {item.name: _value(item.values[0]) for item in attribute.values}
    if kind == "STRING":
        return (attribute.s or next(iter(attribute.strings), b"")).decode()
    if kind == "TENSORS":
        return _number(attribute.tensors[0])
    if kind in ("FLOAT", "DOUBLE"):
        numbers = (*attribute.floats, *attribute.doubles)
        return numbers[0] if numbers else attribute.f or attribute.d
    if kind == "BOOL":
        return bool(attribute.ints[0] if attribute.ints else attribute.i)
    if kind.startswith(("INT", "UINT")):
        return int(attribute.ints[0] if attribute.ints else attribute.i)
    return None


def _number(tensor: TensorProto) -> float | int | bool | None:
    dtype = _DTYPES.get(TensorProto.DataType.Name(tensor.data_type), "")
    if dtype not in _FORMATS or int(np.prod(tensor.dims)) != 1:
        return None
    number = struct.unpack(_FORMATS[dtype], tensor.raw_data)[0]
    return cast("float | int | bool", number)
