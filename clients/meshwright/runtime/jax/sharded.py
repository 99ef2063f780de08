"""Sharded functions: the loss and gradients of a function under a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from meshwright.capture.jax.pytree import Leaf, named_leaves
from meshwright.runtime.jax.job import Arrays, JaxStep, LossAndGradients
from meshwright.schema import InvalidInput, PlanError
from meshwright.schema.rank_strategy import RankStrategy

A = jax.Array


class Sharded:
    """A function under a plan, as `parallelize` returns it.

    Parameters are a dict of arrays by the names in the plan's graph, in the plan's layouts at rest.
    An optimizer state derived from them has the same layouts.

    value_and_grad  the jitted loss and gradients of a step, from parameters and the result of
                    `batch`
    strategy        the strategy of the first rank
    fallen_back     the ops that run whole although the plan shards them, with the reason
    """

    def __init__(
        self,
        job: JaxStep,
        names: tuple[str, ...],
        step: Callable[[Arrays, Arrays], LossAndGradients],
    ) -> None:
        self.strategy: RankStrategy = job.strategy
        self.fallen_back: Mapping[str, str] = job.program.fallen_back
        self.mesh = job.devices
        self._job = job
        self._names = names
        parameters = self.shardings
        inputs = {name: self._sharding_of_batch(name) for name in job.inputs}
        replicated = NamedSharding(job.devices, PartitionSpec())
        self.value_and_grad = jax.jit(
            step, in_shardings=(parameters, inputs), out_shardings=(replicated, parameters)
        )

    @property
    def shardings(self) -> dict[str, NamedSharding]:
        """The sharding of every parameter, its gradient and its optimizer state."""
        parameters = self._job.parameters.items()
        return {name: stored.sharding(self.mesh) for name, stored in parameters}

    def place(self, parameters: Any) -> dict[str, A]:
        """The parameters of the function in the plan's layouts.

        Raises PlanError for a parameter that the plan does not have, or has in another shape.
        """
        arrays: dict[str, A] = {}
        for leaf in named_leaves(parameters, ""):
            for name, value in self._of_plan(leaf):
                rest = self._job.parameters[name]
                whole = self._job.planned.shapes[name]
                if tuple(value.shape) != whole:
                    raise PlanError(
                        f"parameter {name!r} has the shape {list(whole)} in the plan's graph "
                        f"{self._job.graph.id}, and {list(value.shape)} here"
                    )
                array = rest.of_whole(jnp.asarray(value))
                arrays[name] = jax.device_put(array, rest.sharding(self.mesh))
        missing = sorted(set(self._job.parameters) - set(arrays))
        if missing:
            raise PlanError(
                f"the plan's graph {self._job.graph.id} has the parameter {missing[0]!r}, the "
                "function's parameters have none of this name"
            )
        return arrays

    def tree(self, values: Arrays, like: Any) -> Any:
        """Parameters or gradients by name as a pytree with the structure of `like`."""
        leaves = []
        for leaf in named_leaves(like, ""):
            parts = [
                self._job.parameters[name].whole(values[name]) for name, _ in self._of_plan(leaf)
            ]
            leaves.append(parts[0] if leaf.name in self._job.parameters else jnp.stack(parts))
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def batch(self, *arguments: Any) -> dict[str, A]:
        """The batch of a step in the plan's layouts, from the arguments after the parameters.

        The rows of several microbatches are concatenated.
        """
        if len(arguments) != len(self._names):
            raise InvalidInput(
                f"the function takes {len(self._names)} arguments after its parameters "
                f"({', '.join(self._names)}), got {len(arguments)}"
            )
        leaves = {
            leaf.name: leaf.value
            for prefix, argument in zip(self._names, arguments, strict=True)
            for leaf in named_leaves(argument, prefix)
        }
        return {name: self._place_input(name, leaves[name]) for name in self._job.inputs}

    def _place_input(self, name: str, whole: Any) -> A:
        job = self._job
        count, dim = job.strategy.microbatches, job.batch_dim(name)
        expected = list(job.planned.shapes[name])
        if dim is not None:
            expected[dim] *= count
        if list(whole.shape) != expected:
            raise InvalidInput(
                f"{name!r} has the shape {list(whole.shape)} in a step's batch. Use the shape "
                f"{expected} of the plan"
            )
        value = jnp.asarray(whole)
        if dim is not None:
            parts = jnp.split(value, count, axis=dim)
            value = jnp.stack([job.inputs[name].of_whole(part) for part in parts])
        return jax.device_put(value, self._sharding_of_batch(name))

    def _sharding_of_batch(self, name: str) -> NamedSharding:
        spec = self._job.inputs[name].spec
        spec = spec if self._job.batch_dim(name) is None else PartitionSpec(None, *spec)
        return NamedSharding(self.mesh, spec)

    def _of_plan(self, leaf: Leaf) -> list[tuple[str, Any]]:
        """The parameters of a leaf by name. A scanned leaf has one for each iteration."""
        parameters = self._job.parameters
        if leaf.name in parameters:
            return [(leaf.name, leaf.value)]
        if f"{leaf.name}.0" not in parameters:
            raise PlanError(
                f"the plan's graph {self._job.graph.id} has no parameter {leaf.name!r}; it has "
                f"{', '.join(sorted(parameters)[:8])}…"
            )
        return [(f"{leaf.name}.{step}", leaf.value[step]) for step in range(leaf.value.shape[0])]
