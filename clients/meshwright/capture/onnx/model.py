"""Conversion of an ONNX file to a Graph, with inferred shapes and unread weights."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import inliner, shape_inference

from meshwright.capture.finalize import finalize_program, is_label
from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.onnx import elementwise, layers, shape
from meshwright.capture.onnx.constants import Array, fold_node, small_array
from meshwright.capture.passes import TORCH_FREE
from meshwright.capture.program import Program, Value
from meshwright.capture.symbolic_sizes import BATCH_WITNESS, Witness
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import DType

CONVERTERS: Mapping[str, Converter] = {
    **elementwise.CONVERTERS,
    **layers.CONVERTERS,
    **shape.CONVERTERS,
}
_OLDEST = 13  # published: the current semantics of axes of softmax and of reductions
_LARGEST_BYTES = 2**31 - 1  # published: the largest protobuf message
_COLLECTIVES = frozenset(
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

    sizes: a value for each named dim of the inputs, which stays symbolic. External weights are not
    read. Raises GraphError with the name of the node for an unsupported model.
    """
    path = Path(file)
    model = _read(path)
    return _OnnxReader(model, sizes or {}).graph(name or model.graph.name or path.stem)


def _read(path: Path) -> onnx.ModelProto:
    try:
        size = path.stat().st_size
        if size > _LARGEST_BYTES:
            raise GraphError(
                f"{path} has {size:,} bytes and protobuf reads at most {_LARGEST_BYTES:,}. Save "
                "the model with its weights as external data, which are not read"
            )
        model = onnx.load(str(path), load_external_data=False)
    except OSError as failure:
        raise GraphError(f"cannot read {path}: {failure.strerror}") from None
    except (onnx.checker.ValidationError, ValueError, TypeError) as failure:
        raise GraphError(f"{path} is no ONNX model: {failure}") from None
    except Exception as failure:
        if type(failure).__name__ != "DecodeError":  # protobuf's, in a package that varies
            raise
        raise GraphError(f"{path} is no ONNX model: {failure}") from None
    if not model.graph.node:
        raise GraphError(f"{path} is no ONNX model, or one without nodes")
    return model


