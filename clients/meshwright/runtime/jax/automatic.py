"""The plan as advice to XLA: one program for whole arrays, told where tensors lie.

Parameters and inputs come in as the plan has them; every tensor is constrained to its layout at
rest, as its readers share it, and as each of them needs it. What moves is XLA's own choice, and a
partial sum is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from meshwright.runtime.jax.at_rest import AtRest
from meshwright.runtime.jax.forward import KEPT
from meshwright.runtime.jax.job import Arrays, Job, LossAndGradients
from meshwright.runtime.jax.kinds import call_of, results_of
from meshwright.schema import Layout, Op, PlanError

A = jax.Array


class Automatic:
    """A step of a job for all devices together."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def loss_and_gradients(self, values: Arrays, batch: Arrays) -> LossAndGradients:
        """Of a whole step, for arrays at rest; gradients lie as the parameters."""
        job = self._job
        forward = job.checkpointed(self._loss, KEPT)

        def one(values: Arrays, batch: Arrays) -> LossAndGradients:
            sources = {name: job.inputs[name].whole(own) for name, own in batch.items()}
            found: LossAndGradients = jax.value_and_grad(forward)(dict(values), sources)
            return found

        return job.over_microbatches(one, values, batch)

    def _loss(self, held: Arrays, sources: Arrays) -> A:
        job, planned = self._job, self._job.planned
        made: dict[str, A] = dict(job.constants)
        made |= sources
        for name, own in held.items():
            whole = job.parameters[name].whole(own)
            if name not in job.trained:
                whole = lax.stop_gradient(whole)
            made[name] = self._lying(whole, planned.at_rest(name))
        for op in job.graph.topological_order():
            for name, result in zip(op.outputs, self._results(op, made), strict=True):
                rests = planned.tensors.get(name)
                made[name] = result if rests is None else self._lying(result, rests.rest.value)
        return made[job.loss] * job.share

    def _results(self, op: Op, made: Mapping[str, A]) -> list[A]:
        job = self._job
        missing = [name for name in op.inputs if name not in made]
        if missing:
            raise PlanError(f"tensor {missing[0]!r} has no value: it is neither given nor made")
        inputs = [self._as_needed(op, k, made[name]) for k, name in enumerate(op.inputs)]
        call = call_of(
            op,
            inputs,
            shapes=[job.planned.shapes[name] for name in op.outputs],
            dtypes=[job.program.dtypes[name] for name in op.outputs],
            sizes=job.strategy.symbols,
            replaced=job.replaced,
        )
        results = list(results_of(call))
        if op.name in job.planned.recomputed:
            return results
        return [checkpoint_name(own, KEPT) for own in results]

    def _as_needed(self, op: Op, k: int, value: A) -> A:
        """An input as the op's strategy has it, where the op is none of the views."""
        planned = self._job.planned
        if op.name not in planned.ops or planned.is_free(planned.source(op.inputs[k]).root):
            return value
        return self._lying(value, planned.seen(op.inputs[k], planned.needed(op, k)))

    def _lying(self, value: A, layout: Layout) -> A:
        if layout.partial:
            return value
        return AtRest(layout, self._job.planned.mesh).constrained(value, self._job.devices)
