"""Plan the examples of docs/explanation/examples.md: `python -m examples.plan_all [NAME ...]`.

Prints the rows of its table. Model FLOPs: three times those of the forward pass's matrix products,
convolutions and attention; nothing recomputed is counted.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from examples.catalogue import EXAMPLES
from meshwright.common.units import show_bytes, show_ns, show_share
from meshwright.schema import Plan, Request, Setup
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright.schema.recompute import NO_RECOMPUTE
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import build_problem

ARITHMETIC = ("matmul", "convolution", "attention")
ONE_STAGE = "--pipeline none --recompute none"
ROUNDING = 1e-12  # cost and bound are sums of the same numbers in another order


@dataclass(frozen=True)
class Case:
    """One example on one cluster; the rest as the graph and the setup's defaults say."""

    name: str
    topology: str
    batch: int | None = None
    seq: int | None = None
    microbatches: int | None = None

    @property
    def command(self) -> str:
        """How to get this plan."""
        options = {"batch": self.batch, "seq": self.seq, "microbatches": self.microbatches}
        given = "".join(f" --{name} {value}" for name, value in options.items() if value)
        graph = f"examples/graphs/{self.name}.json.gz"
        return f"meshwright plan {graph} --topology {self.topology}{given} {ONE_STAGE}"

    @property
    def request(self) -> Request:
        """What is asked of the planner."""
        example = next(example for example in EXAMPLES if example.name == self.name)
        setup = Setup(
            global_batch=self.batch,
            microbatches=self.microbatches,
            symbols={} if self.seq is None else {"seq": self.seq},
        )
        return Request(
            graph=example.load(),
            topology=preset(self.topology),
            setup=setup,
            pipeline=NO_PIPELINE,
            recompute=NO_RECOMPUTE,
        )


CASES = (
    Case("llama3-8b", "h100-8x8", batch=64, seq=4096),
    Case("llama3-8b", "h100-3x8", batch=48, seq=4096),
    Case("llama3-8b", "h100-3x4", batch=48, seq=4096),
    Case("llama3-70b", "h100-8x8", batch=64, seq=4096),
    Case("llama3-70b", "h100-8x8", batch=64, seq=4096, microbatches=16),
    Case("llama3-405b", "h100-128x8"),
    Case("gpt3-175b", "a100-80g-128x8"),
    Case("mixtral-8x7b", "h100-8x8"),
    Case("bert-large", "h100-8x8"),
    Case("vit-l16", "h100-8x8"),
    Case("resnet50", "a100-80g-8x8"),
    Case("unet3d", "v100-4x8", batch=8),
    Case("wide-deep", "910b-16x8"),
    Case("face-head", "v100-4x8"),
)


def model_flops_share(request: Request, found: Plan) -> float:
    """Model FLOPs over what the devices could do in the step at their peak."""
    problem = build_problem(
        request.graph, request.topology, request.setup, default_calibration(), found.microbatches
    )
    done = peak = 0.0
    for op in problem.ops:
        if op.known is not None and op.known.op_class in ARITHMETIC:
            dtype = problem.tensors[op.op.inputs[0]].tensor.dtype
            flops = 3 * op.flops * found.microbatches
            done += flops
            peak += flops / request.topology.device.peak_flops_per_s(dtype)
    devices = request.topology.device_count
    return peak / devices / (found.cost.step_ns / 1e9) if done else 0.0


def row(case: Case) -> str:
    """One line of the table."""
    request = case.request
    begin = time.perf_counter()
    found = plan(request).plan
    seconds = time.perf_counter() - begin
    if found is None:
        return f"| {case.name} | {case.topology} | does not fit |"
    cost, memory = found.cost, found.cost.memory_bytes
    waited = sum(cost.exposed_ns.values()) / cost.step_ns
    mesh = " × ".join(str(axis.size) for axis in found.stages[0].mesh.axes)
    batch = case.batch or request.graph.symbols["batch"]
    cells = (
        case.name,
        f"`{case.topology}`",
        f"{batch} / {found.microbatches}",
        mesh,
        show_ns(cost.step_ns),
        show_share(waited),
        show_share(model_flops_share(request, found)),
        show_bytes(memory.total - memory.reserved),
        "0" if found.search.gap < ROUNDING else f"{found.search.gap:.3%}",
        f"{seconds:.1f} s",
    )
    return f"| {' | '.join(cells)} |"


def main(names: list[str]) -> None:
    """Plan the named examples, or all."""
    for case in CASES:
        if not names or case.name in names:
            sys.stdout.write(row(case) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
