"""Stage modules: the passes of one stage on one rank over microbatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from meshwright.runtime.expert_slots import mixtures_of
from meshwright.runtime.program import StageProgram
from meshwright.runtime.torch.collectives import TorchCollectives
from meshwright.runtime.torch.deferred_weight_gradients import DeferredWeightGradients
from meshwright.runtime.torch.dropout_rng import DropoutSeed
from meshwright.runtime.torch.expert_slots import ExpertSlots
from meshwright.runtime.torch.forward import TorchForward
from meshwright.runtime.torch.parameters import Parameters

T = torch.Tensor
Backward = Literal["whole", "split"]


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """The tensors of a forward pass that its backward pass needs.

    `inputs` are the received tensors, as leaves. `outputs` are the sent tensors with a gradient,
    and the loss.
    """

    inputs: Mapping[str, T]
    outputs: Mapping[str, T]


class TrainedStage:
    """One stage on one rank.

    sends       the tensors of the next stage
    loss        the name of the loss, if this stage computes it
    loss_share  the weight of one microbatch in the loss of the step
    seed        the seed of dropout, equal on all ranks
    """

    def __init__(
        self,
        program: StageProgram,
        collectives: TorchCollectives,
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
        self._slots = ExpertSlots(mixtures_of(program, sends), collectives)
        self._loss = loss
        self._loss_share = loss_share
        self._sizes = sizes
        self._replaced = replaced
        self._device = device
        self._seed = seed
        self._steps = 0
        self._values: dict[str, T] = {}
        self._in_flight: dict[int, ForwardPass] = {}
        self._weights: dict[int, DeferredWeightGradients] = {}

    def begin(self) -> None:
        """Begin a step: redistribute the parameters to their layouts between readers."""
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
        """The tensors of a microbatch for the next stage. `backward` is the form of its backward
        passes."""
        weights = DeferredWeightGradients() if backward == "split" else None
        if weights is not None:
            self._weights[number] = weights
        planned = self.program.planned
        leaves = {
            name: tensor.requires_grad_(planned.tensors[name].rest.gradient is not None)
            for name, tensor in received.items()
        }
        forward = TorchForward(
            self.program,
            self.collectives,
            sources=sources,
            received=leaves,
            parameters=self._values,
            take=self.parameters.take,
            replaced=self._replaced,
            weights=weights,
            drawing=DropoutSeed(self._seed, self._steps, number),
            slots=self._slots,
        )
        with self._device:  # the device of constructors
            values = forward.run(self._sizes)
        sent = {name: values[name] for name in self._sends}
        ends = {name: tensor for name, tensor in sent.items() if tensor.requires_grad}
        if self._loss is not None:
            loss = values[self._loss]
            self.losses.append(loss.detach())
            ends[self._loss] = loss * self._loss_share
        self._in_flight[number] = ForwardPass(leaves, ends)
        return sent

    def backward(self, number: int, gradients: Mapping[str, T]) -> dict[str, T]:
        """The gradients of the received tensors, from those of the sent tensors.

        A whole backward pass also computes the gradients of parameters.
        """
        forward = self._in_flight.pop(number)
        ends = [(end, gradients.get(name)) for name, end in forward.outputs.items()]
        if ends:
            torch.autograd.backward([end for end, _ in ends], [sent for _, sent in ends])
        return {
            name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            for name, leaf in forward.inputs.items()
            if leaf.requires_grad
        }

    def weights(self, number: int) -> None:
        """Compute the gradients of parameters after a split backward pass."""
        self._weights.pop(number).give()
