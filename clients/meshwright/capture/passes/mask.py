"""Recognition of attention masks that depend on positions only.

The pass evaluates the subgraph of a mask and compares its values. The evaluated size is larger than
every number in the subgraph: 4,100 positions show a window of 4,096. A number beyond that is
replaced by two small ones in turn, which have to give the same kind of mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from meshwright.capture.names import name_values
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema.errors import GraphError

MaskAttrs = dict[str, Any]

_BATCH = 2
_MARGIN = 7  # chosen: positions beyond the largest number of the subgraph
_LARGEST = 4608  # chosen: a mask of 21 million elements, for windows of up to 4,096
_REPEATED = 256  # chosen: sequences of three times as many positions are evaluated at once
_POSITIONS = 2**31  # chosen: larger numbers are scores of hidden positions
_STAND_INS = (13, 17)  # chosen: primes that no other number of a mask is likely to be


def recognize_masks(program: Program) -> None:
    """Replace a mask made from positions by attrs, and drop a mask that hides nothing.

    `causal`: a query sees keys up to its own position. `window`: the last so many of them, itself
    included. `chunk`: those of its own chunk of so many positions.
    """
    known: dict[Value, MaskAttrs | None] = {}
    for node in program.nodes:
        operands = 5 if node.attrs.get("sinks") else 4
        if node.kind != "attention" or len(node.inputs) != operands or node.attrs["causal"]:
            continue
        mask = node.inputs[3]
        if mask not in known:
            known[mask] = _mask_attrs(program, mask)
        attrs = known[mask]
        if attrs is not None:
            node.inputs = [*node.inputs[:3], *node.inputs[4:]]
            node.attrs = {**node.attrs, **attrs}


def _mask_attrs(program: Program, mask: Value) -> MaskAttrs | None:
    """The attrs of attention that hide what the mask hides; None for another mask."""
    part = program.upstream([mask])
    if part.sources:
        return None
    name_values(part)
    largest = max((n for node in part.nodes for n in _numbers(node, part.witness)), default=0)
    if "seq" in part.witness.primes and largest + _MARGIN > _LARGEST:
        return _attrs_of_scaled(part, mask, largest)
    attrs = _attrs_of_values(part, mask, largest)
    if attrs is None or "chunk" not in attrs or "seq" not in part.witness.primes:
        return attrs
    # the evaluated size may end in the second chunk, and small stand-ins show more of them
    return attrs if largest <= _REPEATED else _attrs_of_scaled(part, mask, largest)


def _attrs_of_scaled(part: Program, mask: Value, largest: int) -> MaskAttrs | None:
    """The attrs of a mask with one number too large to evaluate, from two small stand-ins."""
    numbers = {n for node in part.nodes for n in _numbers(node, part.witness)}
    if any(_STAND_INS[0] <= number < largest for number in numbers):
        return None
    answers = []
    for stand_in in _STAND_INS:
        nodes = [
            replace(node, attrs=_substituted(node.attrs, largest, stand_in)) for node in part.nodes
        ]
        smaller = Program(nodes, part.sources, part.outputs, witness=part.witness)
        attrs = _attrs_of_values(smaller, mask, stand_in)
        answers.append(attrs and _substituted(attrs, stand_in, largest))
    return answers[0] if answers[0] == answers[1] else None


def _substituted(attrs: Mapping[str, Any], number: int, stand_in: int) -> dict[str, Any]:
    return {
        key: stand_in if value == number and not isinstance(value, bool) else value
        for key, value in attrs.items()
    }


def _attrs_of_values(part: Program, mask: Value, largest: int) -> MaskAttrs | None:
    # only programs from torch use this pass
    import torch

    from meshwright.capture.interpreter import interpret
    from meshwright.capture.interpreter.attention import visible_keys

    sizes = _sizes(part, mask, largest)
    if sizes is None:
        return None
    try:
        graph = part.to_graph(name="mask", symbols=sizes)
        table = interpret(graph, {}, symbols=sizes)[mask.name]
    except (GraphError, RuntimeError, NotImplementedError):
        return None
    visible = table if table.dtype == torch.bool else table == 0
    if visible.all():
        return {}
    rows, columns = visible.shape[-2:]
    if rows != columns or not (table.dtype == torch.bool or bool((table[~visible] < -1e4).all())):
        return None
    return next(
        (
            attrs
            for attrs in _candidates(visible)
            if bool((visible == visible_keys(rows, rows, **attrs)).all())
        ),
        None,
    )


def _candidates(visible: Any) -> Iterator[MaskAttrs]:
    """Attrs that agree with the last row, and with the first row that sees itself alone."""
    length = visible.shape[-1]
    table = visible.reshape(-1, length, length)[0]
    yield {"causal": True}
    yield {"causal": True, "window": int(table[-1].sum())}
    alone = [row for row in range(1, length) if int(table[row].sum()) == 1]
    if alone:
        yield {"causal": True, "chunk": alone[0]}


def _sizes(part: Program, mask: Value, largest: int) -> dict[str, int] | None:
    """Small symbol values that are large enough to identify the mask."""
    primes = part.witness.primes
    if "seq" not in primes:
        fits = max(mask.shape[-2:]) <= _LARGEST
        return dict.fromkeys(primes, _BATCH) if fits else None
    seq = (3 if largest <= _REPEATED else 1) * largest + _MARGIN
    return {name: seq if name == "seq" else _BATCH for name in primes}


def _numbers(node: Node, witness: Witness) -> list[int]:
    """Integers in the attrs that concern positions, without symbolic sizes."""
    numbers: list[int] = []
    waiting = [value for key, value in node.attrs.items() if key not in ("dim", "dims", "tensors")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        elif (
            abs(value) <= _POSITIONS
            and value == int(value)
            and isinstance(witness.size(abs(int(value))), int)
        ):
            numbers.append(abs(int(value)))
    return numbers
