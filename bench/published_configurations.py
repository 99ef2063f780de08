"""`python -m bench.published_configurations [NAME ...]`: published runs, predicted.

Each row is a configuration that somebody trained with: what was measured of it, what `estimate`
predicts for it, and what the best plan found takes with the same model, batch and devices, once
without a pipeline and once with the published number of pipeline ranks. Where a paper gives
FLOP/s, the time follows from them and a count of FLOPs. The steps of gpt3-64, gpt3-384,
llama3-70b-64 and llama3-8b-8 are rows of `bench/data/steps.csv.gz`, to which constants of the
default calibration are fitted; the others are not.
"""

from __future__ import annotations

import argparse
import gzip
import time
from dataclasses import dataclass
from pathlib import Path

from bench.timing import say
from meshwright.schema import (
    Budget,
    Calibration,
    Degrees,
    Graph,
    Pipeline,
    Plan,
    Recompute,
    Request,
    Setup,
)
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright.schema.recompute import NO_RECOMPUTE
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
GIB = 2**30
ONE_RANK = NO_PIPELINE
NOTHING = NO_RECOMPUTE
FULL = Recompute(policy="full")


@dataclass(frozen=True, slots=True)
class Published:
    """measured_s: of a step; None where only the configuration was published."""

    name: str
    graph: str
    topology: str
    batch: int
    degrees: Degrees
    source: str
    pipeline: Pipeline = ONE_RANK
    microbatches: int = 1
    sequence: int | None = None
    measured_s: float | None = None
    recompute: Recompute = NOTHING

    @property
    def setup(self) -> Setup:
        return Setup(
            global_batch=self.batch,
            microbatches=self.microbatches,
            symbols={} if self.sequence is None else {"seq": self.sequence},
            uneven="pad",  # Megatron-LM pads the vocabulary
            # context parallelism of Llama 3 (section 3.3.2) and of Megatron-Core
            sequence_order="zigzag" if self.degrees.cp > 1 else "contiguous",
        )

    def request(self) -> Request:
        text = gzip.decompress((GRAPHS / f"{self.graph}.json.gz").read_bytes())
        return Request(
            graph=Graph.from_json(text),
            topology=preset(self.topology),
            setup=self.setup,
            degrees=self.degrees,
            pipeline=self.pipeline,
            recompute=self.recompute,
        )


SC21 = "Narayanan et al., SC'21 (arXiv 2104.04473)"
KORTHIKANTI = "Korthikanti et al. 2022 (arXiv 2205.05198), table 5"
LLAMA = "Llama 3 (arXiv 2407.21783), table 4"
FLAGPERF = "FlagPerf, Megatron-LM on H100"
MEGATRON = Degrees(tp=8)
SHARDED = Degrees(tp=8, zero=1, sequence_parallel=True)


def sc21_s(gpus: int, tflops_per_gpu: float) -> float:
    """A step of GPT-3 175B by the paper's equation 3, with recomputation."""
    batch, s, layers, h, words = 1536, 2048, 96, 12288, 51200
    shares = 1 + s / (6 * h) + words / (16 * layers * h)
    return 96 * batch * s * layers * h**2 * shares / (gpus * tflops_per_gpu * 1e12)


def llama_s(gpus: int, tflops_per_gpu: float, sequence: int) -> float:
    """A step of Llama-3 405B over 16M tokens: 6 FLOPs a parameter, and attention's causal half."""
    parameters, layers, h = 405e9, 126, 16384
    per_token = 6 * parameters + 6 * layers * h * sequence
    return per_token * 2048 * 8192 / (gpus * tflops_per_gpu * 1e12)


def mixtral_s(gpus: int, tflops_per_gpu: float) -> float:
    """A step of Mixtral 8x7B by Megatron-LM's own count, which halves no attention."""
    batch, s, layers, h, ffn, words = 256, 4096, 32, 4096, 14336, 32000
    heads, groups, experts, gated = 32, 8, 2, 1.5
    shares = 1 + groups / heads + s / h + experts * gated * ffn / h + words / (2 * layers * h)
    return 12 * batch * s * layers * h**2 * shares / (gpus * tflops_per_gpu * 1e12)


