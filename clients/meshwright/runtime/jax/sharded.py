"""A function's loss and gradients under a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from meshwright.capture.jax.leaves import Leaf, named_leaves
from meshwright.runtime.jax.job import Arrays, Job, LossAndGradients
from meshwright.schema import InvalidInput, PlanError
from meshwright.schema.rank_strategy import RankStrategy

A = jax.Array


class Sharded:
    """What `parallelize` gives. Parameters are a dict of arrays by the names of the plan's graph,
    each where the plan has it between steps; an optimizer's state made of them lies alike.

    value_and_grad(values, batch): loss and gradients of a step of all microbatches, jitted; batch
    as `batch` gives it. strategy: of the first rank. fallen_back: ops that every device runs whole
    though the plan shards them, with the reason.
    """

    def __init__(
        self,
        job: Job,
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
        alone = NamedSharding(job.devices, PartitionSpec())
        self.value_and_grad = jax.jit(
            step, in_shardings=(parameters, inputs), out_shardings=(alone, parameters)
        )

    @property
    def shardings(self) -> dict[str, NamedSharding]:
        """Of every parameter, its gradient and its optimizer state."""
        own = self._job.parameters.items()
        return {name: rest.sharding(self.mesh) for name, rest in own}

    def place(self, parameters: Any) -> dict[str, A]:
        """The function's own parameters as the plan has them.

        PlanError naming a parameter that the plan does not have, or has in another shape.
        """
        found: dict[str, A] = {}
        for leaf in named_leaves(parameters, ""):
            for name, value in self._of_plan(leaf):
                rest = self._job.parameters[name]
                whole = self._job.planned.shapes[name]
                if tuple(value.shape) != whole:
                    raise PlanError(
                        f"parameter {name!r} has the shape {list(whole)} in the plan's graph "
                        f"{self._job.graph.id}, and {list(value.shape)} here"
                    )
                held = rest.of_whole(jnp.asarray(value))
                found[name] = jax.device_put(held, rest.sharding(self.mesh))
        missing = sorted(set(self._job.parameters) - set(found))
        if missing:
            raise PlanError(
                f"the plan's graph {self._job.graph.id} has the parameter {missing[0]!r}, the "
                "function's parameters have none of this name"
            )
        return found

    def tree(self, values: Arrays, like: Any) -> Any:
        """Arrays by name, parameters or gradients, as a tree like the function's own."""
        made = []
        for leaf in named_leaves(like, ""):
            own = [
                self._job.parameters[name].whole(values[name]) for name, _ in self._of_plan(leaf)
            ]
            made.append(own[0] if leaf.name in self._job.parameters else jnp.stack(own))
        return jax.tree.unflatten(jax.tree.structure(like), made)

    def batch(self, *arguments: Any) -> dict[str, A]:
        """A step's whole batch, the function's arguments behind its parameters, where the plan
        loads it. Of several microbatches the rows lie one behind the other."""
        if len(arguments) != len(self._names):
            raise InvalidInput(
                f"the function takes {len(self._names)} arguments behind its parameters "
                f"({', '.join(self._names)}), got {len(arguments)}"
            )
        given = {
            leaf.name: leaf.value
            for called, argument in zip(self._names, arguments, strict=True)
            for leaf in named_leaves(argument, called)
        }
        return {name: self._placed(name, given[name]) for name in self._job.inputs}

    def _placed(self, name: str, whole: Any) -> A:
        job = self._job
        count, dim = job.strategy.microbatches, job.batch_dim(name)
        expected = list(job.planned.shapes[name])
        if dim is not None:
            expected[dim] *= count
        if list(whole.shape) != expected:
            raise InvalidInput(
                f"{name!r} has the shape {list(whole.shape)} in a step's batch; the plan has it of "
                f"{expected}"
            )
        value = jnp.asarray(whole)
        if dim is not None:
            parts = jnp.split(value, count, axis=dim)
            value = jnp.stack([job.inputs[name].of_whole(part) for part in parts])
        return jax.device_put(value, self._sharding_of_batch(name))

    def _sharding_of_batch(self, name: str) -> NamedSharding:
        spec = self._job.inputs[name].spec
        own = spec if self._job.batch_dim(name) is None else PartitionSpec(None, *spec)
        return NamedSharding(self.mesh, own)

    def _of_plan(self, leaf: Leaf) -> list[tuple[str, Any]]:
        """A leaf of the parameters by name; one that a scan runs over, step by step."""
        own = self._job.parameters
        if leaf.name in own:
            return [(leaf.name, leaf.value)]
        if f"{leaf.name}.0" not in own:
            raise PlanError(
                f"the plan's graph {self._job.graph.id} has no parameter {leaf.name!r}; it has "
                f"{', '.join(sorted(own)[:8])}…"
            )
        return [(f"{leaf.name}.{step}", leaf.value[step]) for step in range(leaf.value.shape[0])]
