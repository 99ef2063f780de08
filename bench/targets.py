"""`python -m bench.targets [--targets T ...] [--models M ...]`: what each framework can do best.

A line for each model and target: the step of the target's best plan, of the fastest plan that a
search without a target found in the rest of 60 s under the same cost model, what the restriction
costs, and what the framework's options lose of the plan.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

from bench.timing import say
from meshwright.capture.published_decoders import PUBLISHED
from meshwright.common.files import read_document
from meshwright.common.process_pool import processes
from meshwright.launch_options import launch_of
from meshwright.plugins.planner import planner_modules
from meshwright.schema import Budget, Graph, Request, Setup
from meshwright.schema.target import TARGETS, Target, setup_for
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
SECONDS = 60.0  # chosen: for both searches


class Model(NamedTuple):
    topology: str
    batch: int
    sequence: int


MODELS = {
    "llama3-8b": Model("h100-8x8", 256, 8192),
    "llama3-70b": Model("h100-8x8", 128, 4096),
    "mixtral-8x7b": Model("h100-8x8", 256, 4096),
    "gpt3-175b": Model("a100-80g-128x8", 1536, 2048),
    "llama3-405b": Model("h100-2048x8", 2048, 8192),
    "deepseek-v3": Model("h800-256x8", 15360, 4096),
}


def graph_of(name: str) -> Graph:
    if name == "deepseek-v3":
        return PUBLISHED[name].graph(name)
    return read_document(GRAPHS / f"{name}.json.gz", Graph)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    say("| model | target | strategy | step, ms | without a target, ms | slower % | lost | s |")
    say("|---|---|---|---|---|---|---|---|")
    with processes(args.workers, planner_modules()) as executor:
        for name in args.models:
            model, graph = MODELS[name], graph_of(name)
            for target in args.targets:
                say(_line(name, target, model, graph, executor))


def _line(name: str, target: Target, model: Model, graph: Graph, executor: object) -> str:
    setup = Setup(symbols={"seq": model.sequence}, global_batch=model.batch)
    request = Request(
        graph=graph,
        topology=preset(model.topology),
        setup=setup_for(target, setup),
        target=target,
        budget=Budget(seconds=SECONDS),
    )
    began = time.perf_counter()
    answer = plan(request, executor=executor)  # type: ignore[arg-type]  # of any kind
    seconds = time.perf_counter() - began
    if answer.plan is None:
        assert answer.infeasible is not None
        return f"| {name} | {target} | none: {answer.infeasible.detail} | | | | | {seconds:.0f} |"
    found = answer.plan
    lost = launch_of(found, target, graph=graph, setup=request.setup).lost
    strategy = found.notes[0].split(": ", 1)[1].split(". Of ")[0]
    free_ns = found.search.unrestricted_ns
    free = "" if free_ns is None else f"{free_ns / 1e6:,.0f}"
    slower = "" if free_ns is None else f"{100 * (found.cost.step_ns / free_ns - 1):.1f}"
    return (
        f"| {name} | {target} | {strategy} | {found.cost.step_ns / 1e6:,.0f} | {free} | {slower} | "
        f"{len(lost) or 'nothing'} | {seconds:.0f} |"
    )


if __name__ == "__main__":
    main()
