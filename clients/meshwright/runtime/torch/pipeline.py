"""Pipeline steps: the passes of a rank's stages in the plan's order, and transfers between stages.

The schedules of `torch.distributed.pipelining` have the same orders. They do not apply, because
their stages send whole outputs to one rank, without layouts and other meshes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from meshwright.runtime.torch.stage_module import TrainedStage
from meshwright.runtime.torch.transport import Transport
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor


def run_step(
    strategy: RankStrategy,
    stages: Mapping[int, TrainedStage],
    transport: Transport,
    sources: Callable[[int, int], Mapping[str, T]],
) -> None:
    """Run a step, which adds gradients to the parameters of a rank's stages.

    `sources` returns the inputs and constants of a stage, by its number, for a microbatch.
    """
    for stage in stages.values():
        stage.begin()
    split = {(number, microbatch) for number, what, microbatch in strategy.passes if what == "W"}
    for number, what, microbatch in strategy.passes:
        stage = stages[number]
        if what == "F":
            received = transport.receive("value", number)
            outputs = stage.forward(
                microbatch,
                sources(number, microbatch),
                received,
                "split" if (number, microbatch) in split else "whole",
            )
            transport.send("value", number, outputs)
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