CASES = (
    Published(
        "gpt3-64", "gpt3-175b", "a100-80g-8x8", 64, Degrees(tp=8, sequence_parallel=True),
        KORTHIKANTI, Pipeline(ranks=8, stages_per_rank=3), 64, None, 13.75,
    ),
    Published(
        "gpt3-384", "gpt3-175b", "a100-80g-48x8", 1536, MEGATRON, f"{SC21}, table 2",
        Pipeline(ranks=12, stages_per_rank=2), 384, None, sc21_s(384, 153), FULL,
    ),
    Published(
        "gpt3-1024", "gpt3-175b", "a100-80g-128x8", 1536, MEGATRON,
        f"{SC21}, section 5.1; its degrees are not said: tp 8 and pp 16 are ours",
        Pipeline(ranks=16, stages_per_rank=2), 192, None, sc21_s(1024, 140), FULL,
    ),
    Published(
        "llama3-70b-64", "llama3-70b", "h100-8x8", 512, SHARDED, FLAGPERF,
        Pipeline(ranks=4), 256, None, 77.01,
    ),
    Published(
        "llama3-8b-8", "llama3-8b", "h100-1x8", 512,
        Degrees(tp=2, zero=1, sequence_parallel=True), FLAGPERF, ONE_RANK, 128, None, 64.70,
    ),
    Published(
        "llama3-405b-8192", "llama3-405b", "h100-1024x8", 2048, SHARDED, LLAMA,
        Pipeline(ranks=16, stages_per_rank=4), 32, None, llama_s(8192, 430, 8192),
    ),
    Published(
        "llama3-405b-16384", "llama3-405b", "h100-2048x8", 2048, SHARDED, LLAMA,
        Pipeline(ranks=16, stages_per_rank=4), 16, None, llama_s(16384, 400, 8192),
    ),
    Published(
        "llama3-405b-long", "llama3-405b", "h100-2048x8", 128,
        Degrees(tp=8, cp=16, zero=1, sequence_parallel=True), LLAMA,
        Pipeline(ranks=16, stages_per_rank=4), 16, 131072, llama_s(16384, 380, 131072),
    ),
    Published(
        "mixtral-64", "mixtral-8x7b", "h100-8x8", 256, Degrees(ep=8, zero=1),
        "Megatron-LM, megatron/core/transformer/moe/README.md: the best mapping, and the FLOP/s of "
        "its v0.9, which are not said to be this mapping's",
        Pipeline(ranks=4, stages_per_rank=8), 16, None, mixtral_s(64, 468),
    ),
    Published(
        "llama3-8b-1m", "llama3-8b", "h100-8x8", 1,
        Degrees(tp=4, cp=16, zero=1, sequence_parallel=True),
        "NeMo, docs/source/performance/performance_long_sequence.md: degrees of LLaMA3-8B",
        ONE_RANK, 1, 1048576, None, FULL,
    ),
)  # fmt: skip


def ours(own: Published, request: Request, seconds: float) -> tuple[str, Plan | None]:
    """The best plan found in so many seconds, without and with the published pipeline ranks."""
    best: Plan | None = None
    how = "nothing fits"
    for ranks in dict.fromkeys((1, own.pipeline.ranks)):
        wanted = request.model_copy(
            update={
                "degrees": None,
                "recompute": Recompute(policy="auto"),
                "pipeline": Pipeline(ranks=ranks),
                "setup": own.setup.model_copy(update={"microbatches": None}),
                "budget": Budget(seconds=seconds),
            }
        )
        found = plan(wanted).plan
        if found is not None and (best is None or found.cost.step_ns < best.cost.step_ns):
            best, how = found, f"pp {ranks}"
    return how, best


def row(own: Published, seconds: float, calibration: Calibration | None) -> None:
    """One line of the table."""
    request = own.request().model_copy(update={"calibration": calibration})
    started = time.process_time()
    answer = plan(request)
    spent = time.process_time() - started
    measured = "-" if own.measured_s is None else f"{own.measured_s:.2f}"
    strategy = str(own.degrees) + (f", pp {own.pipeline.ranks}" if own.pipeline.ranks != 1 else "")
    if answer.plan is None:
        assert answer.infeasible is not None
        say(f"| {own.name} | {strategy} | {measured} | {answer.infeasible.detail} |")
        return
    cost = answer.plan.cost
    predicted = cost.step_ns / 1e9
    ratio = "-" if own.measured_s is None else f"{predicted / own.measured_s:.2f}"
    memory = cost.memory_bytes
    fits = "" if memory.total <= memory.capacity else ", does not fit"
    how, best = ours(own, request, seconds) if seconds else ("-", None)
    found = "-" if best is None else f"{best.cost.step_ns / 1e9:.2f}"
    say(
        f"| {own.name} | {strategy} | {measured} | {predicted:.2f} | {ratio} | "
        f"{(memory.total - memory.reserved) / GIB:.1f}{fits} | {found} ({how}) | {spent:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(case.name for case in CASES))
    parser.add_argument("--seconds", type=float, default=60.0, help="each search; 0 for none")
    parser.add_argument("--calibration", type=Path, help="instead of the default")
    given = parser.parse_args()
    path: Path | None = given.calibration
    calibration = None if path is None else Calibration.from_json(path.read_bytes())
    columns = (
        "run",
        "strategy",
        "measured s",
        "predicted s",
        "ratio",
        "GiB",
        "ours s",
        "CPU s",
    )
    say(f"| {' | '.join(columns)} |")
    say("|---" * len(columns) + "|")
    for case in CASES:
        if not given.names or case.name in given.names:
            row(case, given.seconds, calibration)


if __name__ == "__main__":
    main()
