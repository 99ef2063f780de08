"""`python -m bench.published_precision`: what 8 bits gain, predicted and published.

Each row is a configuration that was measured in bfloat16 and in FP8 with tensor-wise scales, else
alike. FlagPerf's are among the runs that the default calibration's shares of large shapes were
fitted to; torchtitan's are not.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

from bench.timing import say
from meshwright.schema import Degrees, Graph, Recompute, Request, Setup
from meshwright.schema.setup import Precision
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
MEGATRON = Degrees(tp=2, zero=1, sequence_parallel=True)
TENSOR_PARALLEL = Degrees(tp=8, zero=3, sequence_parallel=True)


@dataclass(frozen=True, slots=True)
class Pair:
    """measured_s: of a step in bfloat16 and in FP8."""

    source: str
    graph: str
    topology: str
    batch: int
    microbatches: int
    degrees: Degrees
    recompute: Recompute
    measured_s: tuple[float, float]

    def predicted_s(self, precision: Precision) -> float:
        """The predicted step in seconds."""
        text = gzip.decompress((GRAPHS / f"{self.graph}.json.gz").read_bytes())
        request = Request(
            graph=Graph.from_json(text),
            topology=preset(self.topology),
            setup=Setup(
                global_batch=self.batch, microbatches=self.microbatches, precision=precision
            ),
            degrees=self.degrees,
            recompute=self.recompute,
        )
        answer = plan(request)
        assert answer.plan is not None, answer.infeasible
        return answer.plan.cost.step_ns / 1e9


NONE, CHEAP, FULL = (Recompute(policy=policy) for policy in ("none", "cheap", "full"))
# published: bench/data/steps.csv.gz (FlagPerf), and torchtitan's benchmarks page, docs of v0.2;
# torchtitan's 8B and 70B ran on H100 limited to 500 W
PAIRS = (
    Pair("FlagPerf, Megatron-LM", "llama3-8b", "h100-1x8", 512, 128, MEGATRON, NONE, (64.7, 50.0)),
    Pair("FlagPerf, Megatron-LM", "llama3-8b", "h100-2x8", 512, 64, MEGATRON, NONE, (33.12, 25.5)),
    Pair("torchtitan", "llama3-8b", "h100-1x8", 16, 1, Degrees(zero=3), CHEAP, (2.843, 1.92)),
    Pair("torchtitan", "llama3-8b", "h100-8x8", 96, 1, TENSOR_PARALLEL, CHEAP, (2.807, 2.42)),
    Pair("torchtitan", "llama3-70b", "h100-32x8", 512, 1, TENSOR_PARALLEL, FULL, (27.43, 19.76)),
    Pair("torchtitan", "llama3-405b", "h100-16x8", 32, 1, TENSOR_PARALLEL, FULL, (18.79, 11.07)),
)


def main() -> None:
    say("| run | degrees | bfloat16 s | predicted | FP8 s | predicted | gain | predicted |")
    say("|---" * 8 + "|")
    for pair in PAIRS:
        wide, narrow = pair.predicted_s("graph"), pair.predicted_s("fp8_tensorwise")
        before, after = pair.measured_s
        say(
            f"| {pair.source}: {pair.graph}, {pair.topology} | {pair.degrees} | {before} | "
            f"{wide:.2f} | {after} | {narrow:.2f} | {before / after:.2f} | {wide / narrow:.2f} |"
        )


if __name__ == "__main__":
    main()
