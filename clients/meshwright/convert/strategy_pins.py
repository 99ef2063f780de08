"""Pins of a MindSpore strategy file, for a graph that carries its names or is given them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import gcd
from typing import NamedTuple

from meshwright.convert.plan_pins import ALL, ImportedPins, TensorCuts, kept_ops, pins_by_glob
from meshwright.convert.strategy_file import OperatorCuts, StrategyFile
from meshwright.schema import Graph, Model, Op, RequestError
from meshwright.stages.view_layouts import KINDS as VIEW_KINDS

_INSERTED = re.compile(r"(?:^|/)_[^/]*$")  # operators that MindSpore itself adds
_SHOWN = 3  # chosen: names in a message
_Shape = tuple[int, ...]


class OpName(Model):
    """The op of an operator, where both have their own names.

    transposed: the inputs whose last two dims are in the opposite order, such as the weight of a
    `linear` op for a MatMul without `transpose_b`.
    """

    op: str
    transposed: tuple[int, ...] = ()


OpNames = Mapping[str, OpName]


class _Match(NamedTuple):
    operator: str
    op: Op
    transposed: tuple[int, ...]


def pins_of_strategies(
    file: StrategyFile,
    graph: Graph,
    *,
    names: OpNames | None = None,
    keep: Sequence[str] = ALL,
    symbols: Mapping[str, int] | None = None,
) -> ImportedPins:
    """Pins with the cuts of a strategy file.

    names: ops by the name of the operator; a `*` in both stands for the same text. Without names,
    ops have the names of the operators. keep: globs of ops. symbols: sizes of the graph.

    Raises RequestError for operators without an op, and for cuts that do not fit the op's inputs.
    """
    kept = set().union(*kept_ops(graph, keep).values())
    shapes = graph.instantiate(dict(symbols or {}))
    cuts: dict[str, TensorCuts] = {}
    remarks = []
    for match in _matches(file, graph, names, keep):
        op, operator = match.op, file.operators[match.operator]
        if op.name not in kept or op.kind in VIEW_KINDS:
            continue
        cuts[op.name] = _cuts_of(match, operator, [shapes[name] for name in op.inputs])
        if operator.outputs is not None:
            remarks.append(
                f"op {op.name!r}: its out_strategy {operator.outputs} is not pinned; the search "
                "chooses where its partial sums are reduced"
            )
    if not cuts:
        raise RequestError(
            f"--keep {', '.join(map(repr, keep))} matches no op that has a strategy in the file. "
            "Use globs of names or module paths of the graph"
        )
    return ImportedPins(*pins_by_glob(graph, cuts, remarks))


def _matches(
    file: StrategyFile, graph: Graph, names: OpNames | None, keep: Sequence[str]
) -> Iterator[_Match]:
    ops = {op.name: op for op in graph.ops}
    operators = [name for name in file.operators if not _INSERTED.search(name)]
    named = {name: _op_name(name, names) for name in operators}
    unknown = [
        name
        for name, op_name in named.items()
        if op_name is not None
        and op_name.op not in ops
        and any(fnmatchcase(op_name.op, glob) for glob in keep)
    ]
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        meant = named[unknown[0]]
        raise RequestError(
            f"the graph has no op for {', '.join(map(repr, unknown[:_SHOWN]))}{more} of the "
            f"strategy file{f' (named {meant.op!r})' if names and meant else ''}. Use "
            "--strategy-names with a file of the operators' names and the ops' names"
        )
    for name, op_name in named.items():
        if op_name is not None and op_name.op in ops:
            yield _Match(name, ops[op_name.op], op_name.transposed)


def _op_name(operator: str, names: OpNames | None) -> OpName | None:
    if names is None:
        return OpName(op=operator)
    if operator in names:
        return names[operator]
    for glob, name in names.items():
        match = re.fullmatch("(.*?)".join(map(re.escape, glob.split("*"))), operator)
        if match is not None:
            return name.like(op=_filled(name.op, match.groups()))
    return None


def _filled(glob: str, texts: Sequence[str]) -> str:
    """A glob with a text in place of each star, in order; further stars stay."""
    filled = glob
    for text in texts:
        filled = filled.replace("*", text, 1)
    return filled


def _cuts_of(match: _Match, operator: OperatorCuts, shapes: Sequence[_Shape]) -> TensorCuts:
    op = match.op
    if op.kind == "one_hot":  # MindSpore states the cuts of its result
        return TensorCuts(None, (operator.inputs[0],))
    if len(operator.inputs) > len(shapes):
        raise RequestError(
            f"operator {match.operator!r} has cuts of {len(operator.inputs)} inputs, op "
            f"{op.name!r} has {len(shapes)} inputs. Leave the op out of --keep"
        )
    cuts = []
    for place, (ways, shape) in enumerate(zip(operator.inputs, shapes, strict=False)):
        if place in match.transposed and len(ways) > 1:
            ways = (*ways[:-2], ways[-1], ways[-2])
        cuts.append(_as_dims(match, place, ways, shape))
    return TensorCuts((*cuts, *(None,) * (len(shapes) - len(cuts))))


def _as_dims(match: _Match, place: int, ways: tuple[int, ...], shape: _Shape) -> tuple[int, ...]:
    """The cuts for a shape; the first dim of fewer dims is several dims of the shape in one."""
    if len(ways) == len(shape):
        return ways
    if not ways or len(ways) > len(shape):
        raise RequestError(
            f"operator {match.operator!r} cuts {len(ways)} dims of input {place}, op "
            f"{match.op.name!r} has the shape {list(shape)} there. Leave the op out of --keep"
        )
    joined = len(shape) - len(ways) + 1
    left, first = ways[0], []
    for size in shape[:joined]:
        first.append(gcd(left, size))
        left //= first[-1]
        if first[-1] < size and left > 1:
            break
    if left > 1:
        raise RequestError(
            f"operator {match.operator!r} cuts dim 0 of input {place} into {ways[0]} parts, which "
            f"the dims {list(shape[:joined])} of op {match.op.name!r} do not divide into. Leave "
            "the op out of --keep"
        )
    return (*first, *(1,) * (joined - len(first)), *ways[1:])
