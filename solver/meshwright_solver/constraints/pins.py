"""Pins: strategies that the user fixes, as a choice among those that an op can have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Graph, Mesh, Pin, RequestError, TooLarge
from meshwright.schema.dim_cuts import axes_of, counts_of
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.name_globs import Names, alike
from meshwright_solver.constraints.dim_pins import check_cuts
from meshwright_solver.problem.dataset_loading import loading_pins
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter


def pinned_ops(problem: Problem, pins: Sequence[Pin], views: frozenset[int]) -> dict[int, Pin]:
    """Position of op -> the pin that fixes it; the last pin that matches wins.

    A strategy written on an op of the graph is a pin of its own, below those of the request; how
    inputs are loaded is one above them. Raises RequestError for a pin that matches no op, or that
    an op which it matches cannot mean.
    """
    found: dict[int, Pin] = {}
    for position, op in enumerate(problem.ops):
        if op.op.strategy is not None and position not in views:
            found[position] = Pin(op=op.name, strategy=op.op.strategy)  # type: ignore[arg-type]  # axis names
    loading = loading_pins(problem.graph, problem.setup)
    if pins:
        planned = [
            position
            for position, op in enumerate(problem.ops)
            if position not in views and op.name not in loading
        ]
        found.update(_matched(problem, pins, planned))
    for position, op in enumerate(problem.ops):
        if op.name in loading:
            found[position] = loading[op.name]
    for position in sorted(found):
        _check_factors(problem.ops[position], found[position])
        check_cuts(problem, problem.ops[position], found[position])
    return found


def _matched(problem: Problem, pins: Sequence[Pin], planned: Sequence[int]) -> dict[int, Pin]:
    """Position of op -> the last pin that matches it, of the ops at these positions."""
    found: dict[int, Pin] = {}
    names = Names([problem.ops[position].name for position in planned])
    modules = Names([problem.ops[position].op.module for position in planned])
    for index, pin in enumerate(pins):
        matched = {planned[place] for own in (names, modules) for place in own.matching(pin.op)}
        if not matched:
            raise RequestError(
                f"pin {pin.op!r} matches no op; ops are named like "
                + alike(pin.op, [op.name for op in problem.ops]),
                pointer=f"/pins/{index}/op",
            )
        found.update(dict.fromkeys(matched, pin))
    return found


def matching_pins(
    graph: Graph, pins: Sequence[Pin], module: str | None = None
) -> dict[str, tuple[int, ...]]:
    """Name of op -> the pins that match it, by number; ops that none matches are left out.

    module: the glob of a request for a submodule, numbered behind the pins.
    """
    found: dict[str, tuple[int, ...]] = {}
    globs = [*(pin.op for pin in pins), *([module] if module is not None else [])]
    if not globs:
        return found
    names = Names([op.name for op in graph.ops])
    modules = Names([op.module for op in graph.ops])
    for index, glob in enumerate(globs):
        try:
            places = {place for own in (names, modules) for place in own.matching(glob)}
        except TooLarge as error:
            raise error.within(f"/pins/{index}/op" if index < len(pins) else "/module") from None
        for place in places:
            name = graph.ops[place].name
            found[name] = (*found.get(name, ()), index)
    return found


def allowed_strategies(pin: Pin, op: OpInfo, mesh: Mesh) -> StrategyFilter:
    """Which strategies keep a pin of a strategy on this mesh: its axes lie where it says, no other.

    A topology level stands for all of its axes. On a mesh without one of the pin's axes nothing
    keeps it. What may follow a factor (`t@s?`) is left to the search, unless the pin names it: with
    an axis of the factor it follows, with none it does not.
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
        kept = np.full(len(choices), not missing, dtype=np.bool_)
        for a, names in enumerate(wanted):
            codes = _codes_of(model, names, named) if names else [model.idle]
            kept &= np.isin(choices[:, a], codes)
        return kept

    return keep


def exactly(row: IntArray) -> StrategyFilter:
    """Keeps this one strategy."""

    def keep(_: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = (choices == row).all(axis=1)
        return kept

    return keep


def _codes_of(model: OpModel, names: list[set[int]], named: set[int]) -> list[int]:
    """Codes of an axis on the parts of `names`; what else follows is nowhere `named`."""
    here = set().union(*names)
    fits = {
        code: sum(not name.isdisjoint(own) for name in names)
        for code, own in enumerate(model.parts_of_code)
        if own and own[0] in here and named.isdisjoint(set(own) - here)
    }
    return [code for code, count in fits.items() if count == max(fits.values())]


def _parts_named(op: OpInfo, name: str) -> set[int]:
    """A factor means all of its parts; a part means itself."""
    return {j for j, part in enumerate(op.parts) if name in (part.name, part.factor)}


def _check_factors(op: OpInfo, pin: Pin) -> None:
    strategy = pin.strategy or {}
    for axis in {axis for axes in strategy.values() for axis in axes}:
        on = [name for name, axes in strategy.items() for own in axes if own == axis]
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
    """Whether of two names one may follow the other."""
    parts = [[op.parts[j] for j in _parts_named(op, name)] for name in names]
    return len(names) == 2 and any(
        a.factor in b.may_follow for x, y in (parts, parts[::-1]) for a in x for b in y
    )


def check_axes(pins: Sequence[Pin], meshes: Sequence[Mesh]) -> None:
    """Raise RequestError for an axis that is neither a level nor an axis of any mesh searched.

    Also for a number of parts that the axes of none of them make up.
    """
    known = {name for mesh in meshes for axis in mesh.axes for name in (axis.name, axis.level)}
    products = {ways for mesh in meshes for ways in _products(mesh)}
    for pin in pins:
        cuts = [own for own in (*(pin.inputs or ()), *(pin.outputs or ())) if own is not None]
        named = [axis for axes in (pin.strategy or {}).values() for axis in axes]
        for axis in (*named, *(axis for own in cuts for axis in axes_of(own))):
            if axis not in known:
                raise RequestError(
                    f"pin {pin.op!r}: there is no axis {axis!r}; use a level of the topology "
                    f"or a mesh axis: {', '.join(sorted(known))}"
                )
        for count in (count for own in cuts for count in counts_of(own)):
            if count not in products:
                raise RequestError(
                    f"pin {pin.op!r}: no axes of any mesh make {count} parts; they make "
                    f"{', '.join(map(str, sorted(products)))}"
                )


def _products(mesh: Mesh) -> set[int]:
    """Into how many parts some of the axes divide."""
    found = {1}
    for axis in mesh.axes:
        found |= {ways * axis.size for ways in found}
    return found
