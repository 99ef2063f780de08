"""Parameters of one rank: at rest in their optimizer's layout, spread for a step, reduced after it.

The optimizer works on the finest shards. Before a step its result goes to where the values rest
between readers; gradients are added up over microbatches where the plan says, and go to the
optimizer's layout once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from meshwright.runtime.moves import Move
from meshwright.runtime.stage import ALL_READERS, PlannedStage, PlanReader
from meshwright.runtime.torch.at_rest import AtRest, local_of
from meshwright.runtime.torch.collectives import Collectives
from meshwright.runtime.whole import from_whole, to_whole, whole_of
from meshwright.schema import Graph, Layout, ParameterPlan, PlanError

T = torch.Tensor


class Parameters:
    """Names are those of the module that was captured; of tied ones the first."""

    def __init__(self, planned: PlannedStage, collectives: Collectives, device: str) -> None:
        self._planned = planned
        self._collectives = collectives
        self.shards: dict[str, torch.nn.Parameter] = {}
        self.at_rest = AtRest(
            self.layouts, planned.mesh, collectives.first, collectives.of_axes(), device
        )
        self._gradients: dict[tuple[str, PlanReader], tuple[T, Layout]] = {}

    def place(self, name: str, value: T, *, like: torch.nn.Parameter) -> None:
        """Keep this rank's part of a value, to be trained where the module's parameter is."""
        layout = self.layouts[name]
        part = self._collectives.move(
            value, Move(name, whole_of(layout), from_whole(layout), "step")
        )
        # a part of a larger storage cannot be saved by itself
        shard = self.at_rest.wrapped(name, part.clone())
        self.shards[name] = torch.nn.Parameter(shard, requires_grad=like.requires_grad)

    @property
    def layouts(self) -> dict[str, Layout]:
        """How parameters lie between steps."""
        return {name: _at_rest(own) for name, own in self._planned.parameters.items()}

    def spread(self) -> dict[str, T]:
        """The values of a step, as the plan says that they rest between readers."""
        return {
            name: self._spread(name, shard).requires_grad_(shard.requires_grad)
            for name, shard in self.shards.items()
        }

    def take(self, name: str, reader: PlanReader, gradient: T, lies: Layout) -> None:
        """A microbatch's gradient, by who read the parameter."""
        before = self._gradients.get((name, reader))
        total = gradient if before is None else before[0] + gradient
        self._gradients[name, reader] = (total, lies)

    def reduced(self, shared: Iterable[str] = ()) -> dict[str, T]:
        """All that was taken, as the optimizer has it; of parameters that other stages share at
        least zeros."""
        found: dict[str, T] = {}
        for (name, reader), (gradient, lies) in self._gradients.items():
            steps = self._planned.steps(name, reader, "gradient", "per_step")
            own = self._collectives.move(gradient, Move(name, lies, steps, "step"))
            found[name] = found[name] + own if name in found else own
        self._gradients.clear()
        for name in shared:
            found.setdefault(name, torch.zeros_like(local_of(self.shards[name].detach())))
        return found

    def give(self, gradients: Mapping[str, T]) -> None:
        """Add these to the gradients of the optimizer's shards."""
        for name, gradient in gradients.items():
            shard, own = self.shards[name], self.at_rest.wrapped(name, gradient)
            shard.grad = own if shard.grad is None else shard.grad + own

    def whole(self, name: str) -> T:
        """A parameter put together from all ranks, which all have to ask for it."""
        layout = self.layouts[name]
        return self._collectives.move(
            local_of(self.shards[name].detach()), Move(name, layout, to_whole(layout), "report")
        )

    def whole_gradient(self, name: str) -> T | None:
        """Its gradient, the same way."""
        gradient, layout = self.shards[name].grad, self.layouts[name]
        if gradient is None:
            return None
        move = Move(name, layout, to_whole(layout), "report")
        return self._collectives.move(local_of(gradient), move)

    def _spread(self, name: str, shard: T) -> T:
        steps = self._planned.steps(name, ALL_READERS, "parameter", "per_step")
        move = Move(name, self.layouts[name], steps, "step")
        return self._collectives.move(local_of(shard.detach()), move)


def _at_rest(own: ParameterPlan) -> Layout:
    return own.optimizer or own.value


def aliases_of(module: torch.nn.Module) -> dict[str, tuple[str, ...]]:
    """Every name of a parameter -> that and the other ones that it has, as it is tied."""
    found: dict[int, list[str]] = {}
    named = list(module.named_parameters(remove_duplicate=False))
    for name, own in named:
        found.setdefault(id(own), []).append(name)
    return {name: tuple(dict.fromkeys((name, *found[id(own)]))) for name, own in named}


def check_module(
    graph: Graph, shapes: Mapping[str, tuple[int, ...]], module: torch.nn.Module
) -> None:
    """PlanError naming both, where this is not the module that was planned."""
    own = dict(module.named_parameters(remove_duplicate=False))
    for tensor in graph.tensors:
        if tensor.role != "parameter":
            continue
        name, shape = tensor.name, shapes[tensor.name]
        if name not in own:
            raise PlanError(
                f"the plan's graph {graph.id} has the parameter {name!r} of shape "
                f"{list(shape)}, the module has none of this name"
            )
        if tuple(own[name].shape) != shape:
            raise PlanError(
                f"parameter {name!r} has the shape {list(shape)} in the plan's graph "
                f"{graph.id}, and {list(own[name].shape)} in the module"
            )
        if own[name].is_meta:
            raise PlanError(
                f"parameter {name!r} of the module is on the meta device, without value"
            )
