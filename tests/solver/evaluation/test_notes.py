"""Notes: said once for layers that are alike, and no more than is known."""

from __future__ import annotations

from meshwright.schema import Constraints, OptimizerParallel, Recompute, Setup
from meshwright_costmodel.calibrations import datasheet_calibration, published_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.evaluation.notes import ineffective_options, once
from tests.solver.requests import mlp_request, planned
from tests.solver.small_graphs import topology


def test_what_differs_in_layers_only_is_said_once() -> None:
    notes = (
        "a.0.q to a.0.o: 1.5 µs",
        "b: 1.5 µs",
        "a.1.q to a.1.o: 1.5 µs",
        "a.1.q to a.1.o: 2 µs",
    )
    assert once(notes) == (
        "a.0.q to a.0.o: 1.5 µs; other layers alike",
        "b: 1.5 µs",
        "a.1.q to a.1.o: 2 µs",
    )


def test_what_inference_has_not_is_said_of_what_was_wished_for() -> None:
    wishes = Constraints(
        optimizer_parallel=OptimizerParallel(level=3), offload="auto", sparse_gradients=("words",)
    )
    request = mlp_request(4, topology(2)).model_copy(
        update={"constraints": wishes, "recompute": Recompute(policy="full")}
    )
    assert ineffective_options(request) == []
    idle = ineffective_options(request.model_copy(update={"setup": Setup(phase="inference")}))
    assert [note.split(":")[0] for note in idle] == [
        "optimizer_parallel",
        "offload auto",
        "sparse_gradients",
        "recompute full",
    ]


def test_a_plan_says_whose_curves_stand_in_for_its_devices() -> None:
    request = mlp_request(4, topology(2))
    curved = {"calibration": published_calibration()}
    (note,) = [
        own for own in planned(request.model_copy(update=curved)).notes if "count as on" in own
    ]
    assert note.endswith("none of toy are known")
    measured = request.model_copy(update={**curved, "topology": preset("h100-1x2")})
    assert not any("count as on" in own for own in planned(measured).notes)
    flat = {"calibration": datasheet_calibration()}
    assert not any("count as on" in own for own in planned(request.model_copy(update=flat)).notes)
