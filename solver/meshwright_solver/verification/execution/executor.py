"""Execution of a plan in numpy: every device's shards, the plan's own collectives, both passes.

Forward, for every op and device, the executor

- brings the shards of the inputs, by the plan's steps, into the layouts that the strategy needs
- places them in whole tensors that are zero elsewhere, and computes the whole op
- keeps the region of each result that the strategy makes

Parts of a sum so give partial results; an axis that the op does not use gives equal ones. Where an
op exchanges data itself, the plan's own steps state whose shards meet on a device
(`op_collectives.py`).

Backward, the gradients of an op's results stand in whole tensors, in the gradient layouts of the
plan. The vector-Jacobian product gives each device the gradients of its inputs. The plan's backward
steps bring them to the layout at rest, and the executor adds those of several readers. A
parameter's gradients end in its optimizer layout.

Sequences that are loaded in an order of their own lie in that order on the devices
(`sequence_order.py`). The executor takes layouts, groups and steps from the plan document alone,
and raises `StepError` where they do not fit each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meshwright.schema import Layout, Mesh, Stage
from meshwright.schema.regions import region
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.verification.execution.accumulation import Accumulation
from meshwright_solver.verification.execution.collectives import StepError
from meshwright_solver.verification.execution.kernels import KernelCall, kernel_of
from meshwright_solver.verification.execution.local import ShardedOp
from meshwright_solver.verification.execution.reference_run import seeds_of
from meshwright_solver.verification.execution.rooted_collectives import at_owner, partial_along
from meshwright_solver.verification.execution.sequence_order import LoadedOrder
from meshwright_solver.verification.execution.shards import (
    Array,
    Shards,
    from_parts,
    parts_shape,
    put,
    shard,
    shard_of_device,
    to_parts,
)
from meshwright_solver.verification.execution.stage_lookup import ALL_READERS, StageLookup
from meshwright_solver.verification.execution.views import Views


@dataclass(slots=True)
class ShardedRun:
    """Results of a sharded run: layout and shards of every value and gradient, by root of value.

    buckets: the number of buckets that ran too, to the same shards.
    """

    values: dict[str, tuple[Layout, Shards]] = field(default_factory=dict)
    gradients: dict[str, tuple[Layout, Shards]] = field(default_factory=dict)
    buckets: int = 0


def run_sharded(
    problem: Problem,
    stage: Stage,
    sources: Mapping[str, Array],
    seeds: Mapping[str, Array] | None = None,
    order: LoadedOrder | None = None,
) -> ShardedRun:
    """Run one microbatch of the plan on all its devices; raises StepError, PlanError.

    sources, seeds: as for `run_whole`. order: the order in which sequences are loaded; the shards
    are in that order.
    """
    gradients = seeds_of(problem) if seeds is None else seeds
    return _Executor(problem, stage, sources, gradients, order or LoadedOrder(problem)).run()


class _Executor:
    def __init__(
        self,
        problem: Problem,
        stage: Stage,
        sources: Mapping[str, Array],
        seeds: Mapping[str, Array],
        order: LoadedOrder,
    ) -> None:
        self.problem = problem
        self.order = order
        self.planned = StageLookup(problem, stage)
        self.mesh: Mesh = stage.mesh
        self.sources = dict(sources)
        self.values = self.planned.values
        self.result = ShardedRun()
        self.accumulation = Accumulation(self.planned, self.result.gradients, self._seeds(seeds))
        self.views = Views(problem, self.values)
        self.local: dict[int, ShardedOp] = {}
        self.as_read: dict[str, Shards] = {}

    def run(self) -> ShardedRun:
        for root, planned in self.planned.parameters.items():
            shards = shard(self.sources[root], planned.value, self.mesh)
            self.result.values[root] = (planned.value, shards)
        for position in range(len(self.problem.ops)):
            if self.problem.ops[position].op.kind == RECEIVE:
                self._receive(position)
            elif position not in self.values.views:
                self._forward(position)
        if self.accumulation.has_seeds and self.problem.training:
            for position in range(len(self.problem.ops) - 1, -1, -1):
                if position in self.local:
                    self._backward(position)
                    self.accumulation.collect(position)
        for root in self.planned.parameters:
            self._finish_parameter(root)
        self.result.buckets = self.planned.buckets.check(self.planned.ran, self.mesh)
        return self.result

    def _seeds(self, seeds: Mapping[str, Array]) -> dict[str, tuple[Layout, Shards]]:
        """Gradients from outside, in the layouts at rest of their values."""
        gradients = {}
        for root, array in seeds.items():
            rest = self.planned.rest.get(root)
            if rest is not None and rest.gradient is not None:
                whole = self.order.tensor(root, array)
                gradients[root] = (rest.gradient, shard(whole, rest.gradient, self.mesh))
        return gradients

    # forward

    def _receive(self, position: int) -> None:
        """Place the value of another stage in the layout that the plan states."""
        root = self.problem.ops[position].outputs[0].tensor
        layout = self.planned.made(position, 0).value
        whole = self.order.tensor(root, self.sources[root])
        self.result.values[root] = (layout, shard(whole, layout, self.mesh))

    def _forward(self, position: int) -> None:
        op = self.problem.ops[position]
        needed = {
            k: self._fetch(position, k, self.values.value_of[port.tensor])
            for k, port in enumerate(op.inputs)
        }
        self.local[position] = ShardedOp(
            self.planned,
            position,
            views=self.views,
            order=self.order,
            needed=needed,
            sources=self.sources,
            held=self.result.values,
        )
        outputs: list[Shards] = [[] for _ in op.outputs]
        for rank in range(self.mesh.device_count):
            call = self.local[position].call(rank, "forward")
            with np.errstate(all="ignore"):
                results = kernel_of(op.op.kind).forward(call)
            for j, port in enumerate(op.outputs):
                value = self.values.value_of[port.tensor]
                if value.is_free:
                    self.sources[port.tensor] = results[j]
                    continue
                layout = self.planned.made(position, j).value
                whole = self.order.as_loaded(op, port, results[j])
                outputs[j].append(shard_of_device(to_parts(whole, layout), layout, self.mesh, rank))
        for j, port in enumerate(op.outputs):
            value = self.values.value_of[port.tensor]
            if not value.is_free:
                layout = self.planned.made(position, j).value
                if self.planned.rest[value.root].value != layout:
                    raise StepError(
                        f"op {op.name!r} makes {port.tensor!r} in {layout}, the plan says it rests "
                        f"in {self.planned.rest[value.root].value}"
                    )
                self.result.values[value.root] = (layout, outputs[j])

    def _fetch(self, position: int, k: int, value: ProblemValue) -> Shards:
        """The shards of an input in the layout that the op needs, by the plan's steps alone."""
        if value.is_free:
            return []
        op, planned = self.problem.ops[position], self.planned
        needed = planned.required(position, k).value
        layout, shards = self.result.values[value.root]
        traffic = "parameter" if value.is_parameter else "activation"
        if value.root in planned.read:
            read = planned.read[value.root].value
            if value.root not in self.as_read:
                steps = planned.steps(value.root, ALL_READERS, traffic, "forward")
                what = f"{value.root!r} as read"
                self.as_read[value.root] = planned.run_steps(steps, shards, layout, read, what)
            layout, shards, traffic = read, self.as_read[value.root], "activation"
        steps = planned.steps(value.root, (op.name, k), traffic, "forward")
        return planned.run_steps(steps, shards, layout, needed, f"input {k} of op {op.name!r}")

    # backward

    def _backward(self, position: int) -> None:
        op, local = self.problem.ops[position], self.local[position]
        roots = [self.values.value_of[port.tensor].root for port in op.outputs]
        if not any(root in self.result.gradients for root in roots):
            return
        wanted = [
            k for k, port in enumerate(op.inputs) if self.problem.tensors[port.tensor].has_gradient
        ]
        ranks = range(self.mesh.device_count)
        gradients = [self._gradients(position, rank, wanted) for rank in ranks]
        for k in wanted:
            layout = self.planned.required(position, k).gradient
            assert layout is not None
            shards = [
                shard_of_device(
                    np.sum(
                        [
                            gradients[other][k]
                            for other in local.own_steps.gradient_sources(k, rank)
                        ],
                        axis=0,
                    ),
                    layout,
                    self.mesh,
                    rank,
                )
                for rank in ranks
            ]
            self.accumulation.send(position, k, shards)

    def _gradients(self, position: int, rank: int, wanted: Sequence[int]) -> dict[int, Array]:
        """Whole gradients of some inputs; only the device's part of them is valid."""
        local = self.local[position]
        call = local.call(rank, "backward")
        peers = local.own_steps.peers(rank, "backward")
        with np.errstate(all="ignore"):
            outputs = kernel_of(call.kind).forward(call)
            together = self._product(position, call, outputs, peers)
            alone = together
            if len(peers) > 1:
                alone = self._product(position, call, outputs, (rank,))
        return {
            k: local.gradient_part(
                k, (together if local.own_steps.has_own_part(k) else alone)[k], rank
            )
            for k in wanted
        }

    def _product(
        self, position: int, call: KernelCall, outputs: tuple[Array, ...], peers: Sequence[int]
    ) -> tuple[Array | None, ...]:
        """The vector-Jacobian product of the output gradients that `peers` hold."""
        op = self.problem.ops[position]
        sent: list[Array | None] = []
        for port in op.outputs:
            value = self.values.value_of[port.tensor]
            if value.root not in self.result.gradients:
                sent.append(None)
                continue
            layout, shards = self.result.gradients[value.root]
            whole = np.zeros(parts_shape(layout))
            for other in peers:
                put(whole, shards[other], region(layout, self.mesh, other))
            seen = self.views.of_root(value, port.tensor, from_parts(whole, layout))
            sent.append(self.order.by_place(op, port, seen))
        received = kernel_of(call.kind).backward(call, outputs, tuple(sent))
        return tuple(
            gradient if gradient is None else self.order.as_loaded(op, port, gradient)
            for port, gradient in zip(op.inputs, received, strict=True)
        )

    def _finish_parameter(self, root: str) -> None:
        """Check that the updated parameter returns from the optimizer's layout to its own."""
        parameter = self.planned.parameters[root]
        if parameter.optimizer is None:
            return
        spread = self.planned.steps(root, ALL_READERS, "parameter", "per_step")
        shards, layout = (
            shard(self.sources[root], parameter.optimizer, self.mesh),
            parameter.optimizer,
        )
        if parameter.owner:
            shards = at_owner(shards, parameter.owner, self.mesh)
            layout = partial_along(layout, tuple(parameter.owner))
        what = f"updated {root!r}"
        updated = self.planned.run_steps(
            spread, shards, layout, parameter.value, what, owner=parameter.owner
        )
        expected = shard(self.sources[root], parameter.value, self.mesh)
        if not all(map(np.array_equal, updated, expected)):
            raise StepError(f"{what} is not what its owner has")
