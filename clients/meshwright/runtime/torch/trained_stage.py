"""One stage on one rank: passes over microbatches, on parameters that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from meshwright.runtime.program import Program
from meshwright.runtime.torch.collectives import Collectives
from meshwright.runtime.torch.drawing import Drawing
from meshwright.runtime.torch.forward import Forward
from meshwright.runtime.torch.parameters import Parameters
from meshwright.runtime.torch.weights import Weights

T = torch.Tensor
Backward = Literal["whole", "split"]


@dataclass(frozen=True, slots=True)
class Made:
    """What a forward pass leaves for its backward pass. given: leaves, of what was received. made:
    what is sent on and has a gradient, and the loss."""

    given: Mapping[str, T]
    made: Mapping[str, T]


class TrainedStage:
    """sends: what the next stage needs. loss: its name, where this stage makes it.

    loss_share: of one microbatch in the loss of the step. seed: of what ops draw, equal on all
    ranks.
    """

    def __init__(
        self,
        program: Program,
        collectives: Collectives,
        parameters: Parameters,
        *,
        sends: Sequence[str],
        loss: str | None,
        loss_share: float,
        sizes: Mapping[str, int],
        replaced: Mapping[str, torch.dtype],
        device: torch.device,
        seed: int,
    ) -> None:
        self.program = program
        self.collectives = collectives
        self.parameters = parameters
        self.losses: list[T] = []
        self._sends = sends
        self._loss = loss
        self._loss_share = loss_share
        self._sizes = sizes
        self._replaced = replaced
        self._device = device
        self._seed = seed
        self._steps = 0
        self._values: dict[str, T] = {}
        self._in_flight: dict[int, Made] = {}
        self._weights: dict[int, Weights] = {}

    def begin(self) -> None:
        """Bring parameters to where they rest between readers of a step."""
        self._values = self.parameters.spread()
        self._steps += 1
        self.losses = []

    def forward(
        self,
        number: int,
        sources: Mapping[str, T],
        received: Mapping[str, T],
        backward: Backward = "whole",
    ) -> dict[str, T]:
        """What a microbatch makes for the next stage. backward: the passes that will follow."""
        weights = Weights() if backward == "split" else None
        if weights is not None:
            self._weights[number] = weights
        planned = self.program.planned
        given = {
            name: own.requires_grad_(planned.tensors[name].rest.gradient is not None)
            for name, own in received.items()
        }
        forward = Forward(
            self.program,
            self.collectives,
            sources=sources,
            received=given,
            parameters=self._values,
            take=self.parameters.take,
            replaced=self._replaced,
            weights=weights,
            drawing=Drawing(self._seed, self._steps, number),
        )
        with self._device:  # where ops make tensors of nothing
            values = forward.run(self._sizes)
        sent = {name: values[name] for name in self._sends}
        made = {name: own for name, own in sent.items() if own.requires_grad}
        if self._loss is not None:
            loss = values[self._loss]
            self.losses.append(loss.detach())
            made[self._loss] = loss * self._loss_share
        self._in_flight[number] = Made(given, made)
        return sent

    def backward(self, number: int, gradients: Mapping[str, T]) -> dict[str, T]:
        """Gradients of what was received, from those of what was sent on; those of parameters too,
        where backward passes are whole."""
        own = self._in_flight.pop(number)
        made = [(one, gradients.get(name)) for name, one in own.made.items()]
        if made:
            torch.autograd.backward([one for one, _ in made], [sent for _, sent in made])
        return {
            name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            for name, leaf in own.given.items()
            if leaf.requires_grad
        }

    def weights(self, number: int) -> None:
        """Gradients of parameters, after the backward pass that left them."""
        self._weights.pop(number).give()
