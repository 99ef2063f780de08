"""Golden plans: a few examples, each by another way through the planner.

`python -m tests.golden.plans` writes tests/data/golden/plans.json anew, where plans change on
purpose. The file has for each case a digest of all that is chosen, and the step and the memory.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from examples.catalogue import EXAMPLES
from meshwright.schema import Degrees, Pipeline, Plan, Recompute, Request, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.one_stage import one_stage_request

FILE = Path(__file__).resolve().parents[1] / "data" / "golden" / "plans.json"


def _request(name: str, topology: str, batch: int, **more: Any) -> Request:
    (example,) = [own for own in EXAMPLES if own.name == name]
    setup = Setup(global_batch=batch, microbatches=more.pop("microbatches", None))
    return one_stage_request(graph=example.load(), topology=preset(topology), setup=setup, **more)


CASES: dict[str, Request] = {
    "one stage": _request("llama3-8b", "h100-8x8", 64),
    "experts": _request("mixtral-8x7b", "h100-8x8", 64),
    "convolutions": _request("resnet50", "a100-80g-8x8", 2048),
    "tables": _request("wide-deep", "910b-16x8", 16384),
    "a large classifier": _request("face-head", "v100-4x8", 1024),
    "stated degrees": _request(
        "llama3-8b", "h100-8x8", 128, microbatches=2,
        degrees=Degrees(dp=8, tp=8, zero=1, sequence_parallel=True),
    ),
    "a stated pipeline": _request(
        "llama3-8b", "h100-4x8", 64, microbatches=8,
        degrees=Degrees(tp=4, zero=1), pipeline=Pipeline(ranks=2, stages_per_rank=2),
    ),
    "recomputation": _request(
        "bert-large", "v100-2x8", 512, microbatches=4, recompute=Recompute(policy="cheap"),
    ),
}  # fmt: skip


def chosen(found: Plan) -> list[list[Any]]:
    """All that a plan chooses, stage by stage."""
    return [
        [
            [f"{axis.name} {axis.size} {axis.level}" for axis in stage.mesh.axes],
            [[own.op, own.strategy] for own in stage.ops],
            [[own.tensor, str(own.rest.value), str(own.read)] for own in stage.tensors],
            [
                [own.tensor, str(own.value), str(own.gradient), str(own.optimizer)]
                for own in stage.parameters
            ],
            [
                [own.tensor, own.op, [step.kind for step in (*own.forward, *own.per_step)]]
                for own in stage.redistributions
            ],
            sorted(
                op
                for segment in (stage.recompute.segments if stage.recompute else ())
                for op in segment.again
            ),
        ]
        for stage in found.stages
    ]


def golden(request: Request) -> dict[str, Any]:
    """What the file has of the plan of a request."""
    found = plan(request).plan
    assert found is not None
    text = json.dumps([found.microbatches, chosen(found)], sort_keys=True)
    return {
        "chosen": hashlib.sha256(text.encode()).hexdigest(),
        "step_ns": round(found.cost.step_ns),
        "objective_ns": round(found.cost.objective_ns),
        "memory_bytes": found.cost.memory_bytes.total,
    }


def main() -> None:
    """Write the file."""
    made = {name: golden(request) for name, request in CASES.items()}
    FILE.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
