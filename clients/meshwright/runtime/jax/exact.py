"""Exact execution: every op on local shards inside one `jax.shard_map`.

It runs the collectives of the plan and no others: forward, backward and once per step.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from meshwright.runtime.jax.collectives import JaxCollectives
from meshwright.runtime.jax.forward import KEPT, JaxForward, Sinks
from meshwright.runtime.jax.job import Arrays, JaxStep, LossAndGradients
from meshwright.runtime.redistribution_steps import ForwardAndBackward, LayoutChange
from meshwright.schema import Layout
from meshwright.stages.planned_stage import ALL_READERS, PlanReader

A = jax.Array


class Exact:
    """The step of a job on local shards of every device."""

    def __init__(self, job: JaxStep) -> None:
        self._job = job
        self._collectives = JaxCollectives(job.planned.mesh)

    def loss_and_gradients(self, values: Arrays, batch: Arrays) -> LossAndGradients:
        """The loss and gradients of a step, from arrays at rest.

        Gradients have the layouts of the parameters.
        """
        job = self._job
        specs = {name: stored.spec for name, stored in job.parameters.items()}
        inputs = {
            name: stored.spec if job.batch_dim(name) is None else PartitionSpec(None, *stored.spec)
            for name, stored in job.inputs.items()
        }
        step = jax.shard_map(
            self._step,
            mesh=job.devices,
            in_specs=(specs, inputs),
            out_specs=(PartitionSpec(), specs),
            check_vma=False,
        )
        result: LossAndGradients = step(dict(values), dict(batch))
        return result

    def _step(self, shards: Arrays, batch: Arrays) -> LossAndGradients:
        job = self._job
        resting = {name: job.parameters[name].local(shard) for name, shard in shards.items()}
        values = {name: self._gather(name, local) for name, local in resting.items()}
        reads = self._reads()
        sinks = {
            key: jnp.zeros(way.backward.after.local_shape(job.planned.mesh), values[key[0]].dtype)
            for key, way in reads.items()
        }

        def microbatch(values: Arrays, batch: Arrays) -> tuple[A, Sinks]:
            sources = {name: job.inputs[name].local(shard) for name, shard in batch.items()}
            forward = job.checkpointed(self._loss, KEPT)
            result: tuple[A, Sinks] = jax.value_and_grad(forward)(sinks, values, sources)
            return result

        loss, gradients = job.over_microbatches(microbatch, values, batch)
        layouts = {key: way.backward.after for key, way in reads.items()}
        totals = self._reduce(resting, gradients, layouts)
        partial = job.planned.at_rest(job.loss).partial
        return self._collectives.all_reduce(loss, tuple(partial)), {
            name: job.parameters[name].of_local(gradient) for name, gradient in totals.items()
        }

    def _loss(self, sinks: Sinks, values: Arrays, sources: Arrays) -> A:
        job = self._job
        forward = JaxForward(
            job.program,
            self._collectives,
            sources={**job.constants, **sources},
            parameters=values,
            sinks=sinks,
            replaced=job.replaced,
        )
        return forward.run(job.strategy.symbols)[job.loss] * job.share

    def _gather(self, name: str, resting: A) -> A:
        """A parameter in the layout of its readers, from its layout at the optimizer."""
        planned = self._job.planned
        steps = planned.steps(name, ALL_READERS, "parameter", "per_step")
        before = self._job.parameters[name].layout
        return self._collectives.move(resting, LayoutChange(name, before, steps, "step"))

    def _reads(self) -> Mapping[tuple[str, PlanReader], ForwardAndBackward]:
        """The redistributions of trained parameters, by name and reader."""
        ways = {}
        for op in self._job.program.ops:
            for value in op.inputs:
                if value.root in self._job.trained:
                    way = value.shared or value.own
                    ways[value.root, way.reader] = way
        return ways

    def _reduce(
        self, resting: Arrays, gradients: Sinks, layouts: Mapping[tuple[str, PlanReader], Layout]
    ) -> dict[str, A]:
        """Gradients in the layout of the optimizer: the sum over all readers."""
        totals = {name: jnp.zeros_like(local) for name, local in resting.items()}
        seen: set[str] = set()
        for (name, reader), gradient in gradients.items():
            steps = self._job.planned.steps(name, reader, "gradient", "per_step")
            term = self._collectives.move(
                gradient, LayoutChange(name, layouts[name, reader], steps, "step")
            )
            totals[name] = totals[name] + term if name in seen else term
            seen.add(name)
        return totals
