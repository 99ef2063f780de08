"""Regions of a user's collectives: computed, captured, planned and executed in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import _functional_collectives as functional

from meshwright.capture import SpmdRegion, capture_module
from meshwright.schema import Budget, Graph, GraphError, RequestError
from meshwright_solver.planning.planner import plan
from meshwright_solver.stage.request_check import check
from meshwright_solver.verification.verify import verify_documents
from tests.capture.region_programs import RegionModel, all_ranks, random_program, region_of
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology

T = torch.Tensor


def graph_of(module: nn.Module) -> Graph:
    def inputs(sizes: dict[str, int]) -> dict[str, T]:
        return {"x": torch.zeros(sizes["batch"], 16, device="meta")}

    return capture_module(module, inputs, symbols={"batch": 8}, name="region")


@pytest.mark.parametrize("seed", range(12))
def test_a_region_computes_what_its_ranks_do(seed: int) -> None:
    torch.manual_seed(seed)
    program = random_program(seed, size=2 + seed % 3)
    region = region_of(program).double()
    x = torch.randn(5, program.columns, dtype=torch.float64, requires_grad=True)
    expected, found = all_ranks(program, x, region), region(x)
    torch.testing.assert_close(found, expected)
    weights = [x, *region.parameters()]
    for own, other in zip(
        torch.autograd.grad(expected.square().sum(), weights, allow_unused=True),
        torch.autograd.grad(found.square().sum(), weights, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("seed", range(4))
def test_regions_are_planned_and_executed(seed: int) -> None:
    size = 2 if seed % 2 else 4
    graph = graph_of(RegionModel(random_program(seed, size)))
    devices = topology(*[(4,), (2, 2), (2, 4), (4,)][seed])
    request = toy_request(graph=graph, topology=devices, budget=Budget(max_axes=3, seconds=None))
    found = planned(request)
    done = verify_documents(found, graph, devices, request.setup, request.calibration)
    assert done.outcome == "verified", done.detail
    mesh = found.stages[0].mesh
    for op in found.stages[0].ops:
        if op.kind == "matmul" and op.op.startswith("region."):
            batch = [axes for factor, axes in op.strategy.items() if factor.startswith("b")]
            assert not batch or mesh.size(batch[0]) == size


class Reduced(nn.Module):
    """A row-parallel product whose sum the functions of PyTorch reduce."""

    def __init__(self, reduce: Callable[[T], T]) -> None:
        super().__init__()
        self.down, self.reduce = nn.Linear(4, 16, bias=False), reduce

    def forward(self, x: T) -> T:
        return self.reduce(self.down(x))


class Net(nn.Module):
    def __init__(self, reduce: Callable[[T], T], **fields: Any) -> None:
        super().__init__()
        fields = {"size": 4, "inputs": (1,), "parameters": {"down.weight": 1}, **fields}
        self.region = SpmdRegion(lambda: Reduced(reduce), **fields)

    def forward(self, x: T) -> T:
        return self.region(x).square().mean()


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize(
    "reduce",
    [
        lambda y: functional.all_reduce(y, "sum", ""),
        lambda y: functional.all_reduce(
            functional.reduce_scatter_tensor(y, "sum", 1, "").sum(), "max", ""
        ),
        lambda y: functional.all_gather_tensor(y, 1, ""),
        lambda y: functional.broadcast(y, 1, ""),
    ],
)
def test_the_functions_of_pytorch_need_no_process_group(reduce: Callable[[T], T]) -> None:
    assert Net(reduce)(torch.randn(8, 16)).shape == ()


def test_a_result_that_differs_among_ranks_needs_a_dim() -> None:
    with pytest.raises(GraphError, match="differs among the ranks"):
        Net(lambda y: y)(torch.randn(8, 16))
    assert Net(lambda y: y, outputs=1)(torch.randn(8, 16)).shape == ()


@pytest.mark.parametrize(
    ("reduce", "fields", "message"),
    [
        (lambda y: y, {"parameters": {"up": 0}}, "no parameter of the region matches 'up'"),
        (lambda y: y, {"size": 3}, "no dim 1 that 3 ranks can share"),
        (lambda y: y, {"inputs": (None, None)}, "states 2 inputs and got 1"),
        (
            lambda y: torch.ops._c10d_functional.all_reduce(y, "sum", "other"),
            {"group": "tp"},
            "runs in the group 'other', and the region is of the group 'tp'",
        ),
        (
            lambda y: torch.ops._c10d_functional.all_to_all_single(y, [2, 6], [4, 4], ""),
            {"size": 4},
            "equal parts",
        ),
    ],
)
def test_regions_with_errors_are_refused(
    reduce: Callable[[T], T], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        Net(reduce, **fields)(torch.randn(8, 16))


def test_a_group_that_no_axes_make_is_refused() -> None:
    graph = graph_of(Net(lambda y: functional.all_reduce(y, "sum", "")))
    with pytest.raises(RequestError, match="a region of 4 ranks, and no axes of any mesh make 4"):
        plan(toy_request(graph=graph, topology=topology(2, 3)))
    with pytest.raises(RequestError, match="a region of 4 ranks"):
        check(toy_request(graph=graph, topology=topology(2, 3)))
