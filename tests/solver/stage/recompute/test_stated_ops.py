"""Stated ops are recomputed, with their communication as stated; priced, and executed in numpy."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from meshwright.schema import Graph, Plan, PlanError, Recompute, Request, RequestError, Setup
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology
from tests.solver.stage.recompute.layers import layered

SETUP = Setup(microbatches=1, memory_reserve=0.0)
DEVICES = topology(2, 2, memory_bytes=1 << 30)


def u_net() -> Graph:
    """No two levels alike: down by halves, up again, the skipped values added."""
    make = GraphMaker(batch=16)
    x = make.input("x", "batch", 64)
    skipped = []
    width = 64
    for level, inner in enumerate((48, 32, 16)):
        name = f"down.{level}"
        x = make.op("linear", [x, make.parameter(f"{name}.w", inner, width)], ["batch", inner],
                    f"{name}.product")  # fmt: skip
        x = make.op("gelu", [x], ["batch", inner], f"{name}.gelu")
        x = make.op("relu", [x], ["batch", inner], f"{name}.relu")
        skipped.append((x, inner))
        width = inner
    for level, (skip, inner) in enumerate(reversed(skipped[:-1])):
        name = f"up.{level}"
        x = make.op("linear", [x, make.parameter(f"{name}.w", inner, width)], ["batch", inner],
                    f"{name}.product")  # fmt: skip
        x = make.op("gelu", [x], ["batch", inner], f"{name}.gelu")
        x = make.op("add", [x, skip], ["batch", inner], f"{name}.add")
        x = make.op("sigmoid", [x], ["batch", inner], f"{name}.sigmoid")
        width = inner
    loss = make.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    return make.graph(loss, loss=loss)


GRAPHS = {"layers": layered(3), "u-net": u_net()}


def request(graph: Graph, recompute: Recompute, **wishes: object) -> Request:
    return toy_request(graph=graph, topology=DEVICES, setup=SETUP, recompute=recompute, **wishes)


def planned(own: Request) -> Plan:
    found = plan(own).plan
    assert found is not None
    return found


def again(found: Plan) -> set[str]:
    (stage,) = found.stages
    if stage.recompute is None:
        return set()
    return {op for segment in stage.recompute.segments for op in segment.again}


@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_stated_ops_alone_are_recomputed_priced_and_verified(data: st.DataObject) -> None:
    graph = GRAPHS[data.draw(st.sampled_from(sorted(GRAPHS)))]
    names = [op.name for op in graph.ops]
    globs = data.draw(
        st.sets(
            st.sampled_from([*names, "*.gelu", "down.*", "up.*", "1.*", "*.up", "*"]),
            min_size=1,
            max_size=4,
        )
    )
    globs = {glob for glob in globs if any(fnmatchcase(name, glob) for name in names)}
    if not globs:
        return
    communication = data.draw(st.sampled_from(["auto", "repeat", "keep"]))
    wish = Recompute(policy="stated", ops=tuple(sorted(globs)), communication=communication)
    found = planned(request(graph, wish))
    assert all(any(fnmatchcase(op, glob) for glob in globs) for op in again(found))
    judged = evaluate(problem(graph, DEVICES, SETUP), Plan.from_json(found.to_json()))
    assert judged.step_ns == pytest.approx(found.cost.step_ns, rel=1e-9)
    assert judged.memory_bytes.total == pytest.approx(found.cost.memory_bytes.total, abs=8)
    assert verify_documents(found, graph, DEVICES, SETUP).outcome == "verified"


def test_a_graph_without_repeats_frees_the_memory_of_stated_modules() -> None:
    plain = planned(request(u_net(), Recompute(policy="none")))
    less = planned(request(u_net(), Recompute(policy="stated", ops=("down.*", "up.*"))))
    assert {"down.0.product", "down.1.product", "up.0.product"} <= again(less)
    assert less.cost.memory_bytes.activations < plain.cost.memory_bytes.activations
    assert less.cost.compute_ns > plain.cost.compute_ns
    # full recomputation has no blocks here
    assert again(planned(request(u_net(), Recompute(policy="full")))) == set()


def _producer(tensor: str) -> str:
    return tensor.removesuffix(":out")


PINS = (
    {"op": "*.up", "inputs": [[1, 1, 1], [4, 1]]},
    {"op": "*.down", "inputs": [[1, 1, 4], [1, 4]]},
    {"op": "*.norm", "inputs": [[4, 1, 1], [1]]},
    {"op": "*.query", "inputs": [[1, 1, 1], [4, 1]]},
)


@pytest.mark.parametrize("communication", ["repeat", "keep"])
def test_communication_of_recomputed_values_is_as_stated(communication: str) -> None:
    wish = Recompute.model_validate(
        {"policy": "stated", "ops": ["*.norm", "*.add"], "communication": communication}
    )
    found = planned(request(layered(3), wish, pins=PINS))
    (stage,) = found.stages
    recomputed = again(found)
    assert any(op.endswith(".norm") for op in recomputed)
    repeated = {
        moved.tensor
        for moved in stage.redistributions
        if moved.traffic == "activation"
        and moved.again
        and _producer(moved.tensor) in recomputed
        and any(step.kind != "slice" for step in moved.forward)
    }
    saved = {
        tensor.tensor
        for tensor in stage.tensors
        if _producer(tensor.tensor) in recomputed and tensor.saved == "read" and tensor.saved_bytes
    }
    assert bool(repeated) == (communication == "repeat")
    assert bool(saved) == (communication == "keep")


def test_a_module_stands_for_the_ops_in_it_and_other_globs_are_refused() -> None:
    graph = GRAPHS["u-net"]
    fields = graph.to_dict()
    for op in fields["ops"]:
        op["module"] = "net." + op["name"]
    inside = planned(
        request(Graph.from_dict(fields), Recompute(policy="stated", ops=("net.down.1",)))
    )
    assert again(inside)
    assert all(op.startswith("down.1.") for op in again(inside))
    with pytest.raises(RequestError, match=r"recompute ops 'nothing\.\*' matches no op"):
        plan(request(graph, Recompute(policy="stated", ops=("nothing.*",))))
    with pytest.raises(RequestError, match="policy `stated` only"):
        Recompute(policy="full", ops=("down.*",))


def test_a_plan_that_recomputes_other_ops_breaks_the_wish() -> None:
    graph = GRAPHS["layers"]
    found = planned(request(graph, Recompute(policy="stated", ops=("1.*",))))
    other = request(graph, Recompute(policy="stated", ops=("2.*",)))
    changed = found.model_copy(update={"wishes": other.wishes})
    with pytest.raises(PlanError, match="breaks its wish recompute"):
        verify_documents(changed, graph, DEVICES, SETUP)
