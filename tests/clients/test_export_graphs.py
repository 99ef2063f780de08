"""`meshwright export --to graphml` and `--to dot`: of plans, graphs and topologies."""

from __future__ import annotations

import sys
from pathlib import Path

import networkx as nx
import pytest

from meshwright.planfile import PlanFile
from meshwright.reports.plan_graph import plan_graph
from tests.clients.conftest import Run
from tests.clients.reports.test_plan_graph import pinned
from tests.solver.layered import layered
from tests.solver.small_graphs import topology


def test_a_plan_is_written_with_its_strategies(run: Run, tmp_path: Path) -> None:
    own, graph = pinned()
    file, output = tmp_path / "plan.json", tmp_path / "plan.graphml"
    PlanFile(plan=own, graph=graph).write(file)
    written = run("export", file, "--to", "graphml", "-o", output)
    assert (written.code, written.out) == (0, "")
    assert "2 nodes and 1 edges for graphml" in written.err
    found = nx.read_graphml(output, force_multigraph=True)
    assert dict(found.nodes(data=True)) == dict(plan_graph(own, graph).nodes(data=True))
    assert '"up" -> "down" [' in run("export", file, "--to", "dot").out


def test_a_bare_plan_lacks_the_graph(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(pinned()[0].to_json())
    refused = run("export", file, "--to", "dot")
    assert refused.code == 2
    assert "needs the graph" in refused.err


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz", "topology.json"])
def test_graphs_and_topologies_are_written_too(run: Run, tmp_path: Path, name: str) -> None:
    document = topology(2, 2) if name.startswith("topology") else layered(2)
    file, output = tmp_path / name, tmp_path / "out.graphml"
    if name.endswith(".gz"):
        import gzip

        file.write_bytes(gzip.compress(document.to_json().encode()))
    else:
        file.write_text(document.to_json())
    assert run("export", file, "--to", "graphml", "-o", output).code == 0
    assert set(nx.read_graphml(output)) == set(document.to_networkx())
    assert run("export", file, "--to", "dot").out.count("label=") == (
        document.to_networkx().number_of_nodes() + document.to_networkx().number_of_edges()
    )
    # no other target can be had of them
    assert run("export", file, "--to", "dtensor").code == 2


def test_a_file_that_is_no_json_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text("digraph {}")
    refused = run("export", file, "--to", "dot")
    assert (refused.code, refused.out) == (2, "")
    assert "this is not JSON" in refused.err


def test_networkx_is_asked_for_by_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "graph.json"
    file.write_text(layered(2).to_json())
    monkeypatch.setitem(sys.modules, "networkx", None)
    refused = run("export", file, "--to", "dot")
    assert refused.code == 3
    assert "pip install 'meshwright[graphs]'" in refused.err
