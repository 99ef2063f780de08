"""What a plan is about, for one JAX program: the stage, its arrays at rest, its microbatches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.at_rest import AtRest, resting
from meshwright.runtime.jax.kinds import KERNELS
from meshwright.runtime.program import Program
from meshwright.runtime.stage import PlannedStage
from meshwright.schema import Graph
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.sizes import symbols_in

A = jax.Array
Arrays = Mapping[str, A]
LossAndGradients = tuple[A, dict[str, A]]


class Form(Protocol):
    """A way to carry out a job."""

    def loss_and_gradients(self, values: Arrays, batch: Arrays) -> LossAndGradients:
        """Of a whole step, for arrays at rest; gradients lie as the parameters."""


@dataclass(frozen=True)
class Job:
    """constants: of the graph, whole. replaced: dtypes of the graph that run as others. devices:
    the plan's mesh in JAX."""

    strategy: RankStrategy
    graph: Graph
    devices: jax.sharding.Mesh
    constants: Arrays
    replaced: Mapping[str, str]

    @cached_property
    def planned(self) -> PlannedStage:
        return PlannedStage(self.graph, self.strategy.stages[0].planned, self.strategy.symbols)

    @cached_property
    def program(self) -> Program:
        return Program(self.planned, KERNELS)

    @property
    def loss(self) -> str:
        assert self.graph.loss is not None
        return self.graph.loss

    @property
    def share(self) -> float:
        """Of a microbatch in the loss."""
        return 1 / self.strategy.microbatches if self.strategy.gradients == "mean" else 1.0

    @property
    def does_again(self) -> bool:
        """Whether the plan makes or moves anything again in the backward pass."""
        again = any(moved.again for moved in self.planned.stage.redistributions)
        return again or bool(self.planned.recomputed)

    @cached_property
    def parameters(self) -> dict[str, AtRest]:
        """Between steps: as the optimizer's state lies."""
        own = self.planned.parameters.items()
        return resting({name: p.optimizer or p.value for name, p in own}, self.planned.mesh)

    @cached_property
    def inputs(self) -> dict[str, AtRest]:
        """Of one microbatch."""
        return resting(self.program.loaded, self.planned.mesh)

    @cached_property
    def trained(self) -> frozenset[str]:
        """Parameters that have a gradient."""
        return frozenset(
            name
            for name, own in self.planned.parameters.items()
            if own.gradient is not None and self.graph.tensor(name).trainable
        )

    def batch_dim(self, name: str) -> int | None:
        """Along which an input is cut into microbatches; None = each has all of it."""
        for d, size in enumerate(self.graph.tensor(name).shape):
            if isinstance(size, str) and "batch" in symbols_in(size):
                return d
        return None

    def over_microbatches(
        self, one: Callable[[Arrays, Arrays], tuple[A, Any]], values: Arrays, batch: Arrays
    ) -> tuple[A, Any]:
        """Losses and gradients of all microbatches, added up. one: of values and a microbatch.

        batch: inputs with a dim in front for microbatches, where they have one of the batch.
        """
        cut = {name: own for name, own in batch.items() if self.batch_dim(name) is not None}
        rest = {name: own for name, own in batch.items() if name not in cut}
        first = {name: own[0] for name, own in cut.items()}
        if self.strategy.microbatches == 1:
            return one(values, {**rest, **first})

        def add(total: tuple[A, Any], own: Arrays) -> tuple[tuple[A, Any], None]:
            # what is gathered of parameters must not leave the loop, and be held through all of it
            again, own = lax.optimization_barrier((dict(values), own))
            return jax.tree.map(jnp.add, total, one(again, {**rest, **own})), None

        made = jax.eval_shape(one, values, {**rest, **first})
        zeros = jax.tree.map(lambda own: jnp.zeros(own.shape, own.dtype), made)
        total, _ = lax.scan(add, zeros, cut)
        return total

    def checkpointed(self, function: Callable[..., A], kept: str) -> Callable[..., A]:
        """A forward pass that keeps what is marked so, where the plan does anything again."""
        if not self.does_again:
            return function
        policy = jax.checkpoint_policies.save_only_these_names(kept)
        again: Callable[..., A] = jax.checkpoint(function, policy=policy)
        return again