class _OnnxReader:
    """Reader of a model with primes in place of the named dims."""

    def __init__(self, model: onnx.ModelProto, sizes: Mapping[str, int]) -> None:
        self._model = inliner.inline_local_functions(model) if model.functions else model
        self._opset = next(
            (o.version for o in self._model.opset_import if o.domain in ("", "ai.onnx")), 0
        )
        if self._opset < _OLDEST:
            raise GraphError(
                f"the model has opset {self._opset}, and at least {_OLDEST} is required. Convert "
                "it with onnx.version_converter"
            )
        self._weights = {tensor.name: tensor for tensor in self._model.graph.initializer}
        self._symbols = self._symbol_sizes(sizes)
        self._values: dict[str, Value] = {}
        self._types: dict[str, onnx.TypeProto] = {}
        self._known: dict[str, Array] = {}
        self._sequences: dict[str, list[str]] = {}
        self._program = Program([], [], [])

    def graph(self, name: str) -> Graph:
        """The graph of all nodes after conversion and passes."""
        self._read_sources()
        for node in self._model.graph.node:
            self._read_node(node)
        outputs = [
            self._tensor(output.name, f"output {output.name!r}")
            for output in self._model.graph.output
        ]
        first = outputs[0]
        is_loss = np.prod(first.shape) == 1 and "float" in first.dtype
        program = self._program
        program.loss = first if is_loss else None
        program.outputs = [first] if is_loss else outputs
        program.witness = self._witness
        return finalize_program(program, TORCH_FREE, name=name, symbols=self._symbols)

    def _inputs(self) -> list[onnx.ValueInfoProto]:
        return [info for info in self._model.graph.input if info.name not in self._weights]

    def _symbol_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        named: dict[str, None] = {}
        for info in self._inputs():
            for dim in info.type.tensor_type.shape.dim:
                if dim.HasField("dim_param"):
                    named[dim.dim_param] = None
                elif not dim.HasField("dim_value"):
                    raise GraphError(
                        f"input {info.name!r} has a dim without name or size. Give it a dim_param"
                    )
        missing = [dim for dim in named if dim not in sizes]
        if missing:
            raise GraphError(
                f"the model's dims {', '.join(map(repr, missing))} have no size. Give each one, as "
                f"in --size {missing[0]}=32"
            )
        surplus = [dim for dim in sizes if dim not in named]
        if surplus:
            known_names = ", ".join(named) or "none"
            raise GraphError(
                f"the model has no dim {surplus[0]!r}; its named dims are: {known_names}"
            )
        return {dim: sizes[dim] for dim in named}

    def _read_sources(self) -> None:
        constants = [int(size) for weight in self._weights.values() for size in weight.dims]
        constants += [
            int(dim.dim_value)
            for info in self._inputs()
            for dim in info.type.tensor_type.shape.dim
            if dim.HasField("dim_value")
        ]
        self._witness = Witness.choose(dict.fromkeys(self._symbols, BATCH_WITNESS), constants)
        for info in self._inputs():
            kind = onnx.TypeProto()
            kind.CopyFrom(info.type)
            for dim in kind.tensor_type.shape.dim:
                if dim.HasField("dim_param"):
                    dim.dim_value = self._witness.primes[dim.dim_param]
            value = self._new_value(info.name, kind)
            value.role = "label" if is_label(info.name) else "input"
            self._program.sources.append(value)
        statistics = {
            node.input[place]
            for node in self._model.graph.node
            for place in _STATISTICS.get(node.op_type, ())
            if place < len(node.input)
        }
        for name, tensor in self._weights.items():
            kind = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
            value = self._new_value(name, kind)
            is_float = "float" in value.dtype
            is_number = not is_float or value.shape in ((), (1,))
            array = small_array(tensor) if is_number else None
            if array is not None:
                self._known[name] = array
            if not is_float or array is not None:
                value.role = "constant"
            else:
                value.role = "buffer" if name in statistics else "parameter"
            self._program.sources.append(value)

    def _new_value(self, name: str, kind: onnx.TypeProto) -> Value:
        element = onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type)
        if element not in _DTYPES:
            raise GraphError(
                f"tensor {name!r} is of the type {element}, which graphs do not support"
            )
        shape = tuple(int(dim.dim_value) for dim in kind.tensor_type.shape.dim)
        value = Value(name, shape, cast(DType, _DTYPES[element]))
        self._types[name] = kind
        self._values[name] = value
        return value

    def _tensor(self, name: str, reader: str) -> Value:
        value = self._values.get(name)
        if value is None:
            raise GraphError(f"{reader} reads {name!r}, which no node or initializer produces")
        return value

    def _read_node(self, node: onnx.NodeProto) -> None:
        label = f"node {node.name or node.output[0]!r} ({node.op_type})"
        if node.op_type in _COLLECTIVES:
            raise GraphError(
                f"{label} communicates between devices. Capture the model of one device; the "
                "planner adds the communication"
            )
        if any(attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
               for attribute in node.attribute):  # fmt: skip
            raise GraphError(
                f"{label} has a subgraph, which depends on values. Export the model without "
                "control flow, or with one branch"
            )
        if node.op_type in ("SplitToSequence", "SequenceAt"):
            self._read_sequence(node, label)
            return
        inputs = [self._tensor(name, label) if name else None for name in node.input]
        if node.op_type == "Shape":
            dims = np.array(inputs[0].shape if inputs[0] else (), dtype=np.int64)
            attrs = _attributes(node)
            arrays: list[Array] | None = [dims[attrs.get("start", 0) : attrs.get("end")]]
        else:
            arrays = fold_node(node, self._known, self._model.opset_import)
        results = self._results(node, label)
        if arrays is not None:
            self._known.update(zip((name for name in node.output if name), arrays, strict=False))
        call = NodeCall(
            node.op_type,
            inputs,
            {
                place: self._known[name]
                for place, name in enumerate(node.input)
                if name in self._known
            },
            _attributes(node),
            results,
            _module_of(node),
            "onnx",
        )
        if arrays is not None:
            self._convert_folded(node, arrays, call)
        elif node.op_type == "Constant":
            self._convert_constant(node, call)
        else:
            domain = node.domain in ("", "ai.onnx")
            (CONVERTERS.get(node.op_type, NodeCall.unknown) if domain else NodeCall.unknown)(call)
        self._program.nodes += call.nodes
        for name, value in zip((o for o in node.output if o), call.values, strict=False):
            self._values[name] = value

    def _read_sequence(self, node: onnx.NodeProto, label: str) -> None:
        """Convert SplitToSequence and SequenceAt, which torch's exporter uses for chunk."""
        place = self._known.get(node.input[1]) if len(node.input) > 1 else np.array(1)
        if place is None:
            raise GraphError(f"{label} splits or reads by values that are unknown before a run")
        if node.op_type == "SequenceAt":
            parts = self._sequences[node.input[0]]
            part = parts[int(place)]
            self._values[node.output[0]] = self._values[part]
            self._types[node.output[0]] = self._types[part]
            return
        attrs = _attributes(node)
        source = self._tensor(node.input[0], label)
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
        self._new_value(
            f"{node.output[0]}:sizes",
            onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, [len(sizes)]),
        )
        self._read_node(split)
        self._sequences[node.output[0]] = names

    def _convert_folded(
        self, node: onnx.NodeProto, arrays: Iterable[Array], call: NodeCall
    ) -> None:
        """Convert folded results: one repeated number to `full`, others to constant tensors."""
        values = []
        for array, value in zip(arrays, call.results, strict=False):
            if array.size and (array == array.reshape(-1)[0]).all():
                number = array.reshape(-1)[0].item()
                plain = number if np.isfinite(number) else str(number)
                values.append(call.step("full", [], value.shape, value.dtype, value=plain))
            else:
                value.name = node.output[0].lstrip("/")
                value.role = "constant"
                self._program.sources.append(value)
                values.append(value)
        call.alias(*values)

    def _convert_constant(self, node: onnx.NodeProto, call: NodeCall) -> None:
        """Convert a large Constant node to a constant tensor of the graph."""
        for value in call.results:
            value.name, value.role = node.output[0].lstrip("/"), "constant"
            self._program.sources.append(value)
        call.alias(*call.results)

    def _results(self, node: onnx.NodeProto, label: str) -> list[Value]:
        names = [name for name in node.output if name]
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opset, domain)
            types = shape_inference.infer_node_outputs(
                schema,
                node,
                {name: self._types[name] for name in node.input if name in self._types},
                {
                    name: onnx.numpy_helper.from_array(self._known[name], name)
                    for name in node.input
                    if name in self._known
                },
                opset_imports=list(self._model.opset_import),
                ir_version=self._model.ir_version,
            )
        except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError) as failure:
            types = {info.name: info.type for info in self._model.graph.value_info}
            if any(name not in types for name in names):
                raise GraphError(f"{label}: its shapes cannot be inferred: {failure}") from None
        for name in names:
            dims = types[name].tensor_type.shape.dim if name in types else []
            if name not in types or not all(dim.HasField("dim_value") for dim in dims):
                raise GraphError(
                    f"{label}: the shape of {name!r} depends on values that are unknown before a "
                    "run"
                )
        return [self._new_value(name, types[name]) for name in names]


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes as plain values, including the number of a ConstantOfShape."""
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, onnx.TensorProto):
            array = small_array(value)
            value = array.reshape(-1)[0].item() if array is not None and array.size == 1 else None
        elif not isinstance(value, (bool, int, float, str)):
            value = [item.decode() if isinstance(item, bytes) else item for item in value]
        if value is not None:
            values[attribute.name] = value
    return values


def _module_of(node: onnx.NodeProto) -> str:
    """The path of the node's module in the format of torch's exporters."""
    scopes = next(
        (prop.value for prop in node.metadata_props if prop.key == "pkg.torch.onnx.name_scopes"),
        None,
    )
    if scopes is not None:
        try:
            return str(ast.literal_eval(scopes)[-2])
        except (ValueError, SyntaxError, IndexError, TypeError):
            return ""
    return ".".join(node.name.strip("/").split("/")[:-1])
