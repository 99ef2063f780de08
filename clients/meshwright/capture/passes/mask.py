"""Recognition of attention masks that depend on positions only.

The pass evaluates the subgraph of a mask and compares its values. The evaluated size is larger than
every number in the subgraph: 4,100 positions show a window of 4,096. A number beyond that is
replaced by two small ones in turn, which have to give the same kind of mask.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from meshwright.capture.names import name_values
from meshwright.capture.passes.mask_parts import MaskPart, MaskParts
from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.passes.score_terms import MaskNodes
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema.errors import GraphError

MaskAttrs = dict[str, Any]

_LIMITS = {"window", "chunk"}
_BATCH = 2
_MARGIN = 7  # chosen: positions beyond the largest number of the subgraph
_LARGEST = 4608  # chosen: a mask of 21 million elements, for windows of up to 4,096
_REPEATED = 256  # chosen: sequences of three times as many positions are evaluated at once
_POSITIONS = 2**31  # chosen: larger numbers are scores of hidden positions
_LONGER = 1030  # chosen: of a second evaluation, for masks with quotients of the sequence
_STAND_INS = (13, 17)  # chosen: primes that no other number of a mask is likely to be


def recognize_masks(program: Program) -> None:
    """Replace masks made from positions by attrs, and drop masks that hide nothing.

    `causal`: a query sees keys up to its own position. `window`: those at a distance of less than
    so many positions. `chunk`: those of its own chunk of so many positions. The parts of a mask
    that depend on other things stay.
    """
    known: dict[Value, _Recognized | None] = {}
    additions: dict[Node, list[Node]] = {}
    upstream = Upstream(program)
    for node in program.nodes:
        operands = 5 if node.attrs.get("sinks") else 4
        if node.kind != "attention" or len(node.inputs) != operands or node.attrs["causal"]:
            continue
        mask = node.inputs[3]
        if mask not in known:
            made = MaskNodes(node.module)
            known[mask] = _recognized(program, MaskParts(upstream, made), mask)
            additions[node] = made.nodes
        recognized = known[mask]
        if recognized is not None:
            rest = [] if recognized.rest is None else [recognized.rest]
            node.inputs = [*node.inputs[:3], *rest, *node.inputs[4:]]
            node.attrs = {**node.attrs, **recognized.attrs}
    program.insert_before(additions)


class _Recognized(NamedTuple):
    """The attrs of a mask, and the mask of its other parts."""

    attrs: MaskAttrs
    rest: Value | None = None


def _recognized(program: Program, masks: MaskParts, mask: Value) -> _Recognized | None:
    whole = _mask_attrs(program, mask)
    if whole is not None:
        return _Recognized(whole)
    parts = masks.of(mask)
    placed = [
        part for part in parts if not _extended(program, masks).upstream([part.value]).sources
    ]
    recognized: dict[MaskPart, MaskAttrs | None] = {}
    # parts may be a window together, such as the keys before a query and those not long before
    if len(placed) > 1 and (whole := _attrs_of_parts(program, masks, placed)) is not None:
        recognized = dict.fromkeys(placed, whole)
    else:
        recognized = {part: _attrs_of_parts(program, masks, [part]) for part in placed}
    attrs: MaskAttrs = {}
    rest: list[MaskPart] = []
    for part in parts:
        found = recognized.get(part)
        if found is None or any(
            attrs.get(name, found[name]) != found[name] for name in _LIMITS & found.keys()
        ):
            rest.append(part)
            continue
        attrs |= {**found, "causal": bool(attrs.get("causal") or found.get("causal"))}
    if len(rest) == len(parts):
        return None
    return _Recognized(attrs, _joined(masks, rest))


def _attrs_of_parts(
    program: Program, masks: MaskParts, parts: Sequence[MaskPart]
) -> MaskAttrs | None:
    mask = _joined(masks, parts)
    return None if mask is None else _mask_attrs(_extended(program, masks), mask)


def _joined(masks: MaskParts, parts: Sequence[MaskPart]) -> Value | None:
    conditions = [part.value for part in parts if part.is_condition]
    return masks.made.joined(conditions, [part.value for part in parts if not part.is_condition])


def _extended(program: Program, masks: MaskParts) -> Program:
    """The program with the new nodes of the parts, which depend on its nodes."""
    return replace(program, nodes=[*program.nodes, *masks.made.nodes])


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
    """The attrs of a mask by its values; those that change with the sequence are none."""
    sizes = _sizes(part, mask, largest)
    attrs = None if sizes is None else _attrs_at(part, mask, sizes)
    divisor = _largest_of_sizes(part)
    if sizes is None or attrs is None or divisor is None:
        return attrs
    longer = max(sizes["seq"] * 2, _LONGER, 3 * divisor) + 1
    again = _attrs_at(part, mask, {**sizes, "seq": longer}) if longer <= _LARGEST else None
    return attrs if attrs == again else None


def _attrs_at(part: Program, mask: Value, sizes: Mapping[str, int]) -> MaskAttrs | None:
    # only programs from torch use this pass
    import torch

    from meshwright.capture.interpreter import interpret
    from meshwright.capture.interpreter.attention import visible_keys

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
    width = int(table[-1].sum())
    yield {"causal": True, "window": width}
    yield {"causal": False, "window": width}
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


def _largest_of_sizes(part: Program) -> int | None:
    """The largest integer in attrs that are expressions of the sequence, such as seq//4.

    None where attrs hold the sequence itself and other numbers alone.
    """
    found = [
        int(number)
        for node in part.nodes
        for value in node.attrs.values()
        if isinstance(value, int)
        and isinstance(size := part.symbolic_size(value), str)
        and re.search(r"\bseq\b", size)
        and size != "seq"
        for number in ("0", *re.findall(r"\d+", size))
    ]
    return max(found, default=None)


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
