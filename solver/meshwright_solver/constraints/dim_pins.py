"""Dim pins: the cuts of an op's inputs and outputs, dim by dim.

A strategy satisfies a pin if the axes on each dim are those named, or make the stated number of
parts. All other axes are idle, unless the pin leaves an input or output open. An output cut by the
summed factor is also partial; the search decides where to reduce it. Partial sums do not pass
through a pinned op.

A pin of all inputs may state an output in more parts than the op makes. It is then the layout after
the reduction of the partial sums, as in MindSpore's `shard(in_strategy, out_strategy)`, and the
readers share it (`meshwright_solver.layouts.stated_layout`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Mesh, Pin, RequestError
from meshwright.schema.dim_cuts import Cut, Cuts, show_cuts
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.port_dims import named_axes, parts_of_dims
from meshwright_solver.constraints.stated_outputs import (
    check_scatter,
    stated_outputs,
    states_all_inputs,
)
from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values
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
                    parts = frozenset(parts_of_dims(problem, port)[d])
                    known, there = ways_of_dim.setdefault(parts, (cut, where))
                    if side == "output" and states_all_inputs(pin):
                        continue
                    if parts and isinstance(cut, int) and isinstance(known, int) and cut != known:
                        raise RequestError(
                            f"{where} cuts dim {d} into {cut} parts and {there} the same factor "
                            f"into {known} ({op.notation})"
                        )
    if states_all_inputs(pin):
        for k, cuts in enumerate(pin.outputs or ()):
            if cuts is not None:
                check_scatter(problem, op, k, cuts=cuts, pin=pin)


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
        if not is_whole and not parts_of_dims(problem, port)[d]:
            raise RequestError(f"{where}: its dim {d} is no factor of the op and stays whole")
        uneven = problem.setup.uneven != "refuse"
        if isinstance(cut, int) and shape[d] % cut and not uneven:
            raise RequestError(
                f"{where}: dim {d} of {shape[d]} does not divide into {cut} parts. Use another "
                "number, or `uneven: chunk` or `uneven: pad` in the setup"
            )


def keeps_cuts(
    problem: Problem, op: OpInfo, pin: Pin, *, values: Values, mesh: Mesh
) -> Callable[[OpModel, IntArray], NDArray[np.bool_]]:
    """A filter that keeps the strategies with the pin's cuts of inputs and outputs on a mesh."""
    inputs = list(zip(op.inputs, pin.inputs or (None,) * len(op.inputs), strict=True))
    outputs = list(zip(op.outputs, pin.outputs or (None,) * len(op.outputs), strict=True))
    # a part that no cut names is open only if the pin leaves a whole tensor open
    named_parts = {
        part
        for port, cuts in (*inputs, *outputs)
        if cuts is not None
        for parts in parts_of_dims(problem, port).values()
        for part in parts
    }
    inputs_open = not states_all_inputs(pin)
    stated = stated_outputs(problem, op, pin, values=values, mesh=mesh)
    sizes = np.array([axis.size for axis in mesh.axes], dtype=np.int64)

    def cut_as_stated(
        port: OpPort, cuts: Cuts, model: OpModel, choices: IntArray
    ) -> NDArray[np.bool_]:
        mask = np.ones(len(choices), dtype=np.bool_)
        for d, cut in enumerate(cuts):
            parts = parts_of_dims(problem, port)[d]
            on = model.lies_on([part in parts for part in range(model.parts)], choices)
            if isinstance(cut, int):
                mask &= np.where(on, sizes, 1).prod(axis=1) == cut
            else:
                mask &= (on == np.array(named_axes(mesh, cut))).all(axis=1) & _known(mesh, cut)
        return mask

    def keep(model: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        passing = (choices > model.idle) & (choices <= model.idle + len(model.groups))
        mask: NDArray[np.bool_] = np.asarray(~passing.any(axis=1))
        if not inputs_open:
            mask &= ~model.lies_on(
                [part not in named_parts for part in range(model.parts)], choices
            ).any(axis=1)
        for port, cuts in inputs:
            mask &= cut_as_stated(port, cuts or (), model, choices)
        for k, (port, cuts) in enumerate(outputs):
            fits = cut_as_stated(port, cuts or (), model, choices)
            space = model.outputs[k].space
            if k in stated and space is not None and not fits[mask].any():
                rank = stated[k].reducibility(model.made(choices, k), space.states)
                fits = rank == max(1, rank[mask].max(initial=0))
            mask &= fits
        return mask

    return keep


def _known(mesh: Mesh, axes: tuple[str, ...]) -> bool:
    return set(axes) <= {name for axis in mesh.axes for name in (axis.name, axis.level)}
