"""A network compiled for one device by MindSpore's front end: its operators as plain values.

Nothing is run and no weight is read. What MindSpore's own format of a compiled graph (MindIR) says
is read through its protobuf classes; primitives are known again by a mark that their attributes
keep through the compiler.
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
_FRONT_END = "MS_DEV_PRECOMPILE_ONLY"  # MindSpore's own switch: stop before the back end
_DTYPES = {
    "FLOAT": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "DOUBLE": "float64",
    "FLOAT64": "float64", "INT64": "int64", "INT32": "int32", "INT16": "int16", "INT8": "int8",
    "UINT8": "uint8", "BOOL": "bool", "COMPLEX64": "complex64", "COMPLEX128": "complex128",
}  # fmt: skip
# formats of struct for the one number of a constant
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
class Operator:
    """One operator.

    name: MindSpore's full name, `Default/fc1-Linear/MatMul-op0`. path: of its primitive, empty
    where a function made it. inputs: keys of what it reads. results: of what it makes, under its
    own key.
    """

    key: str
    name: str
    kind: str
    path: str
    attrs: Mapping[str, Any]
    inputs: tuple[str, ...]
    results: tuple[Result, ...]


@dataclass
class Compiled:
    """A compiled graph. constants: numbers, tuples of numbers or small tensors by key."""

    inputs: dict[str, Result] = field(default_factory=dict)
    parameters: dict[str, tuple[str, Result]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Result] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def compile_network(network: nn.Cell, arguments: Sequence[Any]) -> Compiled:
    """The operators of a network called with these tensors, in the order in which they run.

    Raises GraphError for what MindSpore refuses, and for control flow that depends on values.
    """
    mode = auto_parallel_context().get_parallel_mode()
    if mode != "stand_alone":
        raise GraphError(
            f"the parallel mode is {mode}, under which MindSpore compiles one device's part; "
            "capture the network in the mode stand_alone"
        )
    with _marked(network), _front_end_only():
        try:
            phase, _ = _cell_graph_executor.compile(network, *arguments, phase="meshwright")
            found = _cell_graph_executor._get_func_graph_proto(network, phase, "mind_ir")
        except Exception as failure:  # whatever the network raises while it is compiled
            said = " ".join(str(failure).split())[:400]
            raise GraphError(
                f"MindSpore cannot compile {type(network).__name__}: {said}"
            ) from failure
    model = ModelProto()
    model.ParseFromString(found)
    if model.functions:
        raise GraphError(
            f"{type(network).__name__} has control flow that depends on values "
            f"({len(model.functions)} graphs beside the main one); compile it with one branch"
        )
    return _read(model)


@contextmanager
def _marked(network: nn.Cell) -> Iterator[None]:
    marked = [(path, own) for path, own in primitives_of(network)]
    for path, primitive in reversed(marked):  # of several paths to one primitive, the first
        primitive.add_prim_attr(_MARK, path)
    try:
        yield
    finally:
        for _, primitive in marked:
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


def _read(model: ModelProto) -> Compiled:
    compiled = Compiled()
    for given in model.graph.input:
        compiled.inputs[given.name] = _result(given.tensor[0], given.name)
    for given in model.graph.parameter:
        name = given.ref_key or given.name.partition(":")[2]
        compiled.parameters[given.name] = (name, _result(given, name))
    primitives = {own.name: own for own in model.primitives}
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
            Operator(
                key=key,
                name=node.domain,
                kind=node.op_type if primitive is None else primitive.op_type,
                path=str(path),
                attrs=attrs,
                inputs=tuple(node.input),
                results=tuple(_results(node)),
            )
        )
    compiled.outputs = [own.name for own in model.graph.output]
    return compiled


def _results(node: Any) -> Iterator[Result]:
    for attribute in node.attribute:
        if attribute.name == "shape":
            for own in (attribute, *attribute.values):
                for tensor in own.tensors:
                    yield _result(tensor, node.domain)


def _result(tensor: TensorProto, name: str) -> Result:
    written = TensorProto.DataType.Name(tensor.data_type)
    dtype = _DTYPES.get(written, written.lower())
    if dtype not in DTYPE_BYTES:
        raise GraphError(f"tensor {name!r} is of the type {written}, which no graph has")
    if any(size < 0 for size in tensor.dims):
        raise GraphError(
            f"the shape of {name!r}, {list(tensor.dims)}, depends on values that only a run has"
        )
    return Result(tuple(tensor.dims), cast(DType, dtype))


def _value(attribute: Any) -> Any:
    """A plain value; of a tensor of one number that number, of another one None."""
    kind = type(attribute).AttributeType.Name(attribute.type)
    if kind in ("TUPLE", "LIST"):
        return tuple(_value(own) for own in attribute.values)
    if kind == "DICT":
        return {own.name: _value(own.values[0]) for own in attribute.values}
    if kind == "STRING":
        return (attribute.s or next(iter(attribute.strings), b"")).decode()
    if kind == "TENSORS":
        return _number(attribute.tensors[0])
    if kind in ("FLOAT", "DOUBLE"):
        stored = (*attribute.floats, *attribute.doubles)
        return stored[0] if stored else attribute.f or attribute.d
    if kind == "BOOL":
        return bool(attribute.ints[0] if attribute.ints else attribute.i)
    if kind.startswith(("INT", "UINT")):
        return int(attribute.ints[0] if attribute.ints else attribute.i)
    return None


def _number(tensor: TensorProto) -> float | int | bool | None:
    dtype = _DTYPES.get(TensorProto.DataType.Name(tensor.data_type), "")
    if dtype not in _FORMATS or int(np.prod(tensor.dims)) != 1:
        return None
    found = struct.unpack(_FORMATS[dtype], tensor.raw_data)[0]
    return cast("float | int | bool", found)
