"""Constructors: what they refuse is a MeshwrightError, and what they make prints in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.pretty import pretty_repr

import meshwright
from meshwright.client import Client
from meshwright.schema import (
    Answer,
    Budget,
    Degrees,
    Graph,
    GraphError,
    InvalidInput,
    Pin,
    Pipeline,
    Request,
    RequestError,
    Setup,
    SetupError,
)
from meshwright.schema.brief import MAX_LENGTH
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request, transformer_mlp
from tests.solver.small_graphs import topology

NOBODY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("make", "kind", "said", "pointer"),
    [
        (
            lambda: Setup(microbatches="x"),  # type: ignore[arg-type]  # that is the fault
            SetupError,
            "Setup.microbatches: expected a whole number, got 'x'",
            "/microbatches",
        ),
        (
            lambda: Setup(microbatch=2),  # type: ignore[call-arg]  # that is the fault
            SetupError,
            "Setup.microbatch: an unknown field, which a newer Meshwright may know. Use "
            "microbatches",
            "/microbatch",
        ),
        (
            lambda: Degrees(tp=0),
            RequestError,
            "Degrees.tp: Input should be greater than or equal to 1, got 0",
            "/tp",
        ),
        (
            lambda: Degrees.model_validate({"tp": 0}),
            RequestError,
            "/tp: Input should be greater than or equal to 1, got 0",
            "/tp",
        ),
        (
            lambda: Degrees.model_validate_json('{"tp": 0}'),
            RequestError,
            "/tp: Input should be greater than or equal to 1, got 0",
            "/tp",
        ),
        (lambda: Pipeline(ranks=0), RequestError, "Pipeline.ranks: ", "/ranks"),
        (lambda: Budget(seconds=-1.0), RequestError, "greater than 0, got -1.0", "/seconds"),
        (lambda: Pin(), RequestError, "Pin.op: Field required", "/op"),  # type: ignore[call-arg]
        (
            lambda: Request(graph=1, topology=2),  # type: ignore[arg-type]  # that is the fault
            RequestError,
            "Request.graph: Input should be a valid dictionary or instance of Graph, got 1",
            "/graph",
        ),
        (
            lambda: Client(NOBODY).plan("graph_1", "h100-1x1", pins=["x"]),  # type: ignore[list-item]
            RequestError,
            "Wishes.pins.0: Input should be a valid dictionary or instance of Pin, got 'x'",
            "/pins/0",
        ),
        (
            lambda: Client(NOBODY).plan("graph_1", "h100-1x1", setup={"a": 1}),  # type: ignore[arg-type]
            RequestError,
            "got the dict {'a': 1}. Use `from_dict` of the document's class",
            "",
        ),
        (lambda: Graph.model_validate_json("{"), GraphError, "Invalid JSON", ""),
    ],
)
def test_constructors_raise_errors_of_ours(
    make: Callable[[], object], kind: type[InvalidInput], said: str, pointer: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        make()
    assert type(raised.value) is kind
    assert said in raised.value.detail
    assert raised.value.pointer == pointer


def test_parts_are_made_without_the_constructor() -> None:
    """It would cost a call of Python for each of the hundreds of thousands of parts of a plan."""
    assert not any(kind.__pydantic_custom_init__ for kind in (Setup, Graph, Pin, Degrees))


def test_an_answer_prints_in_one_line() -> None:
    graph = transformer_mlp(64).graph("loss:out", loss="loss:out")
    request = toy_request(graph=graph, topology=topology(2))
    answer = plan(request)
    assert answer.plan is not None
    for value in (
        answer, answer.plan, answer.plan.stages[0], answer.plan.search, graph, request,
        request.setup, request.topology,
    ):  # fmt: skip
        for text in (repr(value), str(value), f"{value}"):
            assert len(text) <= MAX_LENGTH
            assert "\n" not in text
        assert len(pretty_repr(value)) <= 3 * MAX_LENGTH  # a line each, indented
    assert repr(answer).startswith(f"Answer(plan=Plan(id='{answer.plan.id}', ")
    assert f"step_ns={answer.plan.cost.step_ns:.0f}" in repr(answer.plan)
    assert repr(graph).startswith(f"Graph(id='{graph.id}', ")
    assert repr(Degrees(tp=2, zero=1)) == "Degrees(tp=2, zero=1)"
    assert repr(Answer()) == "Answer()"


def test_public_names_of_the_package_are_listed() -> None:
    assert {"parallelize", "plan", "__version__"} <= set(dir(meshwright))
    assert set(meshwright.__all__) == {"parallelize", "plan", "__version__"}
    assert meshwright.__version__.split(".")[0].isdecimal()
