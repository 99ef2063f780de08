"""`python -m bench.growth [--layers N ...] [--repeats N]`: how a request grows with its layers.

MindSpore's GPT, hidden 4096, on 512 GPUs, `auto`, memory limit on, from the graph's JSON text to
the plan's, stage by stage. Milliseconds of the CPU, medians; graphs take turns, so that what else
the machine does falls on all alike. Nothing is kept from one request to the next but compiled code.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bench.mindspore_models import gpt
from bench.one_stage import ONE_STAGE
from bench.timing import say
from meshwright.schema import Graph, Plan, Progress, Request
from meshwright_costmodel.presets import preset
from meshwright_solver.stage.answer import plan_of
from meshwright_solver.stage.stage_planner import plan_stage

T = TypeVar("T")
CLUSTER = "h100-64x8"
LAYERS = (12, 96)
REPEATS = 9
STAGES = ("reading", "folding", "searching", "judging", "writing", "text")


class Clock:
    """CPU seconds, put down to the stage that they were spent in."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._since = time.process_time()

    def end(self, stage: str) -> None:
        """What passed since the last stage ended belongs to this one."""
        now = time.process_time()
        self.seconds[stage] += now - self._since
        self._since = now

    def hear(self, progress: Progress) -> None:
        """A planner says what it begins with."""
        if progress.phase == "done":
            self.end("searching")
        elif progress.done == 0 and progress.incumbent_ns is None:
            self.end("folding")


def request(text: str) -> dict[str, float]:
    """CPU seconds of every stage of one request."""
    clock = Clock()
    own = Request(graph=Graph.from_json(text), **ONE_STAGE, topology=preset(CLUSTER))
    clock.end("reading")

    def write(*said: Any) -> Plan:
        clock.end("judging")
        plan = plan_of(*said)
        clock.end("writing")
        return plan

    answer = plan_stage(own, clock.hear, write=write)
    assert answer.plan is not None
    answer.plan.to_json()
    clock.end("text")
    return clock.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", nargs="+", type=int, default=LAYERS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    asked = parser.parse_args()
    layers: Sequence[int] = asked.layers
    texts = [gpt(layers=own, hidden=4096, heads=32).graph.to_json() for own in layers]
    found: list[list[dict[str, float]]] = [[] for _ in texts]
    for _ in range(1 + asked.repeats):
        for own, text in zip(found, texts, strict=True):
            own.append(request(text))
    say(f"{'stage':12}" + "".join(f"{own:>5} layers" for own in layers) + f"{'times':>8}")
    for stage in STAGES:
        _row(stage, found, lambda seconds, stage=stage: seconds[stage])  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    _row("all", found, lambda seconds: sum(seconds.values()))


def _row(
    name: str, found: list[list[dict[str, float]]], pick: Callable[[dict[str, float]], float]
) -> None:
    # the first request of each loads compiled code
    medians = [statistics.median([pick(seconds) for seconds in own[1:]]) for own in found]
    numbers = "".join(f"{1000 * own:12.1f}" for own in medians)
    say(f"{name:12}{numbers}{medians[-1] / medians[0]:8.2f}")


if __name__ == "__main__":
    main()
