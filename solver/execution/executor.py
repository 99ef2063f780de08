"""Execution of a plan in numpy: every device's shards, the plan's own collectives, both passes.

Forward, for every op and device: the shards of its inputs, brought by the plan's steps into the
layouts that its strategy needs, stand in a whole tensor that is zero elsewhere; the whole op is
computed on them; of its results the device keeps the region that its strategy makes. Summed parts
so give partial results, and an axis that the op does not use gives equal ones. Where an op reduces
or exchanges by itself (`^` statistics, `~` halos) its inputs are first completed over those axes.

Backward, the other way round: the gradients of an op's results, in the gradient layouts of the
plan, stand in whole tensors; the vector-Jacobian product gives each device its inputs' gradients;
the plan's backward steps bring them to where the value rests, and what several readers send is
added. A parameter's gradients end in its optimizer layout.

Nothing is taken from the search: layouts, groups and steps are those of the plan document, and
`StepError` says where they do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from meshwright.schema import Axis, Layout, LayoutPair, Mesh, Redistribution, Stage, Step
from solver.assignment import Codes, pair_of, strategies_of_stage
from solver.execution.collectives import StepError, run_step
from solver.execution.kernels import KERNELS, Call
from solver.execution.shards import (
    Array,
    Shards,
    from_parts,
    parts_shape,
    put,
    region,
    shard,
    stored,
    to_parts,
    window,
)
from solver.execution.views import Views
from solver.execution.whole import call_of
from solver.lowering import Models
from solver.problem import OpInfo, Problem
from solver.values import Value, find_values

Half = Literal["forward", "backward", "per_step"]


@dataclass(slots=True)
class ShardedRun:
    """What the devices hold: by root of value, with the layout it lies in."""

    values: dict[str, tuple[Layout, Shards]] = field(default_factory=dict)
    gradients: dict[str, tuple[Layout, Shards]] = field(default_factory=dict)


def run_sharded(problem: Problem, stage: Stage, sources: Mapping[str, Array]) -> ShardedRun:
    """One microbatch of the plan on all its devices; raises StepError, PlanError."""
    return _Executor(problem, stage, sources).run()


class _Executor:
    def __init__(self, problem: Problem, stage: Stage, sources: Mapping[str, Array]) -> None:
        self.problem = problem
        self.stage = stage
        self.mesh: Mesh = stage.mesh
        self.sources = dict(sources)
        self.models = Models(problem, find_values(problem), stage.mesh)
        self.values = self.models.values
        self.strategies = strategies_of_stage(self.models, stage)
        self.result = ShardedRun()
        self.rest: dict[str, LayoutPair] = {t.tensor: t.rest for t in stage.tensors}
        self.read: dict[str, LayoutPair] = {
            t.tensor: t.read for t in stage.tensors if t.read is not None
        }
        self.parameters = {p.tensor: p for p in stage.parameters}
        self.moved: dict[tuple[str, str | None, int | None, str], list[Redistribution]] = {}
        for r in stage.redistributions:
            self.moved.setdefault((r.tensor, r.op, r.input, r.traffic), []).append(r)
        self.views = Views(problem, self.values)
        self.needed: dict[tuple[int, int], Shards] = {}
        self.as_read: dict[str, Shards] = {}

    def run(self) -> ShardedRun:
        for root, planned in self.parameters.items():
            shards = shard(self.sources[root], planned.value, self.mesh)
            self.result.values[root] = (planned.value, shards)
        for position in range(len(self.problem.ops)):
            if position not in self.values.views:
                self._forward(position)
        loss = self.problem.graph.loss
        if loss is not None and loss in self.rest and self.problem.training:
            gradient = self.rest[loss].gradient
            if gradient is not None:
                one = np.ones(self.problem.tensors[loss].shape)
                self.result.gradients[loss] = (gradient, shard(one, gradient, self.mesh))
            for position in range(len(self.problem.ops) - 1, -1, -1):
                if position not in self.values.views:
                    self._backward(position)
                    self._collect(position)
        for root in self.parameters:
            self._finish_parameter(root)
        return self.result

    # forward

    def _forward(self, position: int) -> None:
        op = self.problem.ops[position]
        for k, port in enumerate(op.inputs):
            self.needed[position, k] = self._fetch(position, k, self.values.value_of[port.tensor])
        outputs: list[Shards] = [[] for _ in op.outputs]
        for rank in range(self.mesh.device_count):
            call = self._local_call(position, rank)
            with np.errstate(all="ignore"):
                made = KERNELS[op.op.kind].forward(call)
            for j, port in enumerate(op.outputs):
                value = self.values.value_of[port.tensor]
                if value.is_free:
                    self.sources[port.tensor] = made[j]
                    continue
                layout = self._made(position, j).value
                whole = to_parts(made[j], layout)
                outputs[j].append(stored(whole, layout, self.mesh, rank))
        for j, port in enumerate(op.outputs):
            value = self.values.value_of[port.tensor]
            if not value.is_free:
                layout = self._made(position, j).value
                if self.rest[value.root].value != layout:
                    raise StepError(
                        f"op {op.name!r} makes {port.tensor!r} in {layout}, the plan says it rests "
                        f"in {self.rest[value.root].value}"
                    )
                self.result.values[value.root] = (layout, outputs[j])

    def _fetch(self, position: int, k: int, value: Value) -> Shards:
        """An input in the layout that the op needs, by the plan's steps alone."""
        op = self.problem.ops[position]
        port = op.inputs[k]
        if value.is_free:
            return [self._free(port.tensor)] * self.mesh.device_count
        needed = self._required(position, k).value
        layout, shards = self.result.values[value.root]
        traffic = "parameter" if value.is_parameter else "activation"
        if value.root in self.read:
            read = self.read[value.root].value
            if value.root not in self.as_read:
                steps = self._steps(value.root, None, None, traffic, "forward")
                self.as_read[value.root] = self._travel(
                    steps, shards, layout, read, f"{value.root!r} as read"
                )
            layout, shards, traffic = read, self.as_read[value.root], "activation"
        steps = self._steps(value.root, op.name, k, traffic, "forward")
        return self._travel(steps, shards, layout, needed, f"input {k} of op {op.name!r}")

    def _steps(
        self, root: str, op: str | None, k: int | None, traffic: str, half: Half
    ) -> tuple[Step, ...]:
        """What the plan does with a value (for one reader's input) in one half of its traffic."""
        moved = self.moved.get((root, op, k, traffic), ())
        return tuple(step for r in moved for step in getattr(r, half))

    def _travel(
        self, steps: Sequence[Step], shards: Shards, before: Layout, target: Layout, what: str
    ) -> Shards:
        for step in steps:
            shards = run_step(step.kind, step.axes, shards, before, step.to, self.mesh)
            before = step.to
        if before != target:
            raise StepError(f"{what}: the steps end in {before}, needed is {target}")
        return shards

    def _local_call(self, position: int, rank: int) -> Call:
        """The op on one device: its shards in whole tensors that are zero elsewhere."""
        op = self.problem.ops[position]
        inputs = []
        for k, port in enumerate(op.inputs):
            value = self.values.value_of[port.tensor]
            if value.is_free:
                inputs.append(self._masked_source(position, k, rank))
                continue
            inputs.append(self._embedded(position, k, rank))
        return call_of(self.problem, op, inputs, self._denominator(op))

    def _embedded(self, position: int, k: int, rank: int) -> Array:
        op = self.problem.ops[position]
        value = self.values.value_of[op.inputs[k].tensor]
        layout = self._required(position, k).value
        shards = self.needed[position, k]
        empty = self._ignored(position) if self._is_labels(position, k) else 0
        whole = np.full(parts_shape(layout), empty, dtype=shards[rank].dtype)
        for other in self._fellows(position, rank):
            put(whole, shards[other], region(layout, self.mesh, other))
        if self._adds_bias(position, k) and not self._is_first(position, rank):
            whole = np.zeros_like(whole)
        return self.views.of_root(value, op.inputs[k].tensor, from_parts(whole, layout))

    def _masked_source(self, position: int, k: int, rank: int) -> Array:
        """A free input whole, except labels: those of other devices' rows are ignored."""
        whole = self._free(self.problem.ops[position].inputs[k].tensor)
        if self._is_labels(position, k):
            return np.where(self._own_rows(position, rank), whole, self._ignored(position))
        return whole

    def _is_labels(self, position: int, k: int) -> bool:
        return k == 1 and self.problem.ops[position].op.kind == "cross_entropy"

    def _ignored(self, position: int) -> int:
        return int(self.problem.ops[position].op.attrs.get("ignore_index", -100))

    def _own_rows(self, position: int, rank: int) -> Any:
        """Which rows of the logits a device holds."""
        port = self.problem.ops[position].inputs[0]
        value = self.values.value_of[port.tensor]
        layout = self._required(position, 0).value
        held = np.zeros(parts_shape(layout))
        held[window(region(layout, self.mesh, rank))] = 1.0
        return np.any(self.views.of_root(value, port.tensor, from_parts(held, layout)), axis=-1)

    def _denominator(self, op: OpInfo) -> float | None:
        if op.op.kind != "cross_entropy" or op.op.attrs.get("reduction", "mean") != "mean":
            return None
        labels = self.values.value_of[op.inputs[1].tensor]
        whole = (
            self._free(op.inputs[1].tensor)
            if labels.is_free
            else self._whole_value(labels, op.inputs[1].tensor)
        )
        return float((whole != int(op.op.attrs.get("ignore_index", -100))).sum())

    def _whole_value(self, value: Value, tensor: str) -> Array:
        layout, shards = self.result.values[value.root]
        whole = np.zeros(parts_shape(layout), dtype=shards[0].dtype)
        for rank in range(self.mesh.device_count):
            put(whole, shards[rank], region(layout, self.mesh, rank))
        return self.views.of_root(value, tensor, from_parts(whole, layout))

    def _free(self, tensor: str) -> Array:
        value = self.values.value_of[tensor]
        return self.views.of_root(value, tensor, self.sources[value.root])

    # what an op does by itself

    def _own_axes(self, position: int) -> tuple[Axis, ...]:
        """Axes on parts whose statistics or halos the op exchanges by itself."""
        op = self.problem.ops[position]
        codes = self.strategies[position]
        return tuple(
            name
            for name, code in zip(self.mesh.names, codes, strict=True)
            if code < len(op.parts)
            and (op.parts[code].reused or op.parts[code].halo_elements or self._is_halo(op, code))
        )

    @staticmethod
    def _is_halo(op: OpInfo, code: int) -> bool:
        return op.known is not None and op.parts[code].factor in op.known.rule.parsed.halo

    def _fellows(self, position: int, rank: int) -> Sequence[int]:
        axes = self._own_axes(position)
        if not axes:
            return (rank,)
        return next(group for group in self.mesh.groups(axes) if rank in group)

    def _adds_bias(self, position: int, k: int) -> bool:
        return self.problem.ops[position].op.kind in ("linear", "conv", "conv_transpose") and k == 2

    def _is_first(self, position: int, rank: int) -> bool:
        """Whether a device adds the bias: the first on all axes that are summed over."""
        op = self.problem.ops[position]
        assert op.known is not None
        summed = op.known.rule.parsed.summed
        at = self.mesh.coordinates(rank)
        return not any(
            at[name]
            for name, code in zip(self.mesh.names, self.strategies[position], strict=True)
            if code < len(op.parts) and op.parts[code].factor in summed
        )

    # backward

    def _backward(self, position: int) -> None:
        op = self.problem.ops[position]
        roots = [self.values.value_of[port.tensor].root for port in op.outputs]
        if not any(root in self.result.gradients for root in roots):
            return
        received: dict[int, Shards] = {
            k: []
            for k, port in enumerate(op.inputs)
            if self.problem.tensors[port.tensor].has_gradient
        }
        for rank in range(self.mesh.device_count):
            call = self._local_call(position, rank)
            with np.errstate(all="ignore"):
                outputs = KERNELS[op.op.kind].forward(call)
                fellows = self._fellows(position, rank)
                gradients = self._product(position, call, outputs, fellows)
                alone = (
                    gradients
                    if len(fellows) == 1
                    else self._product(position, call, outputs, (rank,))
                )
            for k in received:
                own = gradients[k] if self._has_own_part(position, k) else alone[k]
                received[k].append(self._kept_gradient(position, k, rank, own))
        for k in received:
            self._send(position, k, received[k])

    def _product(
        self, position: int, call: Call, outputs: tuple[Array, ...], fellows: Sequence[int]
    ) -> tuple[Array | None, ...]:
        """The vector-Jacobian product of the gradients that `fellows` hold."""
        op = self.problem.ops[position]
        sent: list[Array | None] = []
        for port in op.outputs:
            value = self.values.value_of[port.tensor]
            if value.root not in self.result.gradients:
                sent.append(None)
                continue
            layout, shards = self.result.gradients[value.root]
            whole = np.zeros(parts_shape(layout))
            for other in fellows:
                put(whole, shards[other], region(layout, self.mesh, other))
            sent.append(self.views.of_root(value, port.tensor, from_parts(whole, layout)))
        return KERNELS[op.op.kind].backward(call, outputs, tuple(sent))

    def _has_own_part(self, position: int, k: int) -> bool:
        """Whether the input has all parts over which the op exchanges by itself."""
        port = self.problem.ops[position].inputs[k]
        own = set(self._own_axes(position))
        codes = self.strategies[position]
        return all(
            code in port.slot_of
            for name, code in zip(self.mesh.names, codes, strict=True)
            if name in own
        )

    def _kept_gradient(self, position: int, k: int, rank: int, own: Array | None) -> Array:
        op = self.problem.ops[position]
        value = self.values.value_of[op.inputs[k].tensor]
        layout = self._required(position, k).gradient
        assert layout is not None
        whole = (
            own if own is not None else np.zeros(self.problem.tensors[op.inputs[k].tensor].shape)
        )
        if self._adds_bias(position, k) and not self._is_first(position, rank):
            whole = np.zeros_like(whole)
        parts = to_parts(self.views.to_root(value, op.inputs[k].tensor, whole), layout)
        return stored(parts, layout, self.mesh, rank)

    def _send(self, position: int, k: int, shards: Shards) -> None:
        """An input's gradient to where its value rests, or to the parameter's accumulator."""
        op = self.problem.ops[position]
        value = self.values.value_of[op.inputs[k].tensor]
        layout = self._required(position, k).gradient
        assert layout is not None
        if value.is_parameter and value.root not in self.read:
            self._accumulate(value.root, (op.name, k), shards, layout)
            return
        target = self.read.get(value.root, self.rest.get(value.root))
        assert target is not None
        assert target.gradient is not None
        steps = self._steps(value.root, op.name, k, "activation", "backward")
        what = f"gradient of input {k} of op {op.name!r}"
        shards = self._travel(steps, shards, layout, target.gradient, what)
        self._add(value.root, target.gradient, shards)

    def _collect(self, position: int) -> None:
        """Gradients to which an op adds last, it being the first reader, go from read to rest."""
        op = self.problem.ops[position]
        for root in dict.fromkeys(self.values.value_of[port.tensor].root for port in op.inputs):
            value = self.values.value_of[root]
            is_first = position == min(reader[0] for reader in value.readers)
            if is_first and root in self.read and root in self.result.gradients:
                self._from_read_to_rest(value)

    def _add(self, root: str, layout: Layout, shards: Shards) -> None:
        before = self.result.gradients.get(root)
        if before is not None:
            shards = [a + b for a, b in zip(before[1], shards, strict=True)]
        self.result.gradients[root] = (layout, shards)

    def _from_read_to_rest(self, value: Value) -> None:
        layout, shards = self.result.gradients.pop(value.root)
        if value.is_parameter:
            self._accumulate(value.root, (None, None), shards, layout)
            return
        rest = self.rest[value.root].gradient
        assert rest is not None
        steps = self._steps(value.root, None, None, "activation", "backward")
        what = f"gradient of {value.root!r} at rest"
        self.result.gradients[value.root] = (
            rest,
            self._travel(steps, shards, layout, rest, what),
        )

    def _accumulate(
        self, root: str, reader: tuple[str | None, int | None], shards: Shards, layout: Layout
    ) -> None:
        """A parameter's gradient by the steps of microbatch and step to its optimizer layout."""
        target = self.parameters[root].optimizer
        assert target is not None
        steps = (
            *self._steps(root, *reader, "gradient", "backward"),
            *self._steps(root, *reader, "gradient", "per_step"),
        )
        shards = self._travel(steps, shards, layout, target, f"gradient of parameter {root!r}")
        self._add(root, target, shards)

    def _finish_parameter(self, root: str) -> None:
        """The updated parameter has to come back from the optimizer's layout to its own."""
        planned = self.parameters[root]
        if planned.optimizer is None:
            return
        spread = self._steps(root, None, None, "parameter", "per_step")
        shards = shard(self.sources[root], planned.optimizer, self.mesh)
        self._travel(spread, shards, planned.optimizer, planned.value, f"updated {root!r}")

    # layouts that strategies need and make

    def _required(self, position: int, k: int) -> LayoutPair:
        value = self.values.value_of[self.problem.ops[position].inputs[k].tensor]
        model = self.models.ops.model(position)
        row = np.array([self.strategies[position]])
        return self._pair(value, model.required(row, k)[0])

    def _made(self, position: int, j: int) -> LayoutPair:
        value = self.values.value_of[self.problem.ops[position].outputs[j].tensor]
        model = self.models.ops.model(position)
        row = np.array([self.strategies[position]])
        return self._pair(value, model.made(row, j)[0])

    def _pair(self, value: Value, codes: Array) -> LayoutPair:
        key: Codes = tuple(int(code) for code in codes)
        return pair_of(self.models, value, key)
