from __future__ import annotations

from meshwright.schema import Mesh, MeshAxis
from meshwright_solver.folding.mesh_outcome import History


def mesh(name: str) -> Mesh:
    return Mesh(axes=(MeshAxis(name=name, size=2, level="gpu"),))


def test_findings_get_cheaper_and_those_of_a_mesh_can_be_forgotten() -> None:
    history = History()
    history.add("a search", mesh("a"), 5.0)
    history.add("a search", mesh("b"), 4.0)
    history.add("a search", mesh("b"), 4.5)
    history.add("a search", mesh("a"), 3.0)
    assert [found.cost_ns for found in history.findings] == [5.0, 4.0, 3.0]
    history.forget(mesh("a"))
    assert [(found.mesh, found.cost_ns) for found in history.findings] == [("b 2", 4.0)]
    assert len(history.seconds) == 1
