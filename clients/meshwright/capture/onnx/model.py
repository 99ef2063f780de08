"""An ONNX file -> Graph: shapes inferred, initialisers as parameters, weights not read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import inliner, shape_inference

from meshwright.capture.finish import finished, is_label
from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.onnx import elementwise, layers, shape
from meshwright.capture.onnx.constants import Array, evaluated, small_array
from meshwright.capture.passes import TORCH_FREE
from meshwright.capture.program import Program, Value
from meshwright.capture.witness import BATCH_WITNESS, Witness
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import DType

CONVERTERS: Mapping[str, Converter] = {
    **elementwise.CONVERTERS,
    **layers.CONVERTERS,
    **shape.CONVERTERS,
}
_OLDEST = 13  # published: since then axes of softmax and of reductions mean what they mean today
_LARGEST_BYTES = 2**31 - 1  # published: protobuf reads no larger message
_COMMUNICATE = frozenset(
    {"AllReduce", "AllGather", "AllToAll", "ReduceScatter", "Broadcast", "NcclAllReduce",
     "NcclAllGather", "NcclReduceScatter", "DistributedMatMul"}
)  # fmt: skip
_STATISTICS = {"BatchNormalization": (3, 4)}
_DTYPES = {
    "DOUBLE": "float64", "FLOAT": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16",
    "FLOAT8E4M3FN": "float8_e4m3", "FLOAT8E5M2": "float8_e5m2", "INT64": "int64",
    "INT32": "int32", "INT16": "int16", "INT8": "int8", "UINT8": "uint8", "BOOL": "bool",
    "COMPLEX64": "complex64", "COMPLEX128": "complex128",
}  # fmt: skip


def capture_onnx(
    file: str | Path, *, sizes: Mapping[str, int] | None = None, name: str | None = None
) -> Graph:
    """The graph of a model's forward pass; a first output of one element is the loss.

    sizes: a value for each named dim of its inputs, which stays symbolic. Weights beside the file
    are not opened. Raises GraphError, naming the node, for what cannot be a graph.
    """
    path = Path(file)
    model = _read(path)
    return _Reader(model, sizes or {}).graph(name or model.graph.name or path.stem)


def _read(path: Path) -> onnx.ModelProto:
    try:
        size = path.stat().st_size
        if size > _LARGEST_BYTES:
            raise GraphError(
                f"{path} has {size:,} bytes and protobuf reads at most {_LARGEST_BYTES:,}; save "
                "the model with its weights as external data, which are not read"
            )
        model = onnx.load(str(path), load_external_data=False)
    except OSError as failure:
        raise GraphError(f"cannot read {path}: {failure.strerror}") from None
    except (onnx.checker.ValidationError, ValueError, TypeError) as failure:
        raise GraphError(f"{path} is no ONNX model: {failure}") from None
    except Exception as failure:
        if type(failure).__name__ != "DecodeError":  # protobuf's, in whichever of its packages
            raise
        raise GraphError(f"{path} is no ONNX model: {failure}") from None
    if not model.graph.node:
        raise GraphError(f"{path} is no ONNX model, or one without nodes")
    return model


class _Reader:
    """Walks the nodes once, with the named dims as primes."""

    def __init__(self, model: onnx.ModelProto, sizes: Mapping[str, int]) -> None:
        self._model = inliner.inline_local_functions(model) if model.functions else model
        self._opset = next(
            (o.version for o in self._model.opset_import if o.domain in ("", "ai.onnx")), 0
        )
        if self._opset < _OLDEST:
            raise GraphError(
                f"the model is of opset {self._opset}, at least {_OLDEST} is read; "
                "onnx.version_converter makes a newer one of it"
            )
        self._weights = {tensor.name: tensor for tensor in self._model.graph.initializer}
        self._symbols = self._sized(sizes)
        self._values: dict[str, Value] = {}
        self._types: dict[str, onnx.TypeProto] = {}
        self._known: dict[str, Array] = {}
        self._sequences: dict[str, list[str]] = {}
        self._program = Program([], [], [])

    def graph(self, name: str) -> Graph:
        """All nodes converted, rewritten and named."""
        self._read_sources()
        for node in self._model.graph.node:
            self._read_node(node)
        outputs = [
            self._tensor(own.name, f"output {own.name!r}") for own in self._model.graph.output
        ]
        first = outputs[0]
        is_loss = np.prod(first.shape) == 1 and "float" in first.dtype
        program = self._program
        program.loss = first if is_loss else None
        program.outputs = [first] if is_loss else outputs
        program.witness = self._witness
        return finished(program, TORCH_FREE, name=name, symbols=self._symbols)

    def _inputs(self) -> list[onnx.ValueInfoProto]:
        return [own for own in self._model.graph.input if own.name not in self._weights]

    def _sized(self, sizes: Mapping[str, int]) -> dict[str, int]:
        named: dict[str, None] = {}
        for own in self._inputs():
            for dim in own.type.tensor_type.shape.dim:
                if dim.HasField("dim_param"):
                    named[dim.dim_param] = None
                elif not dim.HasField("dim_value"):
                    raise GraphError(
                        f"input {own.name!r} has a dim without name or size; give it a dim_param"
                    )
        missing = [dim for dim in named if dim not in sizes]
        if missing:
            raise GraphError(
                f"the model's dims {', '.join(map(repr, missing))} have no size; give each one, as "
                f"in --size {missing[0]}=32"
            )
        surplus = [dim for dim in sizes if dim not in named]
        if surplus:
            known = ", ".join(named) or "none"
            raise GraphError(f"the model has no dim {surplus[0]!r}; its named dims are: {known}")
        return {dim: sizes[dim] for dim in named}

    def _read_sources(self) -> None:
        constants = [int(size) for own in self._weights.values() for size in own.dims]
        constants += [
            int(dim.dim_value)
            for own in self._inputs()
            for dim in own.type.tensor_type.shape.dim
            if dim.HasField("dim_value")
        ]
        self._witness = Witness.choose(dict.fromkeys(self._symbols, BATCH_WITNESS), constants)
        for own in self._inputs():
            kind = onnx.TypeProto()
            kind.CopyFrom(own.type)
            for dim in kind.tensor_type.shape.dim:
                if dim.HasField("dim_param"):
                    dim.dim_value = self._witness.primes[dim.dim_param]
            value = self._new(own.name, kind)
            value.role = "label" if is_label(own.name) else "input"
            self._program.sources.append(value)
        statistics = {
            node.input[place]
            for node in self._model.graph.node
            for place in _STATISTICS.get(node.op_type, ())
            if place < len(node.input)
        }
        for name, tensor in self._weights.items():
            kind = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
            value = self._new(name, kind)
            is_float = "float" in value.dtype
            is_number = not is_float or value.shape in ((), (1,))
            held = small_array(tensor) if is_number else None
            if held is not None:
                self._known[name] = held
            if not is_float or held is not None:
                value.role = "constant"
            else:
                value.role = "buffer" if name in statistics else "parameter"
            self._program.sources.append(value)

    def _new(self, name: str, kind: onnx.TypeProto) -> Value:
        element = onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type)
        if element not in _DTYPES:
            raise GraphError(f"tensor {name!r} is of the type {element}, which no graph has")
        shape = tuple(int(dim.dim_value) for dim in kind.tensor_type.shape.dim)
        value = Value(name, shape, cast(DType, _DTYPES[element]))
        self._types[name] = kind
        self._values[name] = value
        return value

    def _tensor(self, name: str, reader: str) -> Value:
        found = self._values.get(name)
        if found is None:
            raise GraphError(f"{reader} reads {name!r}, which no node or initialiser makes")
        return found

    def _read_node(self, node: onnx.NodeProto) -> None:
        said = f"node {node.name or node.output[0]!r} ({node.op_type})"
        if node.op_type in _COMMUNICATE:
            raise GraphError(
                f"{said} communicates between devices; capture the model of one device, from which "
                "the planner makes the communication"
            )
        if any(own.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
               for own in node.attribute):  # fmt: skip
            raise GraphError(
                f"{said} holds a graph of its own, which depends on values; export the model "
                "without control flow, or with one branch"
            )
        if node.op_type in ("SplitToSequence", "SequenceAt"):
            self._read_sequence(node, said)
            return
        inputs = [self._tensor(own, said) if own else None for own in node.input]
        if node.op_type == "Shape":
            dims = np.array(inputs[0].shape if inputs[0] else (), dtype=np.int64)
            attrs = _attributes(node)
            found: list[Array] | None = [dims[attrs.get("start", 0) : attrs.get("end")]]
        else:
            found = evaluated(node, self._known, self._model.opset_import)
        results = self._results(node, said)
        if found is not None:
            self._known.update(zip((own for own in node.output if own), found, strict=False))
        call = NodeCall(
            node.op_type,
            inputs,
            {place: self._known[own] for place, own in enumerate(node.input) if own in self._known},
            _attributes(node),
            results,
            _module_of(node),
            "onnx",
        )
        if found is not None:
            self._told(node, found, call)
        elif node.op_type == "Constant":
            self._held(node, call)
        else:
            domain = node.domain in ("", "ai.onnx")
            (CONVERTERS.get(node.op_type, NodeCall.unknown) if domain else NodeCall.unknown)(call)
        self._program.nodes += call.nodes
        for own, value in zip((o for o in node.output if o), call.values, strict=False):
            self._values[own] = value

    def _read_sequence(self, node: onnx.NodeProto, said: str) -> None:
        """A split into a list, and reading one of it: how torch's exporter writes chunk."""
        place = self._known.get(node.input[1]) if len(node.input) > 1 else np.array(1)
        if place is None:
            raise GraphError(f"{said} splits or reads by values that only a run has")
        if node.op_type == "SequenceAt":
            parts = self._sequences[node.input[0]]
            part = parts[int(place)]
            self._values[node.output[0]] = self._values[part]
            self._types[node.output[0]] = self._types[part]
            return
        attrs = _attributes(node)
        source = self._tensor(node.input[0], said)
        dim = attrs.get("axis", 0) % source.rank
        extent, length = source.shape[dim], int(place.reshape(-1)[0])
        sizes = (
            [int(size) for size in place]
            if place.ndim
            else [min(length, extent - start) for start in range(0, extent, length)]
        )
        names = [f"{node.output[0]}:{position}" for position in range(len(sizes))]
        split = onnx.helper.make_node(
            "Split", [node.input[0], f"{node.output[0]}:sizes"], names, node.name, axis=dim
        )
        split.metadata_props.extend(node.metadata_props)
        self._known[f"{node.output[0]}:sizes"] = np.array(sizes, dtype=np.int64)
        self._new(
            f"{node.output[0]}:sizes",
            onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, [len(sizes)]),
        )
        self._read_node(split)
        self._sequences[node.output[0]] = names

    def _told(self, node: onnx.NodeProto, found: Iterable[Array], call: NodeCall) -> None:
        """A known result of one repeated number is `full`; another one a constant of the graph."""
        made = []
        for array, value in zip(found, call.results, strict=False):
            if array.size and (array == array.reshape(-1)[0]).all():
                number = array.reshape(-1)[0].item()
                plain = number if np.isfinite(number) else str(number)
                made.append(call.step("full", [], value.shape, value.dtype, value=plain))
            else:
                value.name = node.output[0].lstrip("/")
                value.role = "constant"
                self._program.sources.append(value)
                made.append(value)
        call.alias(*made)

    def _held(self, node: onnx.NodeProto, call: NodeCall) -> None:
        """A constant inside a node that is too large to be a number: a tensor of the graph."""
        for value in call.results:
            value.name, value.role = node.output[0].lstrip("/"), "constant"
            self._program.sources.append(value)
        call.alias(*call.results)

    def _results(self, node: onnx.NodeProto, said: str) -> list[Value]:
        names = [own for own in node.output if own]
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opset, domain)
            types = shape_inference.infer_node_outputs(
                schema,
                node,
                {own: self._types[own] for own in node.input if own in self._types},
                {
                    own: onnx.numpy_helper.from_array(self._known[own], own)
                    for own in node.input
                    if own in self._known
                },
                opset_imports=list(self._model.opset_import),
                ir_version=self._model.ir_version,
            )
        except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError) as failure:
            types = {own.name: own.type for own in self._model.graph.value_info}
            if any(own not in types for own in names):
                raise GraphError(f"{said}: its shapes cannot be inferred: {failure}") from None
        for own in names:
            dims = types[own].tensor_type.shape.dim if own in types else []
            if own not in types or not all(dim.HasField("dim_value") for dim in dims):
                raise GraphError(
                    f"{said}: the shape of {own!r} depends on values that only a run has"
                )
        return [self._new(own, types[own]) for own in names]


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes as plain values; the one number of a ConstantOfShape too."""
    found: dict[str, Any] = {}
    for own in node.attribute:
        value = onnx.helper.get_attribute_value(own)
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, onnx.TensorProto):
            array = small_array(value)
            value = array.reshape(-1)[0].item() if array is not None and array.size == 1 else None
        elif not isinstance(value, (bool, int, float, str)):
            value = [item.decode() if isinstance(item, bytes) else item for item in value]
        if value is not None:
            found[own.name] = value
    return found


def _module_of(node: onnx.NodeProto) -> str:
    """Path of the module that ran the node, as torch's exporters write it."""
    scopes = next(
        (own.value for own in node.metadata_props if own.key == "pkg.torch.onnx.name_scopes"), None
    )
    if scopes is not None:
        try:
            return str(ast.literal_eval(scopes)[-2])
        except (ValueError, SyntaxError, IndexError, TypeError):
            return ""
    return ".".join(node.name.strip("/").split("/")[:-1])
