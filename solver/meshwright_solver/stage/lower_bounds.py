"""Bounds on every plan of a mesh that need no search; models: of the folded graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from meshwright_solver.evaluation.memory.kernel_workspace import PASSES_ON, inside_backward
from meshwright_solver.folding.fold import Folding
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel

_Look = tuple[int, bool]
_Parts = tuple[float, float, float, float]


def work_bound_ns(models: Models, folding: Folding) -> float:
    """Every op at its fastest strategy, and nothing moved."""
    times = folding.stood_for
    least: dict[int, float] = {}
    total = 0.0
    for position, op in enumerate(models.problem.ops):
        if position in models.values.views:
            continue
        model = models.ops.model(position)
        if id(model) not in least:
            least[id(model)] = float(models.op_cost_ns(model, model.choices).min())
        total += least[id(model)] * times.get(("op", op.name), 1)
    return total


@dataclass(frozen=True, slots=True)
class LeastMemory:
    """The least that parameters and saved values of one look take on one device, in bytes.

    name: one of them. count: how many there are.
    """

    name: str
    count: int
    value: float
    gradient: float
    optimizer: float
    activation: float

    @property
    def total(self) -> float:
        """Of all of them together."""
        return self.count * (self.value + self.gradient + self.optimizer + self.activation)


def least_memory(models: Models, folding: Folding) -> tuple[LeastMemory, ...]:
    """Every parameter and every saved value where it lies finest: no plan takes less in all."""
    known: dict[_Look, _Parts] = {}
    found = []
    for value, look, count in _held(models, folding):
        if look not in known:
            known[look] = _least(models, value)
        found.append(LeastMemory(value.root, count, *known[look]))
    return tuple(found)


def least_memory_bytes(models: Models, folding: Folding) -> float:
    """Of all of them together."""
    first: dict[_Look, ProblemValue] = {}
    counts: Counter[_Look] = Counter()
    for value, look, count in _held(models, folding):
        first.setdefault(look, value)
        counts[look] += count
    return sum(count * sum(_least(models, first[look])) for look, count in counts.items())


def _held(models: Models, folding: Folding) -> Iterator[tuple[ProblemValue, _Look, int]]:
    """What rests or is saved, what its bytes go by, and how many it stands for."""
    times, space = folding.stood_for, models.ops.space
    for value in models.values.values:
        if value.is_free or value.is_remade or not (value.is_parameter or value.kept.wanted):
            continue
        look = id(space(value.root)), value.is_parameter
        yield value, look, times.get(("tensor", value.root), 1) if times else 1


def _least(models: Models, value: ProblemValue) -> _Parts:
    """Of value, gradient, optimizer state and activation, what one takes at the least."""
    if value.is_parameter:
        model = models.parameter(value)
        parts = model.memory_bytes(model.states)
        at = int((parts[0] + parts[1] + parts[2]).argmin())
        held, gradient, optimizer = (float(part[at]) for part in parts)
        return held, gradient, optimizer, 0.0
    space = models.ops.space(value.root)
    saved = float(space.local_bytes(space.states).min())
    return 0.0, 0.0, 0.0, saved * models.problem.in_flight


def may_fill_hosts(models: Models, folding: Folding) -> bool:
    """Whether what may lie on hosts could be more than their memory, if it lay there as coarsely as
    it may."""
    if models.problem.topology.host is None or models.at_rest.offload == "none":
        return False
    times = folding.stood_for
    most = 0.0
    for value in models.values.values:
        if value.is_parameter and value.readers:
            model = models.parameter(value)
            most += float(model.host_bytes(model.states).max()) * times.get(
                ("tensor", value.root), 1
            )
    return most > models.problem.host_limit_bytes


def least_passing_bytes(models: Models) -> float:
    """What passes by in every plan at the begin of the backward pass, when all is saved: what the
    last op makes for itself, and the gradients of what it reads
    (`meshwright_solver.evaluation.memory`)."""
    problem = models.problem
    if not problem.training:
        return 0.0
    for position in range(len(problem.ops) - 1, -1, -1):
        if position not in models.values.views:
            model = models.ops.model(position)
            if model.runs_backward and problem.ops[position].op.kind != PASSES_ON:
                return _least_passing(model, problem.ops[position].op.kind)
            if model.runs_backward:
                return 0.0
    return 0.0


def _least_passing(model: OpModel, kind: str) -> float:
    passing = np.zeros(len(model.choices))
    for port, own in enumerate(model.inputs):
        if own.space is None:
            continue
        local = own.space.local_bytes(model.required(model.choices, port))
        passing += local * int(own.has_gradient and not own.is_parameter)
        passing += local * (inside_backward(kind) if port == 0 else 0)
    return float(passing.min(initial=np.inf))
