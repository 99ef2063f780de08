"""The working memory that a rule states counts while the op runs, of the part that a device has."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import Graph, Pin, Plan, Recompute, Setup, Topology
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, refused, toy_request
from tests.solver.small_graphs import GraphMaker, topology

MIB = 2**20
ROWS, WIDTH = 8, 64


def network(working_bytes: str | None) -> Graph:
    """A product, a kernel of the user's own, a product; 4 MiB for each of 8 rows of the batch."""
    maker = GraphMaker(batch=ROWS)
    x = maker.input("x", "batch", WIDTH)
    shape = ["batch", WIDTH]
    x = maker.op("linear", [x, maker.parameter("w1", WIDTH, WIDTH)], shape, "first")
    rule = {"notation": "a b -> a b", "working_bytes": working_bytes}
    x = maker.op("kernel", [x], shape, "kernel", rule=rule)
    x = maker.op("linear", [x, maker.parameter("w2", WIDTH, WIDTH)], shape, "second")
    return maker.graph(x)


def plan_of(working_bytes: str | None, devices: Topology, **wishes: Any) -> Plan:
    setup = Setup(phase="inference", memory_reserve=0.0)
    request = toy_request(graph=network(working_bytes), topology=devices, setup=setup, **wishes)
    plan = planned(request)
    # the judge and the execution know the same plan
    found = verify_documents(plan, request.graph, devices, setup)
    assert found.outcome == "verified"
    assert found.detail == "kernel ran as a stand-in with the dependences of its rule"
    return plan


@pytest.mark.parametrize(("count", "axes", "part"), [(1, (), 1), (4, ("gpu",), 4)])
def test_working_bytes_raise_peak_memory_by_a_devices_part(
    count: int, axes: tuple[str, ...], part: int
) -> None:
    pins = (Pin.model_validate({"op": "kernel", "strategy": {"a": axes}}),)
    without = plan_of(None, topology(count), pins=pins).cost.memory_bytes
    plan = plan_of(f"{4 * MIB // WIDTH}*a*b", topology(count), pins=pins)
    use = plan.cost.memory_bytes
    assert use.moment == "forward of kernel"
    # 8 rows of 4 MiB, cut as the op is
    moment = next(own for own in plan.stages[0].moments if own.at == "forward of kernel")
    assert moment.working == pytest.approx(ROWS * 4 * MIB / part, abs=4 * ROWS * WIDTH * 4)
    assert use.total - without.total == pytest.approx(ROWS * 4 * MIB / part, rel=0.01)


def test_a_kernel_that_needs_more_than_there_is_has_no_plan() -> None:
    own: dict[str, Any] = {
        "topology": topology(1, memory_bytes=16 * MIB),
        "setup": Setup(phase="inference", microbatches=1),
    }
    assert planned(toy_request(graph=network(None), **own)).cost.memory_bytes.total < 3 * MIB
    why = refused(toy_request(graph=network(f"{4 * MIB // WIDTH}*a*b"), **own))
    assert why.constraint == "memory"


def test_the_search_cuts_a_kernel_whose_working_memory_does_not_fit_whole() -> None:
    devices = topology(4, memory_bytes=16 * MIB)
    plan = plan_of(f"{4 * MIB // WIDTH}*a*b", devices)
    assert plan.cost.memory_bytes.total <= plan.cost.memory_bytes.capacity


def test_an_op_that_is_recomputed_needs_its_working_memory_again() -> None:
    maker = GraphMaker(batch=ROWS)
    shape = ["batch", WIDTH]
    x = maker.input("x", "batch", WIDTH)
    for layer in range(8):
        weight = maker.parameter(f"w{layer}", WIDTH, WIDTH)
        x = maker.op("linear", [x, weight], shape, f"{layer}.linear")
        rule = {"notation": "a b -> a b", "working_bytes": f"{MIB // WIDTH}*a*b"}
        made = maker.op("kernel", [x], shape, f"{layer}.kernel", rule=rule)
        made = maker.op("gelu", [made], shape, f"{layer}.act")
        x = maker.op("add", [x, made], shape, f"{layer}.add")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [x, label], [], "loss")
    request = toy_request(
        graph=maker.graph(loss, loss=loss),
        topology=topology(1),
        setup=Setup(microbatches=1),
        recompute=Recompute(policy="full"),
    )
    plan = planned(request)
    assert plan.stages[0].recompute is not None
    again = [own for own in plan.stages[0].moments if own.at.startswith("recomputing")]
    assert again
    assert max(own.working for own in again) >= ROWS * MIB
