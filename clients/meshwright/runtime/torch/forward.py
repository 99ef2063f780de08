"""The forward pass of one microbatch on one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch

from meshwright.capture.interpreter import results_of, run_of
from meshwright.capture.interpreter.torch_operator import is_random
from meshwright.runtime.arrays import Reduction
from meshwright.runtime.local_kernels import run_local
from meshwright.runtime.local_op import LocalOp
from meshwright.runtime.program import LocalView, OpInput, PlannedOp, StageProgram
from meshwright.runtime.redistribution_steps import Cause, ForwardAndBackward
from meshwright.runtime.torch.arrays import TorchArrays
from meshwright.runtime.torch.collectives import TorchCollectives
from meshwright.runtime.torch.deferred_weight_gradients import DeferredWeightGradients
from meshwright.runtime.torch.dropout_rng import DropoutSeed
from meshwright.runtime.torch.expert_slots import ExpertSlots
from meshwright.runtime.torch.recompute import RecomputedTensors, Unpacks
from meshwright.runtime.torch.redistribute import parameter_read, redistributed
from meshwright.runtime.torch.sequence_reorder import turned
from meshwright.schema import Axis, Layout, PlanError
from meshwright.stages.dropout import drops
from meshwright.stages.planned_stage import PlanReader

T = torch.Tensor
ARRAYS = TorchArrays()
Take = Callable[[str, PlanReader, T, Layout], None]  # the gradient of a parameter, by its reader


class TorchForward:
    """The forward pass of one microbatch.

    sources     shards of inputs and labels, and whole buffers and constants
    received    the tensors of other stages
    parameters  values at rest
    take        receives their gradients, in the backward pass or in the pass of `weights`
    drawing     the seed of dropout
    replaced    dtypes of the graph, with the dtypes that replace them
    slots       the slots of experts
    """

    def __init__(
        self,
        program: StageProgram,
        collectives: TorchCollectives,
        *,
        sources: Mapping[str, T],
        received: Mapping[str, T],
        parameters: Mapping[str, T],
        take: Take,
        replaced: Mapping[str, torch.dtype],
        weights: DeferredWeightGradients | None,
        drawing: DropoutSeed,
        slots: ExpertSlots,
    ) -> None:
        self.program = program
        self.collectives = collectives
        self.parameters = parameters
        self.take = take
        self.replaced = replaced
        self.made: dict[str, T] = {**sources, **received}
        self._as_read: dict[str, T] = {}
        self._weights = weights
        self._drawing = drawing
        self._slots = slots
        self._with_more_slots: dict[str, PlannedOp] = {}
        unpacks: Unpacks = "once" if weights is None else "twice"
        self._again = RecomputedTensors((*parameters.values(), *sources.values()), unpacks)

    def run(self, sizes: Mapping[str, int]) -> dict[str, T]:
        """Run the pass and return the values that remain after their last reader.

        `sizes` are the values of the graph's symbols.
        """
        last = self.program.last_reader
        with self._again.hooks():
            for place, planned in enumerate(self.program.ops):
                op = self._with_more_slots.get(planned.op.name, planned)
                inputs = [self._fetch(value) for value in op.inputs]
                if op.op.kind == "moe_dispatch":
                    self._with_more_slots |= self._slots.ops(op, inputs[1])
                    op = self._with_more_slots.get(op.op.name, op)
                results = self._results(op, inputs, sizes)
                self.made.update(zip(op.op.outputs, results, strict=True))
                for value in op.inputs:
                    if last.get(value.root) == place:
                        self.made.pop(value.root, None)
                        self._as_read.pop(value.root, None)
                        self._again.let_go(value.root)
        self.collectives.record.saved_bytes = self._again.kept_bytes
        # the graph of the results refers to this object: as their owner it would never be freed
        made, self.made = self.made, {}
        self._as_read = {}
        return made

    def _results(self, op: PlannedOp, inputs: Sequence[T], sizes: Mapping[str, int]) -> Sequence[T]:
        names = op.op.outputs

        def run(arguments: Sequence[T]) -> Sequence[T]:
            roots = [value.root for value in op.inputs]
            read = {k: root for k, root in enumerate(roots) if self._is_trained(root)}
            if self._weights is None or not read:
                return self._run(op, arguments, sizes)
            return self._weights.run(lambda leaves: self._run(op, leaves, sizes), arguments, read)

        if op.is_again:
            return self._again.run(names, inputs, run)
        results = run(inputs)
        for name, result in zip(names, results, strict=True):
            self._again.share(name, result)
        return results

    def _run(self, op: PlannedOp, inputs: Sequence[T], sizes: Mapping[str, int]) -> Sequence[T]:
        order = op.order
        if order is not None and order.back:
            inputs = [turned(local, turns) for local, turns in zip(inputs, order.back, strict=True)]
        run = run_of(
            op.op,
            inputs,
            shapes=op.shapes,
            dtypes=[self.program.dtypes[name] for name in op.op.outputs],
            sizes=sizes,
            replaced=self.replaced,
        )
        chunks = None if order is None else order.rows
        local = LocalOp(
            run,
            op.planned,
            op.terms,
            op.whole_shapes,
            self.collectives.mesh,
            self.collectives.part,
            partial(self._all_reduce, op.op.name),
            chunks,
        )
        with self._generator(op, local):
            results = results_of(run) if op.is_whole else run_local(ARRAYS, local)
        if order is not None and order.forth:
            results = [turned(x, turns) for x, turns in zip(results, order.forth, strict=True)]
        if op.is_whole:
            return [
                result if way is None else self._redistribute(result, way)
                for result, way in zip(results, op.made, strict=True)
            ]
        return results

    def _all_reduce(
        self, op: str, part: T, axes: Sequence[Axis], how: Reduction, cause: Cause
    ) -> T:
        return self.collectives.all_reduce(part, axes, op, cause, how)

    def _generator(self, op: PlannedOp, local: LocalOp) -> AbstractContextManager[None]:
        """The generator of an op with random numbers: equal on replicas, different on shards."""
        if not (drops(op.op.kind, op.op.attrs) or is_random(op.op.kind)) or not local.call.inputs:
            return nullcontext()
        used = {axis for axes in op.planned.strategy.values() for axis in axes}
        axes = [axis for axis in self.collectives.mesh.names if axis in used and not op.is_whole]
        return self._drawing.of(op.op.name, int(local.part(axes)), local.call.x.device)

    def _is_trained(self, root: str) -> bool:
        return root in self.parameters and self.parameters[root].requires_grad

    def _fetch(self, value: OpInput) -> T:
        """The local shard of an input in the layout that the op needs."""
        root = value.root
        if value.shared is not None:
            if root not in self._as_read:
                self._as_read[root] = self._from_rest(value, value.shared)
            local = self._redistribute(self._as_read[root], value.own)
        else:
            local = self._from_rest(value, value.own)
        if value.around is not None:
            local = self._redistribute(local, value.around)
        for view in value.views:
            local = _view(local, view)
        return local

    def _from_rest(self, value: OpInput, way: ForwardAndBackward) -> T:
        """The redistribution of a value at rest."""
        root = value.root
        if root not in self.parameters:
            if root not in self.made:
                raise PlanError(f"tensor {root!r} has no value: it has no source and no producer")
            return self._redistribute(turned(self.made[root], value.turns), way)
        take = partial(self._take, way)
        return self._move(self.parameters[root], way, partial(parameter_read, take=take))

    def _take(self, way: ForwardAndBackward, gradient: T) -> None:
        result = self.collectives.move(gradient, way.backward)
        self.take(way.backward.tensor, way.reader, result, way.backward.after)

    def _redistribute(self, local: T, way: ForwardAndBackward) -> T:
        if not (way.forward.steps or way.backward.steps):
            return local
        back = partial(self.collectives.move, move=way.backward)
        return self._move(local, way, partial(redistributed, backward=back))

    def _move(self, local: T, way: ForwardAndBackward, function: Callable[..., T]) -> T:
        forth = partial(self.collectives.move, move=way.forward)
        result = function(local, forward=forth)
        if way.is_again and way.forward.steps:
            source, move = self._again.source(local), way.forward
            self._again.hold(
                move.tensor, result, lambda: self.collectives.move(source(), move, cause="again")
            )
        return result


def _view(local: T, view: LocalView) -> T:
    return local.reshape(view.shape) if view.order is None else local.permute(view.order)
