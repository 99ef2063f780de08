"""`meshwright topologies` and `meshwright validate`: look at documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from meshwright.cli.consoles import results, say
from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import print_json
from meshwright.common.files import read_text
from meshwright.common.units import show_bytes
from meshwright.planfile import PlanFile
from meshwright.plugins.planner import preset, preset_devices
from meshwright.schema import (
    Calibration,
    Document,
    Graph,
    InvalidInput,
    Plan,
    Request,
    Setup,
    Topology,
)
from meshwright.schema.cost_graph import CostGraphFile, CostGraphSolution
from meshwright.schema.samples import Samples

# a field that only documents of one kind have -> the kind; the first that matches counts
KINDS: tuple[tuple[str, type[Document]], ...] = (
    ("problem", CostGraphFile),
    ("choice", CostGraphSolution),
    ("ops", Graph),
    ("levels", Topology),
    ("stages", Plan),
    ("plan", PlanFile),
    ("graph", Request),
    ("efficiency", Calibration),
    ("kernels", Samples),
    ("collectives", Samples),
)

WORDS: dict[type[Document], str] = {
    PlanFile: "plan file",
    CostGraphFile: "cost graph",
    CostGraphSolution: "solution of a cost graph",
}


def topologies(
    example: Annotated[str, typer.Option(help="Nodes x devices to show each preset at.")] = "8x8",
    as_json: JsonResult = False,
) -> None:
    """List the topology presets.

    A preset is a device, then nodes x devices per node, as in h100-8x8.
    """
    if as_json:
        print_json([preset(f"{device}-{example}").to_dict() for device in preset_devices()])
        return
    table = Table(box=SIMPLE, pad_edge=False)
    for column in ("preset", "device", "devices", "memory", "levels, slowest first"):
        table.add_column(column)
    for device in preset_devices():
        topology = preset(f"{device}-{example}")
        levels = ", ".join(
            f"{level.name} {level.size} by {level.link.kind} "
            f"{level.link.device_bytes_per_s / 1e9:.3g} GB/s"
            for level in topology.levels
        )
        table.add_row(
            topology.name,
            topology.device.name,
            str(topology.device_count),
            show_bytes(topology.device.memory_bytes),
            levels,
        )
    results().print(table)


def validate(
    file: Annotated[
        Path,
        typer.Argument(
            help="Graph, topology, setup, plan, request, calibration or samples file, or a cost "
            "graph or its solution."
        ),
    ],
    as_json: JsonResult = False,
) -> None:
    """Check a document and print its kind and id."""
    text = read_text(file)
    kind = kind_of(text)
    document = kind.from_json(text)
    if as_json:
        print_json([{"file": str(file), "kind": kind.__name__, "id": document.id}])
        return
    word = WORDS.get(kind, kind.__name__.lower())
    say(f"{file}: a valid {word}, {document.id}")


def kind_of(text: bytes) -> type[Document]:
    """The kind of the document in JSON text, by a field that only that kind has."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise InvalidInput(f"this is not JSON: {failure}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"expected a JSON object, got a {type(value).__name__}")
    return next((kind for field, kind in KINDS if field in value), Setup)
