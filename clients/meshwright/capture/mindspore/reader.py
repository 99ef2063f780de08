"""Conversion of a compiled network to a Graph with MindSpore's operator names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from meshwright.capture.finalize import is_label
from meshwright.capture.mindspore.compiled import CompiledNetwork, CompiledOperator, Result
from meshwright.capture.mindspore.operators import ALIASES, COLLECTIVES, CONVERTERS, FIRST_ONLY
from meshwright.capture.mindspore.rules import PRODUCTS, RULES, matmul, merged_dim
from meshwright.capture.node_call import NodeCall
from meshwright.capture.program import Program, Value
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema import Graph, GraphError, Pin, ShardingRule
from meshwright.schema.graph import Role

# operators that order writes and have no tensor result
_ORDER = frozenset({"UpdateState", "Return"})


class MindSporeReader:
    """Reader of one compiled network; `wishes` are the strategies of its primitives."""

    def __init__(
        self, compiled: CompiledNetwork, trainable: Mapping[str, bool], witness: Witness
    ) -> None:
        self.program = Program([], [], [], witness=witness)
        self.rules: dict[str, ShardingRule] = {}
        self.wishes: dict[str, Pin] = {}
        self._compiled = compiled
        self._trainable = trainable
        self._values: dict[str, Value] = {}
        self._lists: dict[str, tuple[str, ...]] = {}
        self._makers: dict[str, CompiledOperator] = {}
        self._merged: dict[Value, tuple[int, ...]] = {}

    def graph(self, name: str, symbols: Mapping[str, int]) -> Graph:
        """The graph of all operators; a first result of one float is the loss."""
        self._read_sources()
        for operator in self._compiled.operators:
            self._read(operator)
        outputs = [self._value(key, "the network's result") for key in self._outputs()]
        program = self.program
        first = outputs[0]
        is_loss = int(np.prod(first.shape)) == 1 and "float" in first.dtype
        program.loss = first if is_loss else None
        program.outputs = [first] if is_loss else outputs
        used = {value for node in program.nodes for value in node.inputs} | set(program.outputs)
        program.sources = [source for source in program.sources if source in used]
        unknown = sorted({node.kind for node in program.nodes if "." in node.kind})
        program.notes += [
            f"no canonical kind for {kind}; it is kept replicated" for kind in unknown
        ]
        program.notes += [f"pin {pin}" for pin in self.wishes.values()]
        graph = program.to_graph(name=name, symbols=symbols)
        ops = tuple(
            op.model_copy(update={"rule": self.rules[op.name]}) if op.name in self.rules else op
            for op in graph.ops
        )
        return Graph.model_validate(graph.model_copy(update={"ops": ops}).model_dump())

    def _outputs(self) -> Iterable[str]:
        for key in self._compiled.outputs:
            yield from self._lists.get(key, (key,))

    def _read_sources(self) -> None:
        compiled = self._compiled
        for key, result in compiled.inputs.items():
            name = key.rpartition(":")[2]
            self._source(key, name, result, "label" if is_label(name) else "input")
        for key, (name, result) in compiled.parameters.items():
            trainable = self._trainable.get(name, True)
            self._source(key, name, result, "parameter").trainable = trainable
        for place, (key, result) in enumerate(compiled.tensors.items(), 1):
            self._source(key, f"constant_{place}", result, "constant")

    def _source(self, key: str, name: str, result: Result, role: Role) -> Value:
        value = Value(name, result.shape, result.dtype, role)
        self.program.sources.append(value)
        self._values[key] = value
        return value

    def _value(self, key: str, reader: str) -> Value:
        value = self._values.get(key)
        if value is None:
            maker = self._makers.get(key)
            description = f"result of {maker.name!r} ({maker.kind})" if maker else f"value {key!r}"
            raise GraphError(f"{reader} reads the {description}, which is not a tensor")
        return value

    def _read(self, operator: CompiledOperator) -> None:
        label = f"op {operator.name!r} ({operator.kind})"
        self._makers[operator.key] = operator
        if operator.kind in _ORDER:
            return
        if operator.kind in COLLECTIVES:
            raise GraphError(
                f"{label} communicates between devices. Capture the network of one device, without "
                "HYBRID_PARALLEL; the planner adds the communication"
            )
        if operator.kind == "MakeTuple":
            self._lists[operator.key] = operator.inputs
            return
        if operator.kind == "TupleGetItem":
            self._read_item(operator, label)
            return
        if operator.kind in ALIASES:
            first = operator.inputs[0]
            if first in self._values:
                self._values[operator.key] = self._values[first]
            return
        self._convert(operator, label)

    def _read_item(self, operator: CompiledOperator, label: str) -> None:
        source, place = operator.inputs[0], int(self._compiled.constants[operator.inputs[1]])
        if source in self._lists:
            self._values[operator.key] = self._value(self._lists[source][place], label)
            return
        kind = self._makers[source].kind
        if place and kind in FIRST_ONLY:
            raise GraphError(
                f"{label} reads result {place} of {self._makers[source].name!r} ({kind}), of which "
                "only the first is supported"
            )
        self._values[operator.key] = self._value(f"{source}:{place}" if place else source, label)

    def _convert(self, operator: CompiledOperator, label: str) -> None:
        keys = [item for key in operator.inputs for item in self._lists.get(key, (key,))]
        constants = self._compiled.constants
        results = [Value("", result.shape, result.dtype) for result in operator.results]
        if not results:
            raise GraphError(f"{label} has no tensor result")
        if operator.kind in FIRST_ONLY:
            results = results[:1]
        call = NodeCall(
            operator.kind,
            [
                None if key in constants and key not in self._values else self._value(key, label)
                for key in keys
            ],
            {
                place: np.asarray(constants[key])
                for place, key in enumerate(keys)
                if constants.get(key) is not None
            },
            operator.attrs,
            results,
            operator.path or _cell_of(operator.name),
            "mindspore",
        )
        CONVERTERS.get(operator.kind, NodeCall.unknown)(call)
        (node,) = call.nodes
        self.program.nodes.append(node)
        for place, value in enumerate(results):
            value.name = operator.name if len(results) == 1 else f"{operator.name}:{place}"
            self._values[f"{operator.key}:{place}" if place else operator.key] = value
        rule = self._rule(call) if "." not in node.kind else None
        if rule is not None:
            self.rules[operator.name] = rule
        if operator.path and (pin := _strategy_pin(operator)) is not None:
            self.wishes.setdefault(operator.path, pin)

    def _rule(self, call: NodeCall) -> ShardingRule | None:
        """The rule of an op whose MindSpore operator is narrower than its kind, or None."""
        if call.kind == "Reshape":
            self._merged[call.out] = merged_dim(call.x, call.out)
        if call.kind in PRODUCTS:
            sizes = self._merged.get(call.x, ())
            fixed = all(isinstance(self.program.symbolic_size(size), int) for size in sizes)
            return matmul(call, sizes) if fixed else None
        make = RULES.get(call.kind)
        return None if make is None else make(call)


def _cell_of(name: str) -> str:
    """The path of the cell in a full name: `blocks.0.q` for `Default/blocks-CellList/0-Block/…`."""
    return ".".join(part.partition("-")[0] for part in name.split("/")[1:-1])


def _strategy_pin(operator: CompiledOperator) -> Pin | None:
    """The user's strategy of a primitive as a pin, with Layouts as numbers of parts."""
    inputs = _all_cuts(operator.attrs.get("in_strategy", operator.attrs.get("in_layout")))
    outputs = _all_cuts(operator.attrs.get("out_strategy", operator.attrs.get("out_layout")))
    if inputs is None and outputs is None:
        return None
    return Pin(op=operator.path, inputs=inputs, outputs=outputs)


def _all_cuts(strategy: Any) -> tuple[tuple[int, ...], ...] | None:
    return tuple(_cuts(cuts) for cuts in strategy) if isinstance(strategy, tuple) else None


def _cuts(strategy: Any) -> tuple[int, ...]:
    if not isinstance(strategy, Mapping):
        return tuple(int(count) for count in strategy)
    matrix = strategy["device_matrix"]
    return tuple(
        int(
            np.prod(
                [matrix[len(matrix) - 1 - axis] for axis in _as_tuple(place) if axis >= 0],
                dtype=int,
            )
        )
        for place in strategy["tensor_map"]
    )


def _as_tuple(place: Any) -> tuple[int, ...]:
    return place if isinstance(place, tuple) else (place,)
