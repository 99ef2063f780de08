"""Items of a plan, attributed to ops: from a plan of the whole graph to an op profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.schema import Passes, Stage
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.folding.portions import Portion
from meshwright_solver.pipeline.op_profile import OpProfile
from meshwright_solver.pipeline.split_backward_memory import waiting_of_ops
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.strategies.mesh_models import Models


class _PlanItem(NamedTuple):
    """Time or memory of an op or a tensor; op: None if the tensor determines the op."""

    op: str | None
    tensor: str
    ns: float = 0.0
    static_bytes: float = 0.0
    saved_bytes: float = 0.0
    waiting_bytes: float = 0.0


class OpLocator:
    """Finds the op of an item: the op itself, the tensor's producer, or its first reader."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._of_op: Mapping[str, int] = anatomy.place
        first_reader: dict[str, int] = {}
        for position, op in enumerate(anatomy.order):
            for name in op.inputs:
                first_reader.setdefault(name, position)
        self._of_tensor = {**first_reader, **anatomy.made_at}

    def positions(self, items: Sequence[_PlanItem], names: Mapping[str, str]) -> IntArray:
        """(items,): the position of each item's op, -1 for none. names: of a copy of the graph."""
        ops, tensors = self._of_op, self._of_tensor
        positions = []
        for item in items:
            position = None if item.op is None else ops.get(names.get(item.op, item.op))
            if position is None:
                position = tensors.get(names.get(item.tensor, item.tensor), -1)
            positions.append(position)
        return np.array(positions, dtype=np.int64)


def profile_of_plan(
    folded: FoldedPlan, anatomy: Anatomy, locator: OpLocator, whole: Passes, microbatches: int
) -> tuple[OpProfile, FloatArray]:
    """The op profile of a plan, and the share of each op in the work done once a step, (ops,)."""
    ns, static, saved, waiting, passing = np.zeros((5, len(anatomy.order)))
    for portion, stage in zip(folded.portions, folded.stages, strict=True):
        items = [*_items(stage), *_waiting(folded.models, portion)]
        numbers = np.array([item[2:] for item in items], dtype=np.float64).reshape(-1, 4)
        for copy in portion.copies:
            positions = locator.positions(items, copy.names)
            known = positions >= 0
            for field, column in zip((ns, static, saved, waiting), numbers[known].T, strict=True):
                np.add.at(field, positions[known], column)
    for name, at in folded.unfolding.place_of_ops.items():
        if name in anatomy.place and at < len(folded.moments.passing_bytes):
            passing[anatomy.place[name]] = folded.moments.passing_bytes[at]
    often = microbatches * (whole.forward_ns + whole.inputs_ns + whole.weights_ns)
    ns *= often / max(float(ns.sum()), 1e-9)
    step_shares = static / max(float(static.sum()), 1.0)
    profile = OpProfile(
        ns=ns + whole.step_ns * step_shares,
        static_bytes=static,
        saved_bytes=saved,
        waiting_bytes=waiting,
        passing_bytes=passing,
    )
    return profile, step_shares


def _waiting(models: Models, portion: Portion) -> Iterator[_PlanItem]:
    """Memory of the buffers between the halves of a split backward pass."""
    waiting = waiting_of_ops(models, portion.assignment, portion.share.ops)
    for (_, root), size in waiting.items():
        yield _PlanItem(None, root, waiting_bytes=size)


def _items(stage: Stage) -> Iterator[_PlanItem]:
    """All items with time in a step, or with static or saved memory."""
    for op in stage.ops:
        yield _PlanItem(op.op, "", ns=op.compute_ns + op.communication_ns)
    for moved in stage.redistributions:
        yield _PlanItem(moved.op, moved.tensor, ns=moved.counted_ns)
    for parameter in stage.parameters:
        held = parameter.value_bytes + parameter.gradient_bytes + parameter.optimizer_bytes
        yield _PlanItem(None, parameter.tensor, static_bytes=held)
    for tensor in stage.tensors:
        if tensor.saved_bytes:
            yield _PlanItem(None, tensor.tensor, saved_bytes=tensor.saved_bytes)
