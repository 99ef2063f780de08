"""Parameters of one rank: at rest in the optimizer's layout, gathered for a step, reduced after it.

The optimizer works on the finest shards. Before a step, the parameters are redistributed to their
layout between readers. Gradients are accumulated over microbatches in the layout of the plan, and
redistributed to the optimizer's layout once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from meshwright.runtime.gather_whole import from_whole, to_whole, whole_of
from meshwright.runtime.redistribution_steps import LayoutChange
from meshwright.runtime.torch.at_rest import ShardWrapper, local_of
from meshwright.runtime.torch.collectives import TorchCollectives
from meshwright.schema import Layout, ParameterPlan, PlanError
from meshwright.stages.planned_stage import ALL_READERS, PlannedStage, PlanReader

T = torch.Tensor


class Parameters:
    """The parameters of a stage, by their names in the module. Tied ones have the first name."""

    def __init__(self, planned: PlannedStage, collectives: TorchCollectives, device: str) -> None:
        self._planned = planned
        self._collectives = collectives
        self.shards: dict[str, torch.nn.Parameter] = {}
        self.at_rest = ShardWrapper(
            self.layouts, planned.mesh, collectives.first, collectives.of_axes(), device
        )
        self._gradients: dict[tuple[str, PlanReader], tuple[T, Layout]] = {}

    def place(self, name: str, value: T, *, like: torch.nn.Parameter) -> None:
        """Store this rank's shard of a value, trainable if the module's parameter is."""
        layout = self.layouts[name]
        part = self._collectives.move(
            value, LayoutChange(name, whole_of(layout), from_whole(layout), "step")
        )
        # a view of a larger storage cannot be saved separately
        shard = self.at_rest.wrapped(name, part.clone())
        self.shards[name] = torch.nn.Parameter(shard, requires_grad=like.requires_grad)

    @property
    def layouts(self) -> dict[str, Layout]:
        """The layouts of the parameters between steps."""
        parameters = self._planned.parameters.items()
        return {name: _at_rest(parameter) for name, parameter in parameters}

    def spread(self) -> dict[str, T]:
        """The values of a step, in their layouts between readers."""
        return {
            name: self._spread(name, shard).requires_grad_(shard.requires_grad)
            for name, shard in self.shards.items()
        }

    def take(self, name: str, reader: PlanReader, gradient: T, layout: Layout) -> None:
        """Accumulate the gradient of a parameter in a microbatch, by reader.

        Raises PlanError if the plan, of several devices, states no gradient for it.
        """
        planned = self._planned
        if planned.parameters[name].gradient is None and planned.mesh.device_count > 1:
            raise PlanError(
                f"parameter {name!r} gets a gradient from op {reader[0]!r}, and the plan states "
                "none, so that ranks would keep different ones. Plan again, or set requires_grad "
                "of the parameter to False before the capture"
            )
        before = self._gradients.get((name, reader))
        total = gradient if before is None else before[0] + gradient
        self._gradients[name, reader] = (total, layout)

    def reduced(self, shared: Iterable[str] = ()) -> dict[str, T]:
        """The accumulated gradients in the layout of the optimizer, and clear them.

        The parameters in `shared` have zeros if they have no gradient.
        """
        gradients: dict[str, T] = {}
        for (name, reader), (gradient, layout) in self._gradients.items():
            steps = self._planned.steps(name, reader, "gradient", "per_step")
            term = self._collectives.move(gradient, LayoutChange(name, layout, steps, "step"))
            gradients[name] = gradients[name] + term if name in gradients else term
        self._gradients.clear()
        for name in shared:
            gradients.setdefault(name, torch.zeros_like(local_of(self.shards[name].detach())))
        return gradients

    def give(self, gradients: Mapping[str, T]) -> None:
        """Add gradients to those of the optimizer's shards."""
        for name, gradient in gradients.items():
            shard = self.shards[name]
            like = _with_strides_of(local_of(shard.detach()), gradient)
            term = self.at_rest.wrapped(name, like)
            shard.grad = term if shard.grad is None else shard.grad + term

    def whole(self, name: str) -> T:
        """The whole parameter, gathered from all ranks of the stage, which all must call it."""
        layout = self.layouts[name]
        return self._collectives.move(
            local_of(self.shards[name].detach()),
            LayoutChange(name, layout, to_whole(layout), "report"),
        )

    def whole_gradient(self, name: str) -> T | None:
        """The whole gradient, gathered from all ranks of the stage; None if there is none."""
        gradient, layout = self.shards[name].grad, self.layouts[name]
        if gradient is None:
            return None
        move = LayoutChange(name, layout, to_whole(layout), "report")
        return self._collectives.move(local_of(gradient), move)

    def _spread(self, name: str, shard: T) -> T:
        steps = self._planned.steps(name, ALL_READERS, "parameter", "per_step")
        move = LayoutChange(name, self.layouts[name], steps, "step")
        return self._collectives.move(local_of(shard.detach()), move)


def _with_strides_of(shard: T, gradient: T) -> T:
    """The gradient with the strides of its shard, as autograd keeps them: fused optimizers take
    both in the order of memory."""
    if gradient.stride() == shard.stride():
        return gradient
    return torch.empty_like(shard, dtype=gradient.dtype).copy_(gradient)


def _at_rest(parameter: ParameterPlan) -> Layout:
    return parameter.optimizer or parameter.value


def aliases_of(module: torch.nn.Module) -> dict[str, tuple[str, ...]]:
    """All names of each parameter, by name. A tied parameter has several, its own name first."""
    names: dict[int, list[str]] = {}
    pairs = list(module.named_parameters(remove_duplicate=False))
    for name, parameter in pairs:
        names.setdefault(id(parameter), []).append(name)
    return {name: tuple(dict.fromkeys((name, *names[id(parameter)]))) for name, parameter in pairs}
