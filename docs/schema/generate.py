"""Write the JSON Schemas of the documents into this folder: `make schema`."""

from __future__ import annotations

import json
from pathlib import Path

from meshwright.planfile import PlanFile
from meshwright.schema import Calibration, Document, Graph, Plan, Request, Setup, Topology
from meshwright.schema.cost_graph import CostGraphFile, CostGraphSolution
from meshwright.schema.observation import Observation
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.samples import Samples
from meshwright.schema.simulation import Simulation
from meshwright.schema.sweep import Sweep, SweepResult
from meshwright.schema.transfer import DeviceTransfer, Transfer

FOLDER = Path(__file__).resolve().parent
KINDS: dict[str, type[Document]] = {
    "calibration": Calibration,
    "costgraphfile": CostGraphFile,
    "costgraphsolution": CostGraphSolution,
    "devicetransfer": DeviceTransfer,
    "graph": Graph,
    "observation": Observation,
    "plan": Plan,
    "planfile": PlanFile,
    "rankstrategy": RankStrategy,
    "request": Request,
    "samples": Samples,
    "setup": Setup,
    "simulation": Simulation,
    "sweep": Sweep,
    "sweepresult": SweepResult,
    "topology": Topology,
    "transfer": Transfer,
}


def schema_text(kind: type[Document]) -> str:
    """The JSON Schema of a kind of document, as the file holds it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **kind.model_json_schema(mode="validation"),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all of them."""
    for name, kind in KINDS.items():
        (FOLDER / f"{name}.json").write_text(schema_text(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
