"""Dim pins: the cuts of an op's inputs and outputs, dim by dim.

A strategy satisfies a pin if the axes on each dim are those named, or make the stated number of
parts. All other axes are idle, unless the pin leaves an input or output open. An output cut by the
summed factor is also partial; the search decides where to reduce it. Partial sums do not pass
through a pinned op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Mesh, Pin, RequestError
from meshwright.schema.dim_cuts import Cut, Cuts, show_cuts
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.op_model import OpModel


def check_cuts(problem: Problem, op: OpInfo, pin: Pin) -> None:
    """Raise RequestError if a pin's cuts do not fit the op's inputs and outputs."""
    ways_of_dim: dict[frozenset[int], tuple[Cut, str]] = {}
    for side, ports, pinned in (
        ("input", op.inputs, pin.inputs),
        ("output", op.outputs, pin.outputs),
    ):
        if pinned is None:
            continue
        if len(pinned) != len(ports):
            raise RequestError(
                f"pin {pin.op!r}: op {op.name!r} has {len(ports)} {side}s, the pin has cuts of "
                f"{len(pinned)}"
            )
        for k, (port, cuts) in enumerate(zip(ports, pinned, strict=True)):
            if cuts is not None:
                where = f"pin {pin.op!r}: {side} {k} of op {op.name!r}"
                _check_port(problem, port, cuts, where)
                for d, cut in enumerate(cuts):
                    parts = frozenset(_parts_of_dims(problem, port)[d])
                    known, there = ways_of_dim.setdefault(parts, (cut, where))
                    if parts and isinstance(cut, int) and isinstance(known, int) and cut != known:
                        raise RequestError(
                            f"{where} cuts dim {d} into {cut} parts and {there} the same factor "
                            f"into {known} ({op.notation})"
                        )


def _check_port(problem: Problem, port: OpPort, cuts: Cuts, where: str) -> None:
    shape = problem.tensors[port.tensor].shape
    if len(cuts) != len(shape):
        raise RequestError(
            f"{where} has the shape {list(shape)}, its cuts {show_cuts(cuts)} are for "
            f"{len(cuts)} dims"
        )
    named = [axis for cut in cuts if not isinstance(cut, int) for axis in cut]
    for axis in named:
        if named.count(axis) > 1:
            raise RequestError(f"{where}: axis {axis!r} is listed twice in {show_cuts(cuts)}")
    devices = problem.topology.device_count
    ways = prod(cut for cut in cuts if isinstance(cut, int))
    if ways > devices:
        raise RequestError(
            f"{where}: {show_cuts(cuts)} cuts it into {ways} parts, there are {devices} devices. "
            f"Use at most {devices} parts, or leave the op out of the pins"
        )
    for d, cut in enumerate(cuts):
        is_whole = cut in (1, ())
        if not is_whole and not _parts_of_dims(problem, port)[d]:
            raise RequestError(f"{where}: its dim {d} is no factor of the op and stays whole")
        uneven = problem.setup.uneven != "refuse"
        if isinstance(cut, int) and shape[d] % cut and not uneven:
            raise RequestError(
                f"{where}: dim {d} of {shape[d]} does not divide into {cut} parts. Use another "
                "number, or `uneven: chunk` or `uneven: pad` in the setup"
            )


def keeps_cuts(
    problem: Problem, op: OpInfo, pin: Pin, mesh: Mesh
) -> Callable[[OpModel, IntArray], NDArray[np.bool_]]:
    """A filter that keeps the strategies with the pin's cuts of inputs and outputs on a mesh."""
    ports = [
        (port, cuts)
        for side, pinned in ((op.inputs, pin.inputs), (op.outputs, pin.outputs))
        for port, cuts in zip(side, pinned or (None,) * len(side), strict=True)
    ]
    # a part that no cut names is open only if the pin leaves a whole tensor open
    named_parts = {
        part
        for port, cuts in ports
        if cuts is not None
        for parts in _parts_of_dims(problem, port).values()
        for part in parts
    }
    inputs_open = pin.inputs is None or any(cuts is None for cuts in pin.inputs)
    sizes = np.array([axis.size for axis in mesh.axes], dtype=np.int64)

    def keep(model: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        passing = (choices > model.idle) & (choices <= model.idle + len(model.groups))
        mask: NDArray[np.bool_] = np.asarray(~passing.any(axis=1))
        if not inputs_open:
            mask &= ~model.lies_on(
                [part not in named_parts for part in range(model.parts)], choices
            ).any(axis=1)
        for port, cuts in ports:
            for d, cut in enumerate(cuts or ()):
                parts = _parts_of_dims(problem, port)[d]
                on = model.lies_on([part in parts for part in range(model.parts)], choices)
                if isinstance(cut, int):
                    mask &= np.where(on, sizes, 1).prod(axis=1) == cut
                else:
                    mask &= (on == _named(mesh, cut)).all(axis=1) & _known(mesh, cut)
        return mask

    return keep


def _named(mesh: Mesh, axes: tuple[str, ...]) -> NDArray[np.bool_]:
    """Flags of the mesh axes named by axis or by level; axes of size 1 are never named."""
    return np.array(
        [axis.size > 1 and bool({axis.name, axis.level} & set(axes)) for axis in mesh.axes]
    )


def _known(mesh: Mesh, axes: tuple[str, ...]) -> bool:
    return set(axes) <= {name for axis in mesh.axes for name in (axis.name, axis.level)}


def _parts_of_dims(problem: Problem, port: OpPort) -> Mapping[int, set[int]]:
    """The op's parts on each dim of a tensor."""
    info = problem.tensors[port.tensor]
    parts_of: dict[int, set[int]] = {d: set() for d in range(len(info.shape))}
    for part, slot in port.slot_of.items():
        parts_of[info.slots[slot].dim].add(part)
    return parts_of
