"""Documents in notebooks: HTML tables and a table of pandas."""

from __future__ import annotations

import builtins
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from meshwright.common.files import read_document
from meshwright.planfile import PlanFile
from meshwright.plugins import find_planner, preset
from meshwright.schema import Document, Graph, Plan, Request, Setup, Unavailable
from meshwright.schema.plan_frame import COLUMNS
from tests.one_stage import ONE_STAGE

GRAPHS = Path(__file__).resolve().parents[2] / "examples" / "graphs"
MARKUP = '<img src=x onerror="alert(1)">&'


class Elements(HTMLParser):
    """The elements of a text of HTML, and whether each is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.seen.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(document: Document) -> set[str]:
    parser = Elements()
    parser.feed(document._repr_html_())
    assert parser.open == []
    return set(parser.seen)


@pytest.fixture(scope="module")
def face() -> Graph:
    return read_document(GRAPHS / "face-head.json.gz", Graph)


@pytest.fixture(scope="module")
def plan(face: Graph) -> Plan:
    request = Request(graph=face, topology=preset("h100-1x8"), **ONE_STAGE)
    found = find_planner()(request).plan
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(path.name for path in GRAPHS.glob("*.json.gz")))
def test_a_graph_is_a_table_of_its_counts(name: str) -> None:
    graph = read_document(GRAPHS / name, Graph)
    text = graph._repr_html_()
    assert f"<th>ops</th><td>{len(graph.ops):,}</td>" in text
    assert graph.id in text
    assert len(text) < 4000
    assert elements(graph) == {"table", "caption", "tr", "th", "td"}


@pytest.mark.parametrize(
    "name", ["h100-8x8", "gb200-1x72", "a100-80g-4x8+h100-2x8", "tpu-v5p-4x4x4"]
)
def test_a_topology_is_a_table_of_its_levels(name: str) -> None:
    topology = preset(name)
    rows = re.findall("<th>level ", topology._repr_html_())
    assert len(rows) == sum(len(group.levels) for group in topology.groups)
    assert elements(topology)


def test_a_plan_and_its_file_are_tables(plan: Plan, face: Graph) -> None:
    assert f"<td>{plan.cost.step_ns / 1e6:,.3f} ms</td>" in plan._repr_html_()
    assert elements(plan) == {"table", "caption", "tr", "th", "td"}
    assert {"ul", "li"} <= elements(PlanFile(plan=plan, graph=face)) or not plan.notes


def test_names_are_text_and_no_markup(face: Graph) -> None:
    for document in (face.like(name=MARKUP), preset("h100-1x8").like(name=MARKUP), Setup()):
        assert "img" not in elements(document)


def test_a_frame_has_every_op_and_all_of_the_time(plan: Plan) -> None:
    frame = plan.to_frame()
    assert tuple(frame.columns) == COLUMNS
    ops = [op for stage in plan.stages for op in stage.ops]
    assert list(frame[frame.kind != "redistribution"].op) == [op.op for op in ops]
    assert frame.compute_ns.sum() == pytest.approx(sum(op.compute_ns for op in ops))
    moves = sum(moved.ns for stage in plan.stages for moved in stage.redistributions)
    assert frame.redistribution_ns.sum() == pytest.approx(moves)
    assert frame.communication_ns.sum() == pytest.approx(sum(op.communication_ns for op in ops))


def test_without_pandas_the_error_says_how_to_get_it(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(Unavailable, match=r"pip install 'meshwright\[pandas\]'"):
        plan.to_frame()
