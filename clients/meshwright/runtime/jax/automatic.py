"""Automatic execution: one XLA program for whole arrays, with the plan's layouts as constraints.

Parameters and inputs have the layouts of the plan. Sharding constraints state the layout of every
tensor at rest and the layout that each reader needs. XLA chooses the collectives and the handling
of partial sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from meshwright.runtime.jax.at_rest import StoredArray
from meshwright.runtime.jax.forward import KEPT
from meshwright.runtime.jax.job import Arrays, JaxStep, LossAndGradients
from meshwright.runtime.jax.kinds import call_of, results_of
from meshwright.schema import Layout, Op, PlanError

A = jax.Array


class Automatic:
    """The step of a job as one program for all devices."""

    def __init__(self, job: JaxStep) -> None:
        self._job = job

    def loss_and_gradients(self, values: Arrays, batch: Arrays) -> LossAndGradients:
        """The loss and gradients of a step, from arrays at rest.

        Gradients have the layouts of the parameters.
        """
        job = self._job
        forward = job.checkpointed(self._loss, KEPT)

        def microbatch(values: Arrays, batch: Arrays) -> LossAndGradients:
            sources = {name: job.inputs[name].whole(array) for name, array in batch.items()}
            result: LossAndGradients = jax.value_and_grad(forward)(dict(values), sources)
            return result

        return job.over_microbatches(microbatch, values, batch)

    def _loss(self, parameters: Arrays, sources: Arrays) -> A:
        job, planned = self._job, self._job.planned
        values: dict[str, A] = dict(job.constants)
        values |= sources
        for name, array in parameters.items():
            whole = job.parameters[name].whole(array)
            if name not in job.trained:
                whole = lax.stop_gradient(whole)
            values[name] = self._constrain(whole, planned.at_rest(name))
        for op in job.graph.topological_order():
            for name, result in zip(op.outputs, self._results(op, values), strict=True):
                tensor = planned.tensors.get(name)
                values[name] = (
                    result if tensor is None else self._constrain(result, tensor.rest.value)
                )
        return values[job.loss] * job.share

    def _results(self, op: Op, values: Mapping[str, A]) -> list[A]:
        job = self._job
        missing = [name for name in op.inputs if name not in values]
        if missing:
            raise PlanError(f"tensor {missing[0]!r} has no value: it has no source and no producer")
        inputs = [self._input(op, k, values[name]) for k, name in enumerate(op.inputs)]
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
        return [checkpoint_name(result, KEPT) for result in results]

    def _input(self, op: Op, k: int, value: A) -> A:
        """An input in the layout of the op's strategy. Views take it unchanged."""
        planned = self._job.planned
        if op.name not in planned.ops or planned.is_free(planned.source(op.inputs[k]).root):
            return value
        return self._constrain(value, planned.seen(op.inputs[k], planned.needed(op, k)))

    def _constrain(self, value: A, layout: Layout) -> A:
        if layout.partial:
            return value
        return StoredArray(layout, self._job.planned.mesh).constrained(value, self._job.devices)
