"""Annotations of shardings as pins, in the words of `meshwright plan --pin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshwright.capture.program import Node, Program, Value

# the layout of what these make is that of what they read, and no op of a plan
_VIEWS = frozenset({"identity", "reshape", "transpose"})


def pins_of(program: Program, annotated: Sequence[tuple[Value, str]]) -> Iterator[str]:
    """One pin for each op that makes an annotated value, or else is the first to read it."""
    makers, readers = program.producers(), program.readers()
    given: dict[Node, dict[Value, str]] = {}
    made: dict[Node, dict[Value, str]] = {}
    for value, cuts in annotated:
        mark = makers.get(value)
        source = value if mark is None else mark.inputs[0]
        maker = makers.get(source)
        reader = next((own for own in readers.get(value, []) if own.kind not in _VIEWS), None)
        if maker is not None and maker.kind not in _VIEWS:
            made.setdefault(maker, {})[source] = cuts
        elif reader is not None:
            given.setdefault(reader, {})[value] = cuts
    for node in program.nodes:
        inputs, outputs = given.get(node), made.get(node)
        if inputs or outputs:
            before = _places(node.inputs, inputs) if inputs else ""
            behind = f"->{_places(node.outputs, outputs)}" if outputs else ""
            yield f"{_name(node)}:{before}{behind}"


def _name(node: Node) -> str:
    name = node.output.name
    return name.removesuffix(":0") if len(node.outputs) > 1 else name


def _places(values: Sequence[Value], cuts: Mapping[Value, str]) -> str:
    return f"({','.join(cuts.get(own, '_') for own in values)},)"
