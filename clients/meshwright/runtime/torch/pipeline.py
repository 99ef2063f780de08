"""A step of a rank: the passes of its stages in the plan's order, and what goes between stages.

PyTorch's own schedules (`torch.distributed.pipelining`) have the same orders, and are not used:
their stages send whole outputs to one rank, and know neither layouts nor other meshes there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from meshwright.runtime.torch.trained_stage import TrainedStage
from meshwright.runtime.torch.transport import Transport
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor


def run_step(
    strategy: RankStrategy,
    stages: Mapping[int, TrainedStage],
    transport: Transport,
    sources: Callable[[int, int], Mapping[str, T]],
) -> None:
    """Leave gradients in the parameters of a rank's stages, by their numbers.

    sources: of a stage, by number, and a microbatch: what it reads of the batch, and constants.
    """
    for stage in stages.values():
        stage.begin()
    split = {(number, microbatch) for number, what, microbatch in strategy.passes if what == "W"}
    for number, what, microbatch in strategy.passes:
        stage = stages[number]
        if what == "F":
            received = transport.receive("value", number)
            made = stage.forward(
                microbatch,
                sources(number, microbatch),
                received,
                "split" if (number, microbatch) in split else "whole",
            )
            transport.send("value", number, made)
        elif what == "W":
            stage.weights(microbatch)
        else:
            sent = transport.receive("gradient", number)
            transport.send("gradient", number, stage.backward(microbatch, sent))
    reduced = {
        number: stage.parameters.reduced(transport.shared(number))
        for number, stage in stages.items()
    }
    for number, gradients in transport.summed(reduced).items():
        reduced[number] |= gradients
    for number, stage in stages.items():
        stage.parameters.give(reduced[number])
    transport.finish()
