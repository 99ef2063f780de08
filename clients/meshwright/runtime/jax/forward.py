"""The forward pass of one microbatch on one device, with the plan's collectives in both passes.

Values that the plan saves for the backward pass have the checkpoint name KEPT. If the plan
recomputes, a checkpoint around the pass saves these values and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from meshwright.runtime.arrays import Reduction
from meshwright.runtime.jax.arrays import JaxArrays
from meshwright.runtime.jax.collectives import JaxCollectives
from meshwright.runtime.jax.kinds import JaxOpCall, call_of, results_of
from meshwright.runtime.jax.redistribute import parameter_read, redistributed
from meshwright.runtime.local_kernels import run_local
from meshwright.runtime.local_op import LocalOp
from meshwright.runtime.program import LocalView, OpInput, PlannedOp, StageProgram
from meshwright.runtime.redistribution_steps import Cause, ForwardAndBackward, LayoutChange
from meshwright.schema import Axis, PlanError
from meshwright.stages.planned_stage import PlanReader

A = jax.Array
KEPT = "kept"
ARRAYS = JaxArrays()
Sinks = Mapping[tuple[str, PlanReader], A]


class JaxForward:
    """The forward pass of one microbatch.

    sources     shards of inputs and labels, and constants
    parameters  values at rest
    sinks       zeros whose gradients are those of parameters, by name and reader
    replaced    dtypes of the graph, with the dtypes that replace them
    """

    def __init__(
        self,
        program: StageProgram,
        collectives: JaxCollectives,
        *,
        sources: Mapping[str, A],
        parameters: Mapping[str, A],
        sinks: Sinks,
        replaced: Mapping[str, str],
    ) -> None:
        self._program = program
        self._collectives = collectives
        self._parameters = parameters
        self._sinks = sinks
        self._replaced = replaced
        self._values: dict[str, A] = dict(sources)
        self._as_read: dict[str, A] = {}

    def run(self, sizes: Mapping[str, int]) -> Mapping[str, A]:
        """Run the pass and return all values by name. `sizes` are the values of symbols."""
        for op in self._program.ops:
            results = self._results(op, [self._fetch(value) for value in op.inputs], sizes)
            self._values.update(zip(op.op.outputs, results, strict=True))
        return self._values

    def _results(self, op: PlannedOp, inputs: Sequence[A], sizes: Mapping[str, int]) -> Sequence[A]:
        call = call_of(
            op.op,
            inputs,
            shapes=op.shapes,
            dtypes=[self._program.dtypes[name] for name in op.op.outputs],
            sizes=sizes,
            replaced=self._replaced,
        )
        keep = _identity if op.is_again else _save
        if op.is_whole:
            results = [
                result if way is None else self._redistribute(result, way)
                for result, way in zip(results_of(call), op.made, strict=True)
            ]
        else:
            results = list(run_local(ARRAYS, self._local(op, call, keep)))
        return [keep(result) for result in results]

    def _local(self, op: PlannedOp, call: JaxOpCall, keep: Callable[[A], A]) -> LocalOp:
        """The local op. `keep` saves reduced values, so that the backward pass runs no collective
        again."""

        def all_reduce(part: A, axes: Sequence[Axis], how: Reduction, _: Cause) -> A:
            return keep(self._collectives.all_reduce(part, axes, how))

        return LocalOp(
            call,
            op.planned,
            op.terms,
            op.whole_shapes,
            self._collectives.mesh,
            self._collectives.part,
            all_reduce,
        )

    def _fetch(self, value: OpInput) -> A:
        """The local shard of an input in the layout that the op needs."""
        root = value.root
        if value.shared is not None:
            if root not in self._as_read:
                self._as_read[root] = self._from_rest(root, value.shared)
            local = self._redistribute(self._as_read[root], value.own)
        else:
            local = self._from_rest(root, value.own)
        if value.around is not None:
            local = self._redistribute(local, value.around)
        for view in value.views:
            local = _view(local, view)
        return local

    def _from_rest(self, root: str, way: ForwardAndBackward) -> A:
        """The redistribution of a value at rest."""
        if root in self._parameters:
            sink = self._sinks.get((root, way.reader))
            if sink is not None:
                along = self._along(way)
                return _save_once(way, parameter_read(self._parameters[root], sink, *along))
            return self._collectives.move(self._parameters[root], way.forward)
        if root not in self._values:
            raise PlanError(f"tensor {root!r} has no value: it has no source and no producer")
        return self._redistribute(self._values[root], way)

    def _redistribute(self, local: A, way: ForwardAndBackward) -> A:
        if not (way.forward.steps or way.backward.steps):
            return local
        if not jnp.issubdtype(local.dtype, jnp.inexact):
            return self._collectives.move(local, way.forward)
        return _save_once(way, redistributed(local, *self._along(way)))

    def _along(self, way: ForwardAndBackward) -> tuple[Callable[[A], A], Callable[[A], A]]:
        def along(move: LayoutChange) -> Callable[[A], A]:
            return partial(self._collectives.move, move=move)

        return along(way.forward), along(way.backward)


def _save_once(way: ForwardAndBackward, value: A) -> A:
    return value if way.is_again else _save(value)


def _save(value: A) -> A:
    result: A = checkpoint_name(value, KEPT)
    return result


def _identity(value: A) -> A:
    return value


def _view(local: A, view: LocalView) -> A:
    return local.reshape(view.shape) if view.order is None else local.transpose(view.order)
