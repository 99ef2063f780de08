"""Write the table of docs/reference/architectures.md: `python docs/generate_architectures.py`.

Every architecture of tests/capture/architectures.py is captured at its full size, without weights
or downloads, planned on as many H100s as its training state needs, and the plan executed on a
scaled-down copy. Names limit it to some rows. Rows are written as soon as they are known.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

import torch  # noqa: E402  # as the next: after the path is set

from meshwright.capture import capture_hf, hf  # noqa: E402
from meshwright.plugins import certificate_of, find_planner, find_verifier, preset  # noqa: E402
from meshwright.schema import Graph, Plan, Request  # noqa: E402
from tests.capture.architectures import ARCHITECTURES, Architecture  # noqa: E402
from tests.capture.closed_form import flops_in_closed_form  # noqa: E402
from tests.capture.published_parameters import PUBLISHED  # noqa: E402

PAGE = FOLDER / "reference" / "architectures.md"
TITLES = (
    "family", "model type", "parameters", "published", "FLOPs", "replicated", "ops", "capture",
    "devices", "plan", "step", "verified",
)  # fmt: skip
HEAD = f"| {' | '.join(TITLES)} |"
WITHOUT_CLOSED_FORM = ("vision", "vision and text", "speech", "state-space")
STATE_BYTES = 18  # published: mixed precision with Adam, Rajbhandari et al. 2020, and gradients
DEVICE_BYTES = 80e9  # published: H100 SXM
FULL = 0.5  # chosen: of a device's memory, for the state


@dataclass(frozen=True)
class Measured:
    """One architecture at its full size. Seconds are CPU seconds."""

    parameters: int
    flops_share: float | None
    replicated_share: float
    unknown: tuple[str, ...]
    ops: int
    capture_s: float
    devices: int
    plan_s: float
    step_ms: float | None
    outcome: str


def measure(architecture: Architecture) -> Measured:
    """Capture, plan and verify one architecture."""
    nodes = _nodes(count := _parameters_of_model(architecture))
    batch = max(16, 16 * nodes)
    start = time.process_time()
    graph = capture_hf(architecture.whole, batch=batch, seq=architecture.seq)
    capture_s = time.process_time() - start
    parameters = parameters_of(graph)
    assert parameters == count or architecture.family in WITHOUT_CLOSED_FORM
    start = time.process_time()
    request = Request(graph=graph, topology=preset(f"h100-{nodes}x8"))
    answer = find_planner()(request)
    plan_s = time.process_time() - start
    plan = answer.plan
    if plan is None:
        assert answer.infeasible is not None
        outcome, share, step_ms, replicated = answer.infeasible.constraint, None, None, 0.0
    else:
        certificate = certificate_of(find_verifier(), plan, request)
        outcome, step_ms = certificate.outcome, plan.cost.step_ns / 1e6
        share, replicated = flops_share(architecture, plan, batch), replicated_share(plan)
    unknown = tuple(sorted({op.kind for op in graph.ops if "." in op.kind}))
    return Measured(
        parameters, share, replicated, unknown, len(graph.ops), capture_s, 8 * nodes, plan_s,
        step_ms, outcome,
    )  # fmt: skip


def flops_share(architecture: Architecture, plan: Plan, batch: int) -> float | None:
    """The counted FLOPs by those of the closed form; None for families without one."""
    if architecture.family in WITHOUT_CLOSED_FORM:
        return None
    expected = flops_in_closed_form(_model(architecture), batch=batch, seq=architecture.seq)
    return sum(plan.model_flops.values()) / expected


def replicated_share(plan: Plan) -> float:
    """The share of the compute time of the replicated op that takes most of it."""
    times = [
        (op.compute_ns, stage.mesh.device_count > 1 and not any(op.strategy.values()))
        for stage in plan.stages
        for op in stage.ops
    ]
    total = sum(ns for ns, _ in times)
    return max((ns for ns, replicated in times if replicated), default=0.0) / (total or 1.0)


def parameters_of(graph: Graph) -> int:
    """The number of elements of all parameters of a graph."""
    sizes = graph.instantiate({})
    total = 0
    for tensor in graph.tensors:
        if tensor.role == "parameter":
            count = 1
            for size in sizes[tensor.name]:
                count *= size
            total += count
    return total


def line(architecture: Architecture, measured: Measured) -> str:
    """One row of the table."""
    published = PUBLISHED.get(architecture.name)
    share = measured.flops_share
    cells = [
        architecture.family,
        architecture.name,
        counted(measured.parameters),
        "" if published is None else published.cell,
        "" if share is None else f"{share:.3f}",
        ", ".join(measured.unknown) or f"{100 * measured.replicated_share:.1f} %",
        f"{measured.ops:,}",
        f"{measured.capture_s:.0f}",
        str(measured.devices),
        f"{measured.plan_s:.0f}",
        "" if measured.step_ms is None else f"{measured.step_ms:,.0f} ms",
        measured.outcome,
    ]
    return f"| {' | '.join(cells)} |"


def counted(parameters: int) -> str:
    """A number of parameters as published numbers are written."""
    return f"{parameters / 1e6:,.1f}M" if parameters < 1e9 else f"{parameters / 1e9:,.2f}B"


def _nodes(parameters: int) -> int:
    """Nodes of eight devices that hold the training state, a power of two."""
    nodes = 1
    while parameters * STATE_BYTES > FULL * DEVICE_BYTES * 8 * nodes:
        nodes *= 2
    return nodes


def _model(architecture: Architecture) -> torch.nn.Module:
    config = hf.build_config(architecture.whole)
    head = hf.head_of(architecture.whole, config)
    with torch.device("meta"):
        model: torch.nn.Module = head._from_config(config, dtype=torch.bfloat16)
    return model


def _parameters_of_model(architecture: Architecture) -> int:
    return sum(parameter.numel() for parameter in _model(architecture).parameters())


def write(rows: dict[str, str]) -> None:
    """Replace the table of the page; the text around it stays."""
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(HEAD)
    end = start
    while page.startswith("|", end):
        end = page.index("\n", end) + 1
    lines = [HEAD, "|" + " --- |" * len(TITLES)]
    lines += [rows[a.name] for a in ARCHITECTURES if a.name in rows]
    PAGE.write_text(page[:start] + "\n".join(lines) + "\n" + page[end:], encoding="utf-8")


def written() -> dict[str, str]:
    """The rows of the page by name."""
    page = PAGE.read_text(encoding="utf-8")
    rows = [row for row in page[page.index(HEAD) :].splitlines() if row.startswith("| ")][1:]
    return {row.split(" | ")[1]: row for row in rows}


def main() -> None:
    """Replace the rows of the architectures named, or all of them."""
    wanted = set(sys.argv[1:])
    for architecture in ARCHITECTURES:
        if wanted and architecture.name not in wanted:
            continue
        # a child for each: what a search holds is given back
        if (child := os.fork()) == 0:
            row = line(architecture, measure(architecture))
            print(row, flush=True)  # noqa: T201  # a command of its own
            write({**written(), architecture.name: row})
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(f"{architecture.name}: failed", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
