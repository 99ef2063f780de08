"""One forward pass of one microbatch on one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch

from meshwright.capture.interpreter import results_of, run_of
from meshwright.runtime.fallback import drops
from meshwright.runtime.moves import Way
from meshwright.runtime.program import Given, PlannedOp, Program, View
from meshwright.runtime.stage import PlanReader
from meshwright.runtime.torch.again import Again, Asked
from meshwright.runtime.torch.collectives import Collectives
from meshwright.runtime.torch.drawing import Drawing
from meshwright.runtime.torch.kernels import LocalOp, run_local
from meshwright.runtime.torch.redistribute import parameter_read, redistributed
from meshwright.runtime.torch.turns import turned
from meshwright.runtime.torch.weights import Weights
from meshwright.schema import Layout, PlanError

T = torch.Tensor
Take = Callable[[str, PlanReader, T, Layout], None]  # the gradient of a parameter, by who read it


class Forward:
    """Values of one pass. sources: parts of inputs and labels; whole buffers and constants.
    received: what other stages made.

    parameters: values at rest. take: gets their gradients, in the backward pass, or where there are
    `weights` when these give them. drawing: where ops draw that drop elements. replaced: dtypes of
    the graph that run as others.
    """

    def __init__(
        self,
        program: Program,
        collectives: Collectives,
        *,
        sources: Mapping[str, T],
        received: Mapping[str, T],
        parameters: Mapping[str, T],
        take: Take,
        replaced: Mapping[str, torch.dtype],
        weights: Weights | None,
        drawing: Drawing,
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
        asked: Asked = "once" if weights is None else "twice"
        self._again = Again((*parameters.values(), *sources.values()), asked)

    def run(self, sizes: Mapping[str, int]) -> dict[str, T]:
        """All values that the program keeps, or nobody in the stage reads; sizes: of the graph's
        symbols."""
        last = self.program.last_reader
        with self._again.hooks():
            for place, op in enumerate(self.program.ops):
                results = self._results(op, [self._fetch(own) for own in op.inputs], sizes)
                self.made.update(zip(op.op.outputs, results, strict=True))
                for own in op.inputs:
                    if last.get(own.root) == place:
                        self.made.pop(own.root, None)
                        self._as_read.pop(own.root, None)
                        self._again.let_go(own.root)
        self.collectives.record.saved_bytes = self._again.kept_bytes
        return self.made

    def _results(self, op: PlannedOp, inputs: Sequence[T], sizes: Mapping[str, int]) -> Sequence[T]:
        names = op.op.outputs

        def run(given: Sequence[T]) -> Sequence[T]:
            read = {k: own.root for k, own in enumerate(op.inputs) if self._is_trained(own.root)}
            if self._weights is None or not read:
                return self._run(op, given, sizes)
            return self._weights.run(lambda own: self._run(op, own, sizes), given, read)

        if op.is_again:
            return self._again.run(names, inputs, run)
        results = run(inputs)
        for name, result in zip(names, results, strict=True):
            self._again.share(name, result)
        return results

    def _run(self, op: PlannedOp, inputs: Sequence[T], sizes: Mapping[str, int]) -> Sequence[T]:
        order = op.order
        if order is not None and order.back:
            inputs = [turned(own, turns) for own, turns in zip(inputs, order.back, strict=True)]
        run = run_of(
            op.op,
            inputs,
            shapes=op.shapes,
            dtypes=[self.program.dtypes[name] for name in op.op.outputs],
            sizes=sizes,
            replaced=self.replaced,
        )
        chunks = None if order is None else order.rows
        local = LocalOp(run, op.planned, op.terms, op.whole_shapes, self.collectives, chunks)
        with self._drawn(op, local):
            made = results_of(run) if op.is_whole else run_local(local)
        if order is not None and order.forth:
            made = [turned(own, turns) for own, turns in zip(made, order.forth, strict=True)]
        if op.is_whole:
            return [
                own if way is None else self._travel(own, way)
                for own, way in zip(made, op.made, strict=True)
            ]
        return made

    def _drawn(self, op: PlannedOp, local: LocalOp) -> AbstractContextManager[None]:
        """Copies draw alike: the axes that cut the op tell its parts."""
        if not drops(op.op.kind, op.op.attrs):
            return nullcontext()
        used = {axis for axes in op.planned.strategy.values() for axis in axes}
        axes = [axis for axis in self.collectives.mesh.names if axis in used and not op.is_whole]
        return self._drawing.of(op.op.name, local.part(axes), local.run.x.device)

    def _is_trained(self, root: str) -> bool:
        return root in self.parameters and self.parameters[root].requires_grad

    def _fetch(self, given: Given) -> T:
        """An input as the op needs it."""
        root = given.root
        if given.shared is not None:
            if root not in self._as_read:
                self._as_read[root] = self._first(given, given.shared)
            local = self._travel(self._as_read[root], given.own)
        else:
            local = self._first(given, given.own)
        if given.around is not None:
            local = self._travel(local, given.around)
        for view in given.views:
            local = _viewed(local, view)
        return local

    def _first(self, given: Given, way: Way) -> T:
        """A value from where it rests."""
        root = given.root
        if root not in self.parameters:
            if root not in self.made:
                raise PlanError(f"tensor {root!r} has no value: it is neither given nor made")
            return self._travel(turned(self.made[root], given.turns), way)
        take = partial(self._take, way)
        return self._moved(self.parameters[root], way, partial(parameter_read, take=take))

    def _take(self, way: Way, gradient: T) -> None:
        moved = self.collectives.move(gradient, way.backward)
        self.take(way.backward.tensor, way.reader, moved, way.backward.after)

    def _travel(self, local: T, way: Way) -> T:
        if not (way.forward.steps or way.backward.steps):
            return local
        back = partial(self.collectives.move, move=way.backward)
        return self._moved(local, way, partial(redistributed, backward=back))

    def _moved(self, local: T, way: Way, function: Callable[..., T]) -> T:
        forth = partial(self.collectives.move, move=way.forward)
        made = function(local, forward=forth)
        if way.is_again and way.forward.steps:
            source, move = self._again.source(local), way.forward
            self._again.hold(
                move.tensor, made, lambda: self.collectives.move(source(), move, cause="again")
            )
        return made


def _viewed(local: T, view: View) -> T:
    return local.reshape(view.shape) if view.order is None else local.permute(view.order)
