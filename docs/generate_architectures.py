"""Write the table of architectures in capture.md: `python docs/generate_architectures.py`.

Every architecture of tests/capture/architectures.py is captured at its full size from the defaults
of the transformers library, without weights or downloads, planned on eight H100s and the plan
executed on a scaled-down copy. A quarter of an hour on one core; names limit it to some rows.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from meshwright.capture import capture_hf  # noqa: E402  # as the next: after the path is set
from meshwright.plugins import certificate_of, find_planner, find_verifier, preset  # noqa: E402
from meshwright.schema import Graph, Request  # noqa: E402
from tests.capture.architectures import ARCHITECTURES, Architecture  # noqa: E402

BATCH = 16  # chosen: two for each device
PAGE = FOLDER / "capture.md"
HEAD = "| family | model type | layers | parameters | ops | stay replicated | s | plan on 8 |"


def row(architecture: Architecture) -> str:
    """One architecture as a line of the table."""
    start = time.process_time()
    graph = capture_hf(architecture.whole, batch=BATCH, seq=architecture.seq)
    seconds = time.process_time() - start
    unknown = sorted({op.kind for op in graph.ops if "." in op.kind})
    cells = [
        architecture.family,
        architecture.model_type,
        architecture.layers,
        _counted(_parameters(graph)),
        f"{len(graph.ops):,}",
        ", ".join(unknown) or "none",
        f"{seconds:.0f}",
        planned(graph),
    ]
    return f"| {' | '.join(cells)} |"


def planned(graph: Graph) -> str:
    """What the planner says of it on eight devices."""
    request = Request(graph=graph, topology=preset("h100-1x8"))
    answer = find_planner()(request)
    if answer.plan is None:
        assert answer.infeasible is not None
        return f"none: {answer.infeasible.constraint}"
    certificate = certificate_of(find_verifier(), answer.plan, request)
    return f"{answer.plan.cost.step_ns / 1e6:,.0f} ms, {certificate.outcome}"


def _parameters(graph: Graph) -> int:
    sizes = graph.instantiate({})
    total = 0
    for tensor in graph.tensors:
        if tensor.role == "parameter":
            count = 1
            for size in sizes[tensor.name]:
                count *= size
            total += count
    return total


def _counted(parameters: int) -> str:
    if parameters < 1e9:
        return f"{parameters / 1e6:,.0f} million"
    return f"{parameters / 1e9:.2f} billion"


def main() -> None:
    """Replace the rows of the architectures named, or all of them."""
    wanted = set(sys.argv[1:])
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(HEAD)
    table = re.match(r"(?:\|.*\n)+", page[start:])
    assert table is not None
    old = {line.split(" | ")[1]: line for line in table[0].splitlines()[2:]}
    lines = [HEAD, "|" + " --- |" * 8]
    for own in ARCHITECTURES:
        if own.model_type in old and wanted and own.model_type not in wanted:
            lines.append(old[own.model_type])
        elif not wanted or own.model_type in wanted:
            lines.append(row(own))
            print(lines[-1], flush=True)  # noqa: T201  # a command of its own
    PAGE.write_text(
        page[:start] + "\n".join(lines) + "\n" + page[start + table.end() :], encoding="utf-8"
    )


if __name__ == "__main__":
    main()
