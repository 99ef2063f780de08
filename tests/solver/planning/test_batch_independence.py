"""Batches in halves: the same gradients where that is said to be, and a refusal where not."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Constraints, Graph, Pipeline, Setup, SetupError
from meshwright_solver.planning.batch_independence import check_split
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.execution.reference_run import ReferenceRun, run_whole
from meshwright_solver.verification.verify import random_sources, verify_documents
from tests.solver.problem.test_expert_dims import mixture
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology
from tests.solver.verification.test_verify import decoder_layer

PAIRS = Setup(microbatches=2, copies=2)


def images(normalised: bool) -> Graph:
    make = GraphMaker(batch=4)
    rows = ["batch", 3, 6, 6]
    inputs = [make.input("x", *rows), make.parameter("w", 3, 3, 3, 3)]
    attrs = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}
    x = make.op("conv", inputs, rows, "conv", attrs=attrs)
    if normalised:
        scale = [make.parameter("g", 3), make.parameter("b", 3)]
        x = make.op("batch_norm", [x, *scale], rows, "normal", attrs={"eps": 1e-5})
    x = make.op("mean", [x], ["batch", 3], "pool", attrs={"dims": [2, 3]})
    labels = make.tensor("labels", ["batch"], "label", dtype="int64")
    loss = make.op("cross_entropy", [x, labels], [], "loss")
    return make.graph(loss, loss=loss)


def balanced(power: bool) -> Graph:
    """A loss and what the mean over the batch adds to it, squared or not."""
    make = GraphMaker(batch=4)
    x = make.op("linear", [make.input("x", "batch", 8), make.parameter("w", 8, 8)], ["batch", 8])
    labels = make.tensor("labels", ["batch"], "label", dtype="int64")
    loss = make.op("cross_entropy", [x, labels], [], "loss")
    mean = make.op("mean", [x], [8], "mean", attrs={"dims": [0]})
    own = make.op("mul", [mean, mean], [8], "square") if power else mean
    whole = make.op("sum", [own], [], "all", attrs={"dims": [0]})
    return make.graph(total := make.op("add", [loss, whole], [], "total"), loss=total)


def gradients(own: Problem, sources: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    run: ReferenceRun = run_whole(own, sources)
    return {
        name: run.gradients[name]
        for name, info in own.tensors.items()
        if info.tensor.role == "parameter" and name in run.gradients
    }


def worst_difference(graph: Graph) -> float:
    """Of the mean of both halves' gradients to those of the whole batch, over the largest."""
    devices = topology(2)
    whole, half = problem(graph, devices, Setup(microbatches=1)), problem(graph, devices, PAIRS)
    sources = random_sources(whole, 0)
    found = []
    for number in range(2):
        own = dict(sources)
        for name, info in half.tensors.items():
            if info.tensor.role in ("input", "label"):
                (dim,) = (d for d, size in enumerate(info.tensor.shape) if size == "batch")
                own[name] = np.split(sources[name], 2, axis=dim)[number]
        found.append(gradients(half, own))
    expected = gradients(whole, sources)
    assert expected
    return max(
        float(np.abs((found[0][name] + found[1][name]) / 2 - own).max() / np.abs(own).max())
        for name, own in expected.items()
    )


@pytest.mark.parametrize(
    "graph", [decoder_layer(), mixture(), images(False), balanced(False)],
    ids=["decoder", "experts", "images", "mean"],
)  # fmt: skip
def test_halves_make_the_gradients_of_the_whole(graph: Graph) -> None:
    check_split(problem(graph, topology(2), PAIRS))
    assert worst_difference(graph) < 1e-10


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (images(True), "op 'normal' .* uses statistics over its batch"),
        (balanced(True), "op 'square' .* makes something else of sums over the batch"),
    ],
    ids=["batch norm", "square of a mean"],
)
def test_what_mixes_samples_is_refused_and_would_be_wrong(graph: Graph, message: str) -> None:
    assert worst_difference(graph) > 1e-3
    asked = toy_request(graph=graph, topology=topology(2), setup=PAIRS)
    with pytest.raises(SetupError, match=message):
        check(asked)


def test_a_kind_that_is_not_known_may_do_anything() -> None:
    make = GraphMaker(batch=4)
    x = make.op("linear", [make.input("x", "batch", 8), make.parameter("w", 8, 8)], ["batch", 8])
    x = make.op("whatever", [x], ["batch", 8], "strange")
    loss = make.op("sum", [x], [], "loss", attrs={"dims": [0, 1]})
    with pytest.raises(SetupError, match=r"'strange' .* not known"):
        check_split(problem(make.graph(loss, loss=loss), topology(2), PAIRS))


@pytest.mark.parametrize("sizes", [(4,), (2, 2)])
def test_a_plan_in_halves_is_verified_and_says_so(sizes: tuple[int, ...]) -> None:
    graph, devices = decoder_layer(), topology(*sizes)
    answer = plan(toy_request(graph=graph, topology=devices, setup=PAIRS.like(microbatches=None)))
    assert answer.plan is not None
    assert answer.plan.microbatches == 2
    assert any("take turns" in note for note in answer.plan.notes)
    certificate = verify_documents(answer.plan, graph, devices, PAIRS.like(microbatches=None))
    assert certificate.outcome == "verified", certificate.detail


def test_what_is_not_planned_in_halves_is_refused() -> None:
    graph = decoder_layer()
    with pytest.raises(SetupError, match=r"in pairs\. Use 4"):
        Setup(microbatches=3, copies=2)
    piped = toy_request(
        graph=graph, topology=topology(2, 2), setup=PAIRS, pipeline=Pipeline(ranks=2)
    )
    with pytest.raises(SetupError, match="within a pipeline"):
        check(piped)
    offloaded = toy_request(
        graph=graph, topology=topology(2), setup=PAIRS, constraints=Constraints(offload="optimizer")
    )
    with pytest.raises(SetupError, match="offload optimizer"):
        check(offloaded)
