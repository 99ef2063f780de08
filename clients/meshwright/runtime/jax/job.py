"""JAX steps: the stage of a plan, its arrays at rest and its microbatches, for one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.runtime.jax.at_rest import StoredArray, resting
from meshwright.runtime.jax.kinds import KERNELS
from meshwright.runtime.program import StageProgram
from meshwright.schema import Graph
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.sizes import symbols_in
from meshwright.stages.planned_stage import PlannedStage

A = jax.Array
Arrays = Mapping[str, A]
LossAndGradients = tuple[A, dict[str, A]]


class Form(Protocol):
    """A form of execution of a job."""

    def loss_and_gradients(self, values: Arrays, batch: Arrays) -> LossAndGradients:
        """The loss and gradients of a step, from arrays at rest.

        Gradients have the layouts of the parameters.
        """


@dataclass(frozen=True)
class JaxStep:
    """The step of a plan of one stage.

    `devices` is the plan's mesh in JAX. `constants` are the whole constants of the graph.
    `replaced` maps dtypes of the graph to the dtypes that replace them.
    """

    strategy: RankStrategy
    graph: Graph
    devices: jax.sharding.Mesh
    constants: Arrays
    replaced: Mapping[str, str]

    @cached_property
    def planned(self) -> PlannedStage:
        return PlannedStage(self.graph, self.strategy.stages[0].planned, self.strategy.symbols)

    @cached_property
    def program(self) -> StageProgram:
        return StageProgram(self.planned, KERNELS)

    @property
    def loss(self) -> str:
        assert self.graph.loss is not None
        return self.graph.loss

    @property
    def share(self) -> float:
        """The weight of a microbatch in the loss."""
        return 1 / self.strategy.microbatches if self.strategy.gradients == "mean" else 1.0

    @property
    def does_again(self) -> bool:
        """Whether the backward pass recomputes ops or repeats redistributions."""
        again = any(edge.again for edge in self.planned.stage.redistributions)
        return again or bool(self.planned.recomputed)

    @cached_property
    def parameters(self) -> dict[str, StoredArray]:
        """The parameters between steps, in the layout of the optimizer state."""
        parameters = self.planned.parameters.items()
        return resting({name: p.optimizer or p.value for name, p in parameters}, self.planned.mesh)

    @cached_property
    def inputs(self) -> dict[str, StoredArray]:
        """The inputs of one microbatch."""
        return resting(self.program.loaded, self.planned.mesh)

    @cached_property
    def trained(self) -> frozenset[str]:
        """The parameters that have a gradient."""
        return frozenset(
            name
            for name, parameter in self.planned.parameters.items()
            if parameter.gradient is not None and self.graph.tensor(name).trainable
        )

    def batch_dim(self, name: str) -> int | None:
        """The dim along which an input is split into microbatches; None if it is not split."""
        for d, size in enumerate(self.graph.tensor(name).shape):
            if isinstance(size, str) and "batch" in symbols_in(size):
                return d
        return None

    def over_microbatches(
        self, microbatch: Callable[[Arrays, Arrays], tuple[A, Any]], values: Arrays, batch: Arrays
    ) -> tuple[A, Any]:
        """The sum of losses and gradients over all microbatches.

        `microbatch` computes them from values and one microbatch. The inputs in `batch` have a
        leading dim of microbatches if they have a batch dim.
        """
        split = {name: array for name, array in batch.items() if self.batch_dim(name) is not None}
        rest = {name: array for name, array in batch.items() if name not in split}
        first = {name: array[0] for name, array in split.items()}
        if self.strategy.microbatches == 1:
            return microbatch(values, {**rest, **first})

        def add(total: tuple[A, Any], inputs: Arrays) -> tuple[tuple[A, Any], None]:
            # XLA must not hoist gathered parameters out of the loop, which would keep them alive
            parameters, inputs = lax.optimization_barrier((dict(values), inputs))
            return jax.tree.map(jnp.add, total, microbatch(parameters, {**rest, **inputs})), None

        shapes = jax.eval_shape(microbatch, values, {**rest, **first})
        zeros = jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), shapes)
        total, _ = lax.scan(add, zeros, split)
        return total

    def checkpointed(self, function: Callable[..., A], kept: str) -> Callable[..., A]:
        """A forward pass that saves only values of the name `kept`, if the plan recomputes."""
        if not self.does_again:
            return function
        policy = jax.checkpoint_policies.save_only_these_names(kept)
        checkpoint: Callable[..., A] = jax.checkpoint(function, policy=policy)
        return checkpoint
