"""Documents that were written once stay readable, under the id that they had.

`tests/data/documents` has plan files as earlier commits wrote them, with graph, topology and setup,
and the fields of schema version 1. A field may come, with a default; none may go.
"""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path

import pytest

from meshwright.planfile import PlanFile
from meshwright.schema import Calibration, Document, Graph, Plan, PlanError, Setup, Topology
from tests.service.samples import GRAPH

ROOT = Path(__file__).parents[2]
WRITTEN = ROOT / "tests/data/documents"
IDS = {
    "wide-deep-2026-11-22": "plan_73d9d711370b06ecad427fa56e9759d95fc22568af8668e20cb8894d89b4d984",
    "wide-deep-2026-11-23": "plan_c8ab63a4ebce136a4375c59ec2a42b3e14384fb99f0f00c645f4183db3e1d12a",
}
KINDS: dict[str, type[Document]] = runpy.run_path(str(ROOT / "docs/schema/generate.py"))["KINDS"]


@pytest.mark.parametrize("name", IDS)
def test_plans_that_were_written_are_read_and_keep_their_ids(name: str) -> None:
    text = gzip.decompress((WRITTEN / f"{name}.plan.json.gz").read_bytes())
    file = PlanFile.from_json(text)  # refuses documents that are not those that the plan names
    assert file.plan.id == IDS[name]
    assert file.to_dict() == json.loads(text)
    assert file.graph
    assert file.topology
    assert file.setup


def test_the_plan_of_all_defaults_says_no_more_than_it_did() -> None:
    text = gzip.decompress((WRITTEN / f"{min(IDS)}.plan.json.gz").read_bytes())
    for kind, field in ((Plan, "plan"), (Graph, "graph"), (Topology, "topology"), (Setup, "setup")):
        value = json.loads(text)[field]
        assert kind.from_dict(value).to_dict() == value
        assert kind.from_dict({**value, "schema_version": 1}).to_dict() == value


def test_no_field_of_version_1_goes() -> None:
    before = set((WRITTEN / "version-1.txt").read_text(encoding="utf-8").split("\n")) - {""}
    now = fields()
    gone = sorted(before - now)
    assert not gone, f"documents have been written with {gone}: read them, or make a version 2"
    new = sorted(now - before)
    assert not new, f"add to {WRITTEN / 'version-1.txt'}, to be kept from now on: {new}"


def fields() -> set[str]:
    """Every field of every document, and whether it has to be there."""
    found = set()
    for kind in KINDS.values():
        schema = kind.model_json_schema(mode="validation")
        for name, part in {kind.__name__: schema, **schema.get("$defs", {})}.items():
            for field in part.get("properties", ()):
                needed = "required" if field in part.get("required", ()) else "optional"
                found.add(f"{name}.{field} {needed}")
    return found


@pytest.mark.parametrize("kind", [Graph, Topology, Setup, Plan, Calibration])
def test_a_newer_version_is_refused_by_name(kind: type[Document]) -> None:
    with pytest.raises(kind.error, match=r"schema version 2.*reads version 1.*newer") as refused:
        kind.from_dict({"schema_version": 2, "of a later age": True})
    assert refused.value.pointer == "/schema_version"


def test_of_a_field_that_nobody_knows_it_says_what_may_be() -> None:
    with pytest.raises(Graph.error, match=r"unknown field.*newer Meshwright") as refused:
        Graph.from_dict({**GRAPH, "colour": "red"})
    assert refused.value.pointer == "/colour"


def test_a_plan_file_of_a_newer_plan_says_which_document_is_newer() -> None:
    text = gzip.decompress((WRITTEN / f"{max(IDS)}.plan.json.gz").read_bytes())
    value = json.loads(text)
    value["plan"]["schema_version"] = 7
    with pytest.raises(PlanError, match="schema version 7") as refused:
        PlanFile.from_dict(value)
    assert refused.value.pointer == "/plan/schema_version"
