"""The plan to the letter: every op on local shards inside one `jax.shard_map`, and no collective
that is not the plan's, forward, backward and once a step."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from meshwright.runtime.jax.collectives import Collectives
from meshwright.runtime.jax.forward import KEPT, Forward, Sinks
from meshwright.runtime.jax.job import Arrays, Job, LossAndGradients
from meshwright.runtime.moves import Move, Way
from meshwright.runtime.stage import ALL_READERS, PlanReader
from meshwright.schema import Layout

A = jax.Array


class Exact:
    """A step of a job on every device."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._collectives = Collectives(job.planned.mesh)

    def loss_and_gradients(self, values: Arrays, batch: Arrays) -> LossAndGradients:
        """Of a whole step, for arrays at rest; gradients lie as the parameters."""
        job = self._job
        specs = {name: own.spec for name, own in job.parameters.items()}
        inputs = {
            name: PartitionSpec(None, *own.spec) if job.batch_dim(name) is not None else own.spec
            for name, own in job.inputs.items()
        }
        step = jax.shard_map(
            self._step,
            mesh=job.devices,
            in_specs=(specs, inputs),
            out_specs=(PartitionSpec(), specs),
            check_vma=False,
        )
        made: LossAndGradients = step(dict(values), dict(batch))
        return made

    def _step(self, shards: Arrays, batch: Arrays) -> LossAndGradients:
        job = self._job
        resting = {name: job.parameters[name].local(own) for name, own in shards.items()}
        values = {name: self._spread(name, own) for name, own in resting.items()}
        reads = self._reads()
        sinks = {
            key: jnp.zeros(way.backward.after.local_shape(job.planned.mesh), values[key[0]].dtype)
            for key, way in reads.items()
        }

        def one(values: Arrays, batch: Arrays) -> tuple[A, Sinks]:
            sources = {name: job.inputs[name].local(own) for name, own in batch.items()}
            forward = job.checkpointed(self._loss, KEPT)
            found: tuple[A, Sinks] = jax.value_and_grad(forward)(sinks, values, sources)
            return found

        loss, gradients = job.over_microbatches(one, values, batch)
        lies = {key: way.backward.after for key, way in reads.items()}
        reduced = self._reduced(resting, gradients, lies)
        partial = job.planned.at_rest(job.loss).partial
        return self._collectives.all_reduce(loss, tuple(partial)), {
            name: job.parameters[name].of_local(own) for name, own in reduced.items()
        }

    def _loss(self, sinks: Sinks, values: Arrays, sources: Arrays) -> A:
        job = self._job
        forward = Forward(
            job.program,
            self._collectives,
            sources={**job.constants, **sources},
            parameters=values,
            sinks=sinks,
            replaced=job.replaced,
        )
        return forward.run(job.strategy.symbols)[job.loss] * job.share

    def _spread(self, name: str, resting: A) -> A:
        """A parameter from where the optimizer left it to where its readers start from."""
        planned = self._job.planned
        steps = planned.steps(name, ALL_READERS, "parameter", "per_step")
        before = self._job.parameters[name].layout
        return self._collectives.move(resting, Move(name, before, steps, "step"))

    def _reads(self) -> Mapping[tuple[str, PlanReader], Way]:
        """How parameters that are trained are read, by name and reader."""
        found = {}
        for op in self._job.program.ops:
            for given in op.inputs:
                if given.root in self._job.trained:
                    way = given.shared or given.own
                    found[given.root, way.reader] = way
        return found

    def _reduced(
        self, resting: Arrays, gradients: Sinks, lies: Mapping[tuple[str, PlanReader], Layout]
    ) -> dict[str, A]:
        """Gradients as the optimizer needs them: those of all readers, each by its own steps."""
        found = {name: jnp.zeros_like(own) for name, own in resting.items()}
        seen: set[str] = set()
        for (name, reader), gradient in gradients.items():
            steps = self._job.planned.steps(name, reader, "gradient", "per_step")
            own = self._collectives.move(gradient, Move(name, lies[name, reader], steps, "step"))
            found[name] = found[name] + own if name in seen else own
            seen.add(name)
        return found
