"""No number of a plan can be another without being named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from meshwright.schema import Pin, Pipeline, Plan, PlanError, Request, Setup
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.requests import mlp_request, planned, toy_request
from tests.solver.small_graphs import topology

Path = tuple[str | int, ...]
REQUESTS = {
    "one stage": mlp_request(16, topology(2, 4), rows=32, width=256),
    "a pipeline": toy_request(
        graph=layered(2, tied=True),
        topology=topology(2, 2),
        setup=Setup(microbatches=2),
        pipeline=Pipeline(ranks=2, schedule="zb_h1"),
    ),
}
# what is chosen or stands for itself, and is no number that the judge finds
CHOSEN = {
    "simplicity_ns", "faster_ns", "lower_bound_ns", "step_bound_ns", "history", "considered",
}  # fmt: skip


def numbers(document: Any, path: Path = ()) -> Iterator[Path]:
    """Times and bytes, wherever they stand."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for name, own in items:
        if name in CHOSEN:
            continue
        if isinstance(own, dict | list):
            yield from numbers(own, (*path, name))
        elif isinstance(own, int | float) and _is_told(path, name):
            yield (*path, name)


def _is_told(path: Path, name: str | int) -> bool:
    by_name = {"communication_ns", "exposed_ns", "memory_bytes"}
    return bool(by_name & set(path)) or str(name).endswith(("ns", "bytes")) or name == "gap"


def changed(document: Any, path: Path) -> Any:
    if not path:
        return document * 1.5 + 3
    made = dict(document) if isinstance(document, dict) else list(document)
    made[path[0]] = changed(document[path[0]], path[1:])
    return made


@pytest.mark.parametrize("name", REQUESTS)
def test_every_number_of_a_plan_is_compared_with_the_judges(name: str) -> None:
    request = REQUESTS[name]
    plan = planned(request)
    document = plan.model_dump(mode="json")
    # one of each kind, wherever it stands
    kinds = {tuple(key for key in path if isinstance(key, str)): path for path in numbers(document)}
    assert len(kinds) > 35
    documents = request.graph, request.topology, request.setup
    assert verify_documents(plan, *documents).outcome == "verified"
    for path in kinds.values():
        lie = Plan.model_validate(_with_whole_bytes(changed(document, path)))
        with pytest.raises(PlanError, match=str(path[-1])):
            verify_documents(lie, *documents)


def test_no_plan_is_shorter_than_what_it_says_of_all():
    request = REQUESTS["a pipeline"]
    plan = planned(request)
    assert plan.search.step_bound_ns is not None
    search = plan.search.model_copy(update={"step_bound_ns": 2 * plan.cost.step_ns})
    lie = plan.model_copy(update={"search": search})
    with pytest.raises(PlanError, match="step_bound_ns"):
        verify_documents(lie, request.graph, request.topology, request.setup)


def lies(plan: Plan, **changes: Any) -> Plan:
    return plan.model_copy(update=changes)


def refused(request: Request, plan: Plan, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        verify_documents(plan, request.graph, request.topology, request.setup)


@pytest.mark.parametrize("name", REQUESTS)
def test_no_plan_is_cheaper_than_its_bound(name: str) -> None:
    request = REQUESTS[name]
    plan = planned(request)
    bound = plan.search.cost_ns * 1.01
    gap = (plan.search.cost_ns - bound) / plan.search.cost_ns
    search = plan.search.model_copy(update={"lower_bound_ns": bound, "gap": gap})
    refused(request, lies(plan, search=search), "lower_bound_ns")


def test_what_is_optimal_is_on_its_bound():
    request = REQUESTS["one stage"]
    plan = planned(request)
    assert plan.search.outcome == "optimal"
    search = plan.search.model_copy(update={"lower_bound_ns": plan.search.cost_ns / 2, "gap": 0.5})
    refused(request, lies(plan, search=search), "optimal")


def test_buckets_are_those_that_the_steps_fill():
    request = REQUESTS["one stage"]
    plan = planned(request)
    (stage,) = plan.stages
    own, *others = stage.buckets
    for buckets in (
        others,
        [own.model_copy(update={"tensors": own.tensors[::-1]}), *others],
    ):
        lie = stage.model_copy(update={"buckets": tuple(buckets)})
        refused(request, lies(plan, stages=(lie,)), "bucket 0")


def test_repeated_work_and_unknown_kinds_are_those_of_the_stages():
    # nothing divides by 2: both devices do all
    request = mlp_request(15, topology(2), rows=15, width=15)
    plan = planned(request)
    assert plan.repeated_work == pytest.approx(0.5)
    refused(request, lies(plan, repeated_work=0.0), "repeated_work")
    refused(request, lies(plan, unknown_kinds=("gelu",)), "unknown_kinds")


def test_model_flops_are_those_of_the_ops():
    request = REQUESTS["one stage"]
    plan = planned(request)
    (dtype,) = plan.model_flops
    refused(request, lies(plan, model_flops={dtype: 2 * plan.model_flops[dtype]}), "model_flops")
    refused(request, lies(plan, model_flops={"int8": 1.0}), "model_flops")


def test_padding_is_what_the_layouts_fill_up():
    request = mlp_request(15, topology(2), rows=30, width=15)
    setup = Setup(uneven="pad", microbatches=1)
    request = request.model_copy(
        update={"setup": setup, "pins": (Pin(op="down", strategy={"n": ("gpu",)}),)}
    )
    plan = planned(request)
    assert plan.padding
    refused(request, lies(plan, padding=plan.padding[1:]), "padding")
    more = plan.padding[0].model_copy(update={"padded": 64})
    refused(request, lies(plan, padding=(*plan.padding, more)), "padding")


def _with_whole_bytes(document: Any) -> Any:
    """Bytes are whole numbers."""
    if isinstance(document, dict):
        return {
            key: round(own)
            if isinstance(own, float) and not _is_ns(key, document)
            else _with_whole_bytes(own)
            for key, own in document.items()
        }
    return [_with_whole_bytes(own) for own in document] if isinstance(document, list) else document


def _is_ns(key: str, document: dict[str, Any]) -> bool:
    return "capacity" not in document and not key.endswith("bytes")
