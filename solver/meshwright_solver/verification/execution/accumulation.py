"""Accumulation of gradients: from the ops that make them to the layouts at rest of their values."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Layout
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.verification.execution.rooted_collectives import partial_along
from meshwright_solver.verification.execution.shards import Shards
from meshwright_solver.verification.execution.stage_lookup import (
    ALL_READERS,
    PlanReader,
    StageLookup,
)


class Accumulation:
    """The sum of the gradients that readers send.

    gradients: layout and shards, by root of value. seeds: gradients from outside, in the layouts at
    rest of their values.
    """

    def __init__(
        self,
        planned: StageLookup,
        gradients: dict[str, tuple[Layout, Shards]],
        seeds: Mapping[str, tuple[Layout, Shards]],
    ) -> None:
        self.planned = planned
        self.gradients = gradients
        self.has_seeds = bool(seeds)
        # where readers share a layout, their gradients are added in that layout first
        self._late = {root: gradient for root, gradient in seeds.items() if root in planned.read}
        gradients.update(
            {root: gradient for root, gradient in seeds.items() if root not in planned.read}
        )

    def send(self, position: int, k: int, shards: Shards) -> None:
        """Move an input's gradient to its value at rest, or to the parameter's accumulator."""
        planned, op = self.planned, self.planned.problem.ops[position]
        value = planned.value(op.inputs[k].tensor)
        layout = planned.required(position, k).gradient
        assert layout is not None
        if value.is_parameter and value.root not in planned.read:
            self._accumulate(value.root, (op.name, k), shards, layout)
            return
        target = planned.read.get(value.root, planned.rest.get(value.root))
        assert target is not None
        assert target.gradient is not None
        steps = planned.steps(value.root, (op.name, k), "activation", "backward")
        what = f"gradient of input {k} of op {op.name!r}"
        shards = planned.run_steps(steps, shards, layout, target.gradient, what)
        self._add(value.root, target.gradient, shards)

    def collect(self, position: int) -> None:
        """Move gradients from read to rest, once the first reader has added its own."""
        planned, op = self.planned, self.planned.problem.ops[position]
        for root in dict.fromkeys(planned.value(port.tensor).root for port in op.inputs):
            value = planned.value(root)
            is_first = position == min(reader[0] for reader in value.readers)
            if is_first and root in planned.read:
                if root in self.gradients:
                    self._from_read_to_rest(value)
                if root in self._late:
                    self._add(root, *self._late[root])

    def _add(self, root: str, layout: Layout, shards: Shards) -> None:
        before = self.gradients.get(root)
        if before is not None:
            shards = [a + b for a, b in zip(before[1], shards, strict=True)]
        self.gradients[root] = (layout, shards)

    def _from_read_to_rest(self, value: ProblemValue) -> None:
        layout, shards = self.gradients.pop(value.root)
        if value.is_parameter:
            self._accumulate(value.root, ALL_READERS, shards, layout)
            return
        rest = self.planned.rest[value.root].gradient
        assert rest is not None
        steps = self.planned.steps(value.root, ALL_READERS, "activation", "backward")
        what = f"gradient of {value.root!r} at rest"
        self.gradients[value.root] = (
            rest,
            self.planned.run_steps(steps, shards, layout, rest, what),
        )

    def _accumulate(self, root: str, reader: PlanReader, shards: Shards, layout: Layout) -> None:
        """Move a parameter's gradient to its optimizer layout, each microbatch and once a step."""
        parameter = self.planned.parameters[root]
        target = parameter.optimizer
        assert target is not None
        steps = (
            *self.planned.steps(root, reader, "gradient", "backward"),
            *self.planned.steps(root, reader, "gradient", "per_step"),
        )
        what = f"gradient of parameter {root!r}"
        if steps and steps[-1].kind == "reduce":
            target = partial_along(target, steps[-1].axes)
        gradient = self.planned.run_steps(steps, shards, layout, target, what, parameter.owner)
        self._add(root, target, gradient)
