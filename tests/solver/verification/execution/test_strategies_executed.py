"""Every strategy of every kind, planned and executed device by device, equals the unsharded run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from meshwright.schema import Graph
from meshwright.schema.pin import Pin
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.rules import KINDS
from meshwright_solver.verification.execution.executor import run_sharded
from meshwright_solver.verification.execution.kernels import KERNELS, Array, KernelCall
from meshwright_solver.verification.execution.reference_run import run_whole
from meshwright_solver.verification.execution.shards import unshard
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology
from tests.solver.verification.execution.all_cases import ALL
from tests.solver.verification.execution.kernel_cases import Case, named
from tests.solver.verification.execution.test_rules_executed import prepared


def cases() -> Iterator[Case]:
    """The first call of every kind that has something to compare and inputs to shard."""
    seen: set[str] = set()
    for own in ALL:
        kind, _, inputs, _, _ = own
        finite = all(np.isfinite(given).all() for given in inputs)
        if kind in KINDS and inputs and finite and kind not in seen:
            seen.add(kind)
            yield own


def dtype_of(array: Array) -> str:
    return {"f": "float32", "i": "int64", "b": "bool"}[array.dtype.kind]


def graph_of(call: KernelCall) -> tuple[Graph, dict[str, Array]]:
    """The call as an op `it` on parameters, and a loss of everything that it makes."""
    make = GraphMaker()
    sources: dict[str, Array] = {}
    inputs = []
    for k, own in enumerate(call.inputs):
        sources[f"i{k}"] = own
        if own.dtype == np.float64:
            inputs.append(make.parameter(f"i{k}", *own.shape))
            continue
        # an input is free, what an op makes of it lies where the plan says
        make.input(f"i{k}", *own.shape, dtype=dtype_of(own))
        kind = "ne" if own.dtype == np.bool_ else "add"
        inputs.append(make.tensor(f"n{k}", own.shape, dtype=dtype_of(own)))
        make.ops.append(
            {"name": f"take{k}", "kind": kind, "inputs": [f"i{k}"], "outputs": [f"n{k}"],
             "attrs": {"other": 0}}
        )  # fmt: skip
    outputs = KERNELS[call.kind].forward(call)
    random = np.random.default_rng(5)
    names, terms = [], []
    for j, own in enumerate(outputs):
        names.append(make.tensor(f"o{j}", own.shape, dtype=dtype_of(own)))
    make.ops.append(
        {"name": "it", "kind": call.kind, "inputs": inputs, "outputs": names,
         "attrs": dict(call.attrs)}
    )  # fmt: skip
    for j, own in enumerate(outputs):
        if own.dtype == np.float64 and np.isfinite(own).all():
            weight = make.input(f"w{j}", *own.shape)
            sources[weight] = random.standard_normal(own.shape)
            weighed = make.op("mul", [f"o{j}", weight], own.shape, name=f"weigh{j}")
            terms.append(make.op("sum", [weighed], [], name=f"sum{j}"))
    loss = None
    if terms and inputs:
        loss = terms[0] if len(terms) == 1 else make.op("add", terms, [], name="loss")
    return make.graph(*names, *([loss] if loss else []), loss=loss), sources


def strategies(built: Problem, axes: dict[str, int]) -> Iterator[dict[str, tuple[str, ...]]]:
    """Each axis on every part that it divides, alone and with the other axis."""
    (position,) = (k for k, own in enumerate(built.ops) if own.op.name == "it")
    op = built.ops[position]
    if position in find_values(built).views:
        return
    places: list[dict[str, tuple[str, ...]]] = [{}]
    for axis, size in axes.items():
        more = []
        for part in op.parts:
            if part.shardable and part.size % size == 0:
                for before in places:
                    rest = part.size // size
                    if part.name not in before or rest % axes[before[part.name][0]] == 0:
                        more.append({**before, part.name: (*before.get(part.name, ()), axis)})
        places += more
    yield from places[1:]


@pytest.mark.rotating
@pytest.mark.parametrize("given", list(cases()), ids=named)
def test_every_strategy_equals_the_unsharded_run(given: Case) -> None:
    graph, sources = graph_of(prepared(given))
    devices = topology(2, 3)
    built = problem(graph, devices)
    whole = run_whole(built, sources)
    for strategy in strategies(built, {"node": 2, "gpu": 3}):
        pins = (Pin(op="it", strategy=strategy),)
        found = plan(toy_request(graph=graph, topology=devices, pins=pins)).plan
        assert found is not None, strategy
        (stage,) = found.stages
        sharded = run_sharded(built, stage, sources)
        for held, wanted in ((sharded.values, whole.values), (sharded.gradients, whole.gradients)):
            for root, (layout, shards) in held.items():
                made = unshard(shards, layout, stage.mesh)
                np.testing.assert_allclose(made, wanted[root], rtol=1e-8, atol=1e-9, err_msg=root)
