"""Pins of a stored plan: the strategies of its ops as pins for another search.

A pin states the number of parts of every dim of the op's inputs and outputs. It names no mesh axis,
so that it holds on every mesh and topology whose axes make these numbers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fnmatch import translate
from typing import NamedTuple

from meshwright.common.name_ranges import pattern
from meshwright.schema import (
    Axis,
    Graph,
    Mesh,
    Notation,
    Op,
    OpPlan,
    Pin,
    Plan,
    RequestError,
    parse_notation,
)
from meshwright.schema.dim_cuts import Cuts
from meshwright.schema.notation import Segments, Term

ALL = ("*",)
_WILD = re.compile(r"([*?[])")


class ImportedPins(NamedTuple):
    """Pins, and a remark for each strategy or part of one that no pin states."""

    pins: tuple[Pin, ...]
    remarks: tuple[str, ...] = ()


class TensorCuts(NamedTuple):
    """The cuts of an op's inputs and outputs; None leaves a tensor, or all of them, open."""

    inputs: tuple[Cuts | None, ...] | None
    outputs: tuple[Cuts | None, ...] | None = None


def pins_of_plan(plan: Plan, graph: Graph, *, keep: Sequence[str] = ALL) -> ImportedPins:
    """Pins for the ops of a graph, with the strategies that a plan has for ops of these names.

    keep: globs of names or module paths. Raises RequestError for a glob without an op of the plan,
    and for kept ops that the graph lacks.
    """
    planned = {
        op.op: (op, stage.mesh) for stage in plan.stages for op in stage.ops if op.rule is not None
    }
    kept = kept_ops(graph, keep)
    for glob, names in kept.items():
        if planned.keys().isdisjoint(names):
            raise RequestError(
                f"--keep {glob!r} matches no op of the graph that the plan shards. Use a glob of "
                f"names or module paths, such as {next(iter(planned), '*')!r}"
            )
    wanted = set().union(*kept.values())
    cuts: dict[str, TensorCuts] = {}
    remarks = []
    for op in graph.ops:
        if op.name not in wanted or op.name not in planned:
            continue
        op_plan, mesh = planned[op.name]
        if op_plan.partial:
            remarks.append(
                f"op {op.name!r} is not pinned: partial sums over {', '.join(op_plan.partial)} "
                "pass through it, which no pin states"
            )
            continue
        cuts[op.name] = _cuts_of(op_plan, mesh, len(op.inputs), len(op.outputs))
    return ImportedPins(*pins_by_glob(graph, cuts, remarks))


def kept_ops(graph: Graph, keep: Sequence[str]) -> dict[str, set[str]]:
    """By glob, the names of the ops whose name or module path it matches."""
    return {
        glob: {
            op.name for op in graph.ops if any(map(re.compile(translate(glob)).match, _paths(op)))
        }
        for glob in keep
    }


def pins_by_glob(
    graph: Graph, cuts: Mapping[str, TensorCuts], remarks: Iterable[str] = ()
) -> tuple[tuple[Pin, ...], tuple[str, ...]]:
    """One pin for all ops of a repeated name with equal cuts, else a pin for each op."""
    groups: dict[tuple[str, Hashable], list[str]] = {}
    for name, op_cuts in cuts.items():
        groups.setdefault((pattern(name), op_cuts), []).append(name)
    paths = [(op.name, set(_paths(op))) for op in graph.ops]
    pins: list[tuple[int, Pin]] = []
    left_out = list(remarks)
    for (label, _), names in groups.items():
        matched = _matched(label, paths)
        globs = [label] if matched == set(names) else [_WILD.sub(r"[\1]", name) for name in names]
        for glob in globs:
            others = _matched(glob, paths) - set(names)
            if loose := sorted(others - cuts.keys()):
                left_out.append(
                    f"op {names[0]!r} is not pinned: its name is the module path of {loose[0]!r}, "
                    "which has no pin"
                )
            else:
                # the last pin of an op holds: pins of wider globs come first
                pins.append((-len(others), _pin(glob, cuts[names[0]])))
    pins.sort(key=lambda pair: pair[0])
    return tuple(pin for _, pin in pins), tuple(left_out)


def _matched(glob: str, paths: Sequence[tuple[str, set[str]]]) -> set[str]:
    match = re.compile(translate(glob)).match
    return {name for name, texts in paths if any(map(match, texts))}


def _paths(op: Op) -> tuple[str, str]:
    return op.name, op.module


def _pin(glob: str, cuts: TensorCuts) -> Pin:
    return Pin(op=glob, inputs=cuts.inputs, outputs=cuts.outputs)


def _cuts_of(op: OpPlan, mesh: Mesh, inputs: int, outputs: int) -> TensorCuts:
    rule = parse_notation(op.rule or "")
    terms = rule.terms_of(inputs + outputs)
    cuts = [_term_cuts(op, rule, term, mesh) for term in terms]
    given, made = tuple(cuts[:inputs]), tuple(cuts[inputs:])
    read = {f for term in terms[:inputs] for dim in term for product in dim for f in product}
    is_complete = None not in given and all(f in read for f, axes in op.strategy.items() if axes)
    return TensorCuts(given, None if is_complete and inputs else made)


def _term_cuts(op: OpPlan, rule: Notation, term: Term, mesh: Mesh) -> Cuts | None:
    """The cuts of a tensor; None if one axis is counted on two of its dims."""
    axes = [_axes_on(op, rule, dim) for dim in term]
    if sum(map(len, axes)) > len(set().union(*axes)):
        return None
    return tuple(mesh.size(dim_axes) for dim_axes in axes)


def _axes_on(op: OpPlan, rule: Notation, dim: Segments) -> frozenset[Axis]:
    axes: set[Axis] = set()
    for factor in (f for product in dim for f in product):
        axes.update(op.strategy.get(rule.follows.get(factor, factor), ()))
        for leader in rule.may_follow.get(factor, ()):
            axes.update(axis for axis in op.strategy.get(leader, ()) if axis in op.followers)
    return frozenset(axes)
