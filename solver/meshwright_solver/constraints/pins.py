"""Pins: strategies that the user fixes, as filters on the strategies of an op."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Graph, Mesh, Op, Pin, RequestError, TooLarge
from meshwright.schema.dim_cuts import axes_of, counts_of
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.name_globs import Names, alike
from meshwright_solver.constraints.dim_pins import check_cuts
from meshwright_solver.problem.dataset_loading import loading_pins
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter


def pinned_ops(problem: Problem, pins: Sequence[Pin], views: frozenset[int]) -> dict[int, Pin]:
    """The pin of each pinned op, by position; the last pin that matches wins.

    Precedence, lowest first: strategies written on ops of the graph, pins of the request, pins of
    input loading. Raises RequestError for a pin that matches no op, or that does not fit an op that
    it matches.
    """
    pin_of: dict[int, Pin] = {}
    for position, op in enumerate(problem.ops):
        if op.op.strategy is not None and position not in views:
            pin_of[position] = Pin(op=op.name, strategy=op.op.strategy)  # type: ignore[arg-type]  # axis names
    loading = loading_pins(problem.graph, problem.setup)
    if pins:
        planned = [
            position
            for position, op in enumerate(problem.ops)
            if position not in views and op.name not in loading
        ]
        pin_of.update(_matched(problem, pins, planned))
    for position, op in enumerate(problem.ops):
        if op.name in loading:
            pin_of[position] = loading[op.name]
    for position in sorted(pin_of):
        _check_factors(problem.ops[position], pin_of[position])
        check_cuts(problem, problem.ops[position], pin_of[position])
    return pin_of


def _matched(problem: Problem, pins: Sequence[Pin], planned: Sequence[int]) -> dict[int, Pin]:
    """The last matching pin of the ops at these positions, by position."""
    pin_of: dict[int, Pin] = {}
    names = Names([problem.ops[position].name for position in planned])
    modules = Names([problem.ops[position].op.module for position in planned])
    for index, pin in enumerate(pins):
        matched = {
            planned[place]
            for searched in (names, modules)
            for place in searched.matching(pin.op)
            if _is_meant(problem.ops[planned[place]].op, pin.op)
        }
        if not matched:
            raise RequestError(
                f"pin {pin.op!r} matches no op; ops are named like "
                + alike(pin.op, [op.name for op in problem.ops]),
                pointer=f"/pins/{index}/op",
            )
        pin_of.update(dict.fromkeys(matched, pin))
    return pin_of


def _is_meant(op: Op, glob: str) -> bool:
    """Whether a matching glob applies to an op: to what a stage receives only by name.

    `*.attention` is of the ops of the graph, and not of `receive 1.attention:out` in a stage.
    """
    return op.kind != RECEIVE or glob.startswith(RECEIVE)


def matching_pins(
    graph: Graph, pins: Sequence[Pin], module: str | None = None
) -> dict[str, tuple[int, ...]]:
    """Numbers of the matching pins by name of op, without ops that no pin matches.

    module: the glob of a request for a submodule, numbered after the pins.
    """
    pins_of: dict[str, tuple[int, ...]] = {}
    globs = [*(pin.op for pin in pins), *([module] if module is not None else [])]
    if not globs:
        return pins_of
    names = Names([op.name for op in graph.ops])
    modules = Names([op.module for op in graph.ops])
    for index, glob in enumerate(globs):
        try:
            places = {
                place
                for searched in (names, modules)
                for place in searched.matching(glob)
                if _is_meant(graph.ops[place], glob)
            }
        except TooLarge as error:
            raise error.within(f"/pins/{index}/op" if index < len(pins) else "/module") from None
        for place in places:
            name = graph.ops[place].name
            pins_of[name] = (*pins_of.get(name, ()), index)
    return pins_of


def allowed_strategies(pin: Pin, op: OpInfo, mesh: Mesh) -> StrategyFilter:
    """A filter that keeps the strategies of a strategy pin: its axes on its factors, others idle.

    A topology level stands for all of its axes. On a mesh without one of the pin's axes, no
    strategy passes. The search decides on parts that may follow a factor (`t@s?`), unless the pin
    names them: with an axis of the factor they follow, without one they do not.
    """
    strategy = pin.strategy or {}
    names = {name for axis in mesh.axes for name in (axis.name, axis.level)}
    missing = any(axis not in names for axes in strategy.values() for axis in axes)
    parts = {name: _parts_named(op, name) for name in strategy}
    named = set().union(*parts.values())
    wanted: list[list[set[int]]] = []
    for axis in mesh.axes:
        on = [name for name, axes in strategy.items() if {axis.name, axis.level} & set(axes)]
        wanted.append([parts[name] for name in on] if axis.size > 1 else [])

    def keep(model: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        mask = np.full(len(choices), not missing, dtype=np.bool_)
        for a, names in enumerate(wanted):
            codes = _codes_of(model, names, named) if names else [model.idle]
            mask &= np.isin(choices[:, a], codes)
        return mask

    return keep


def exactly(row: IntArray) -> StrategyFilter:
    """A filter that keeps one strategy."""

    def keep(_: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = (choices == row).all(axis=1)
        return mask

    return keep


def _codes_of(model: OpModel, names: list[set[int]], named: set[int]) -> list[int]:
    """Codes of an axis on most of `names`, without following parts that are `named` elsewhere."""
    here = set().union(*names)
    fits = {
        code: sum(not name.isdisjoint(parts) for name in names)
        for code, parts in enumerate(model.parts_of_code)
        if parts and parts[0] in here and named.isdisjoint(set(parts) - here)
    }
    return [code for code, count in fits.items() if count == max(fits.values())]


def _parts_named(op: OpInfo, name: str) -> set[int]:
    """The parts that a name stands for: all parts of a factor, or one part."""
    return {j for j, part in enumerate(op.parts) if name in (part.name, part.factor)}


def _check_factors(op: OpInfo, pin: Pin) -> None:
    strategy = pin.strategy or {}
    for axis in {axis for axes in strategy.values() for axis in axes}:
        on = [name for name, axes in strategy.items() for listed in axes if listed == axis]
        if len(on) > 1 and not _follows(op, on):
            raise RequestError(f"pin {pin.op!r}: axis {axis!r} is listed twice")
    for name in strategy:
        if not _parts_named(op, name):
            known = ", ".join(part.name for part in op.parts) or "none"
            raise RequestError(
                f"pin {pin.op!r}: op {op.name!r} has no factor {name!r}; its factors are {known} "
                f"({op.notation})"
            )


def _follows(op: OpInfo, names: list[str]) -> bool:
    """Whether one of two names may follow the other."""
    parts = [[op.parts[j] for j in _parts_named(op, name)] for name in names]
    return len(names) == 2 and any(
        a.factor in b.may_follow for x, y in (parts, parts[::-1]) for a in x for b in y
    )


def check_axes(pins: Sequence[Pin], meshes: Sequence[Mesh]) -> None:
    """Raise RequestError for a pin that no searched mesh can satisfy.

    That is, for an axis that is neither a level nor a mesh axis, or for a number of parts that is
    no product of the axes of a mesh.
    """
    known = {name for mesh in meshes for axis in mesh.axes for name in (axis.name, axis.level)}
    products = {ways for mesh in meshes for ways in _products(mesh)}
    for pin in pins:
        cuts = [
            tensor_cuts
            for tensor_cuts in (*(pin.inputs or ()), *(pin.outputs or ()))
            if tensor_cuts is not None
        ]
        named = [axis for axes in (pin.strategy or {}).values() for axis in axes]
        for axis in (*named, *(axis for tensor_cuts in cuts for axis in axes_of(tensor_cuts))):
            if axis not in known:
                raise RequestError(
                    f"pin {pin.op!r}: there is no axis {axis!r}. Use a level of the topology "
                    f"or a mesh axis: {', '.join(sorted(known))}"
                )
        for count in (count for tensor_cuts in cuts for count in counts_of(tensor_cuts)):
            if count not in products:
                raise RequestError(
                    f"pin {pin.op!r}: no axes of any mesh make {count} parts; they make "
                    f"{', '.join(map(str, sorted(products)))}. Use one of these, or leave the op "
                    "out of the pins"
                )


def _products(mesh: Mesh) -> set[int]:
    """Products of the sizes of all subsets of axes."""
    counts = {1}
    for axis in mesh.axes:
        counts |= {ways * axis.size for ways in counts}
    return counts
