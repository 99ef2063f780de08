"""Memory of parameters at rest against table 1 of the ZeRO paper, through the judge.

Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models":
GB a device for mixed precision with Adam (K = 12), by degree of data parallelism. The row of 64 is
figure 1's, with its baseline of 120 GB.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from meshwright.schema import Budget, Setup
from meshwright_solver.evaluation.accounting.assignment import Assignment
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.evaluate import cost_of_all
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology

GB = 1e9
MIXED = Setup(gradient_dtype="bfloat16", master_dtype="float32", microbatches=2)

# degree: (Pos, Pos+g, Pos+g+p) of 7.5 billion, of 128 billion, of a trillion parameters
TABLE = {
    1: ((120, 120, 120), (2048, 2048, 2048), (16000, 16000, 16000)),
    4: ((52.5, 41.3, 30), (896, 704, 512), (7000, 5500, 4000)),
    16: ((35.6, 21.6, 7.5), (608, 368, 128), (4750, 2875, 1000)),
    64: ((31.4, 16.6, 1.88), (536, 284, 32), (4187, 2218, 250)),
    256: ((30.4, 15.4, 0.47), (518, 263, 8), (4046, 2054, 62.5)),
    1024: ((30.1, 15.1, 0.12), (513, 257, 2), (4011, 2013, 15.6)),
}
MODELS = (7.5e9, 128e9, 1e12)


@cache
def assigned(parameters: float, devices: int) -> tuple[Models, Assignment]:
    """A linear layer of so many parameters, to within 1e-4, on data parallel devices."""
    width = 1024 * (1 + round(parameters**0.5 / 1024))  # the longer dim, which is cut
    height = round(parameters / width)
    maker = GraphMaker("bfloat16", batch=2 * devices)
    weight = maker.parameter("w", height, width)
    y = maker.op("linear", [maker.input("x", "batch", width), weight], ["batch", height], "y")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [y, label], [], "loss")
    graph, cluster = maker.graph(loss, loss=loss), topology(devices, memory_bytes=1 << 50)
    answer = plan(
        toy_request(
            graph=graph,
            topology=cluster,
            setup=MIXED,
            budget=Budget(max_axes=1),
            pins=({"op": "*", "data_parallel": True},),
        )
    )
    assert answer.plan is not None
    stage, given = answer.plan.stages[0], problem(graph, cluster, MIXED, microbatches=2)
    models = Models(given, find_values(given), stage.mesh)
    return models, assignment_of_stage(models, stage)


def held_gb(parameters: float, devices: int, stage: int) -> float:
    """What the judge says that parameters, gradients and optimizer take; stage: ZeRO's, or 0."""
    models, chosen = assigned(parameters, devices)
    model = models.parameter(models.values.value_of["w"])
    whole, on_largest = model.space.slots, model.optimizer_slot
    code = [whole, whole + 1, whole + 2, on_largest][stage] if devices > 1 else whole
    at_rest = replace(chosen, parameters={"w": (code,)})
    held = cost_of_all(models, at_rest).memory_bytes
    return (held.parameters + held.gradients + held.optimizer) / GB


def last_digit(published: float) -> float:
    """One of the last digit: some of the table's numbers are rounded, others cut off."""
    return 10.0 ** -len(str(published).partition(".")[2]) if published % 1 else 1.0


@pytest.mark.parametrize("devices", TABLE)
@pytest.mark.parametrize("model", range(len(MODELS)))
def test_memory_is_that_of_the_table(model, devices):
    for stage, published in enumerate(TABLE[devices][model], start=1):
        found = held_gb(MODELS[model], devices, stage)
        assert found == pytest.approx(published, abs=last_digit(published)), stage


def test_without_zero_it_is_the_baseline_on_any_number_of_devices():
    for devices in (1, 64):
        assert held_gb(7.5e9, devices, 0) == pytest.approx(120, rel=1e-4)
