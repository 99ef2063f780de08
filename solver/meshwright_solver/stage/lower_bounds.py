"""Lower bounds on every plan of a mesh, without a search. models: of the folded graph."""

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
    """The time of every op at its fastest strategy, without redistribution."""
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
    """The least memory of parameters and saved values of one look, on one device, in bytes.

    name: one of them. count: their number.
    """

    name: str
    count: int
    value: float
    gradient: float
    optimizer: float
    activation: float

    @property
    def total(self) -> float:
        """The bytes of all of them together."""
        return self.count * (self.value + self.gradient + self.optimizer + self.activation)


def least_memory(models: Models, folding: Folding) -> tuple[LeastMemory, ...]:
    """Every parameter and every saved value at its finest sharding: no plan takes less in all."""
    known: dict[_Look, _Parts] = {}
    parts = []
    for value, look, count in _memory_holders(models, folding):
        if look not in known:
            known[look] = _least(models, value)
        parts.append(LeastMemory(value.root, count, *known[look]))
    return tuple(parts)


def least_memory_bytes(models: Models, folding: Folding) -> float:
    """The least bytes of all parameters and saved values together."""
    first: dict[_Look, ProblemValue] = {}
    counts: Counter[_Look] = Counter()
    for value, look, count in _memory_holders(models, folding):
        first.setdefault(look, value)
        counts[look] += count
    return sum(count * sum(_least(models, first[look])) for look, count in counts.items())


def _memory_holders(models: Models, folding: Folding) -> Iterator[tuple[ProblemValue, _Look, int]]:
    """Values at rest or saved, the key of their bytes, and the count that each stands for."""
    times, space = folding.stood_for, models.ops.space
    for value in models.values.values:
        if value.is_free or value.is_remade or not (value.is_parameter or value.kept.wanted):
            continue
        look = id(space(value.root)), value.is_parameter
        yield value, look, times.get(("tensor", value.root), 1) if times else 1


def _least(models: Models, value: ProblemValue) -> _Parts:
    """The least bytes of value, gradient, optimizer state and activation."""
    if value.is_parameter:
        model = models.parameter(value)
        parts = model.memory_bytes(model.states)
        at = int((parts[0] + parts[1] + parts[2]).argmin())
        held, gradient, optimizer = (float(part[at]) for part in parts)
        return held, gradient, optimizer, 0.0
    space = models.ops.space(value.root)
    saved = float(space.saved_bytes(space.states).min())
    return 0.0, 0.0, 0.0, saved * models.problem.in_flight


def may_fill_hosts(models: Models, folding: Folding) -> bool:
    """Whether the values that may be on hosts could exceed the hosts' memory, at their coarsest
    sharding."""
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
    """The least transient memory of a plan at the start of the backward pass, when all
    activations are saved: the workspace of the last op, and the gradients of its inputs
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
    for index, port in enumerate(model.inputs):
        if port.space is None:
            continue
        local = port.space.local_bytes(model.required(model.choices, index))
        passing += local * int(port.has_gradient and not port.is_parameter)
        passing += local * (inside_backward(kind) if index == 0 else 0)
    return float(passing.min(initial=np.inf))
