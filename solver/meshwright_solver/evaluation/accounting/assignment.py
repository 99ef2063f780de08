"""Assignments: a plan as integer codes, and the conversion to and from layouts.

`layout_of` converts a state to the layout of a tensor; `codes_of` is its inverse. A plan describes
the root tensor of a value; views follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meshwright.schema import Dim, Layout, LayoutPair, PlanError, SubDim
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.lowering.lower import Lowered
from meshwright_solver.lowering.read_states import ReadStates
from meshwright_solver.problem.op_info import TensorInfo
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models

Codes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Layout that readers share. again: whether it is gathered again in the backward pass."""

    codes: Codes
    again: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """Complete set of choices: by position of op, and by root of value."""

    ops: Mapping[int, Codes]
    rest: Mapping[str, Codes]
    read: Mapping[str, Read]
    parameters: Mapping[str, Codes]


def assignment_of_choice(lowered: Lowered, choice: IntArray) -> Assignment:
    """Assignment from a choice of states in the lowered cost graph."""
    value_of, parameter = lowered.models.values.value_of, lowered.models.parameter
    meanings, states = _Meanings(), choice.tolist()
    return Assignment(
        {
            position: meanings.rows(lowered.op_choices[position])[states[node]]
            for position, node in lowered.op_node.items()
        },
        {
            root: meanings.rows(lowered.rest_states[root])[states[node]]
            for root, node in lowered.rest_node.items()
        },
        {
            root: meanings.reads(lowered.read_states[root])[states[node]]
            for root, node in lowered.read_node.items()
        },
        {
            root: meanings.rows(parameter(value_of[root]).states)[states[node]]
            for root, node in lowered.parameter_node.items()
        },
    )


class _Meanings:
    """States as codes: one list for all nodes that share their states."""

    def __init__(self) -> None:
        self._key_of = IdentityKeys()
        self._rows: dict[IdentityKey, list[Codes]] = {}
        self._reads: dict[IdentityKey, list[Read]] = {}

    def rows(self, states: IntArray) -> list[Codes]:
        key = self._key_of(states)
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = [tuple(row) for row in states.tolist()]
        return rows

    def reads(self, states: ReadStates) -> list[Read]:
        key = self._key_of(states)
        reads = self._reads.get(key)
        if reads is None:
            pairs = zip(self.rows(states.layouts), states.again.tolist(), strict=True)
            reads = self._reads[key] = [Read(codes, again) for codes, again in pairs]
        return reads


def layout_of(
    models: Models, value: ProblemValue, codes: Codes, *, partial: int, order: tuple[int, ...] = ()
) -> Layout:
    """Layout of the root of a value; an axis with the code `partial` is a partial sum.

    Axes of one slot are ordered slowest first among axes of equal rank in `order`.
    """
    key = ("layout", models.look(value), codes, partial, order)
    info = models.problem.tensors[value.root]
    return models.shared(key, lambda: _layout(models, info, value, codes, partial, order))


def _layout(
    models: Models,
    info: TensorInfo,
    value: ProblemValue,
    codes: Codes,
    partial: int,
    order: tuple[int, ...],
) -> Layout:
    names = models.mesh.names
    axes_on: dict[int, list[str]] = {}
    for a in sorted(range(len(codes)), key=lambda a: (order[a] if order else 0, a)):
        if codes[a] < len(value.slots):
            axes_on.setdefault(value.slots[codes[a]], []).append(names[a])
    spans = dict(zip(value.slots, models.ops.space(value.root).spans, strict=False))
    dims: list[list[SubDim]] = [[] for _ in info.shape]
    is_uneven = False
    for k, slot in enumerate(info.slots):
        on = tuple(axes_on.get(k, ()))
        chunks = info.chunks.get(k, ()) if on else ()
        span = spans[k] if on and not chunks and spans.get(k, 0) > slot.size else None
        is_uneven |= span is not None
        dims[slot.dim].append(SubDim(size=slot.size, axes=on, span=span, chunks=chunks))  # type: ignore[arg-type]  # names of the mesh are axes
    return Layout(
        dims=tuple(
            Dim(parts=tuple(parts) or (SubDim(size=1),), segments=info.segments.get(d, ()))
            for d, parts in enumerate(dims)
        ),
        partial={name: "sum" for name, code in zip(names, codes, strict=True) if code == partial},
        padded=is_uneven and models.problem.uneven.padded,
    )


def pair_of(models: Models, value: ProblemValue, codes: Codes) -> LayoutPair:
    """Layouts of value and gradient in a state."""
    key = ("pair", models.look(value), codes)
    return models.shared(key, lambda: _pair(models, value, codes))


def _pair(models: Models, value: ProblemValue, codes: Codes) -> LayoutPair:
    n = len(value.slots)
    has_gradient = models.problem.tensors[value.root].has_gradient
    return LayoutPair(
        value=layout_of(models, value, codes, partial=n + 1),
        gradient=layout_of(models, value, codes, partial=n + 2) if has_gradient else None,
    )


def codes_of(models: Models, value: ProblemValue, pair: LayoutPair) -> Codes:
    """State of a pair of layouts. Raises PlanError if no state has these layouts."""
    n = len(value.slots)
    codes = []
    for name in models.mesh.names:
        places = _places(models, value, pair.value, name)
        if places:
            codes.append(places[0])
        elif name in pair.value.partial:
            codes.append(n + 1)
        elif pair.gradient is not None and name in pair.gradient.partial:
            codes.append(n + 2)
        else:
            codes.append(n)
    state = tuple(codes)
    if pair_of(models, value, state) != pair:
        raise PlanError(
            f"tensor {value.root!r}: the layouts {pair.value} and {pair.gradient} are not a state "
            f"of the search space; use {pair_of(models, value, state)}"
        )
    if not models.ops.space(value.root).valid(np.array([state]))[0]:
        raise PlanError(
            f"tensor {value.root!r}: the layout {pair.value} shards a dim over axes that do not "
            "divide it"
        )
    return state


def _places(models: Models, value: ProblemValue, layout: Layout, axis: str) -> list[int]:
    info = models.problem.tensors[value.root]
    places = []
    for place, k in enumerate(value.slots):
        slot = info.slots[k]
        dim_slots = [s for s in info.slots if s.dim == slot.dim]
        if slot.dim >= len(layout.dims) or len(layout.dims[slot.dim].parts) != len(dim_slots):
            raise PlanError(
                f"tensor {value.root!r}: layout {layout} does not have the sub-dims of its graph"
            )
        if axis in layout.dims[slot.dim].parts[dim_slots.index(slot)].axes:
            places.append(place)
    return places


def parameter_layouts(
    models: Models, value: ProblemValue, codes: Codes, order: tuple[int, ...] = ()
) -> tuple[Layout, Layout | None, Layout | None]:
    """Layouts of the value, gradient and optimizer state of a parameter."""
    model = models.parameter(value)
    row = np.array([codes])

    def layout(states: IntArray) -> Layout:
        state = tuple(int(code) for code in states[0])
        return layout_of(models, value, state, partial=-1, order=order)

    if not model.trained:
        return layout(model.value(row)), None, None
    return layout(model.value(row)), layout(model.gradient(row)), layout(model.optimizer(row))
