"""Sharding annotations as pins, in the syntax of `meshwright plan --pin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshwright.capture.program import Node, Program, Value

# views: their result has the layout of their input, and plans do not list them
_VIEWS = frozenset({"identity", "reshape", "transpose"})


def pins_of(program: Program, annotated: Sequence[tuple[Value, str]]) -> Iterator[str]:
    """One pin per annotated value, for its producer or else for its first reader."""
    makers, readers = program.producers(), program.readers()
    input_cuts: dict[Node, dict[Value, str]] = {}
    output_cuts: dict[Node, dict[Value, str]] = {}
    for value, cuts in annotated:
        mark = makers.get(value)
        source = value if mark is None else mark.inputs[0]
        maker = makers.get(source)
        reader = next((node for node in readers.get(value, []) if node.kind not in _VIEWS), None)
        if maker is not None and maker.kind not in _VIEWS:
            output_cuts.setdefault(maker, {})[source] = cuts
        elif reader is not None:
            input_cuts.setdefault(reader, {})[value] = cuts
    for node in program.nodes:
        inputs, outputs = input_cuts.get(node), output_cuts.get(node)
        if inputs or outputs:
            before = _places(node.inputs, inputs) if inputs else ""
            behind = f"->{_places(node.outputs, outputs)}" if outputs else ""
            yield f"{_name(node)}:{before}{behind}"


def _name(node: Node) -> str:
    name = node.output.name
    return name.removesuffix(":0") if len(node.outputs) > 1 else name


def _places(values: Sequence[Value], cuts: Mapping[Value, str]) -> str:
    return f"({','.join(cuts.get(value, '_') for value in values)},)"
