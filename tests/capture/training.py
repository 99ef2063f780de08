"""A module trained once from PyTorch and once from its graph, and the plan of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from meshwright.capture import capture_module, interpret
from meshwright.plugins import certificate_of, find_planner, find_verifier, preset
from meshwright.schema import Degrees, Graph, Pipeline
from tests.one_stage import one_stage_request

BATCH, SEQ = 3, 12
DEVICES = 2

Inputs = Callable[[Mapping[str, int]], Mapping[str, torch.Tensor]]


def check_training(module: torch.nn.Module, inputs: Inputs, *, seq: int = SEQ) -> Graph:
    """The graph of a module, after its loss and gradients were compared with the module's.

    inputs: makes the arguments by the sizes of batch and seq, on the current device.
    """

    def on_meta(sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        with torch.device("meta"):
            return inputs(sizes)

    graph = capture_module(module, on_meta, symbols={"batch": 1024, "seq": 64}, name="case")
    made = inputs({"batch": BATCH, "seq": seq})
    loss = module(**made)
    parameters = dict(module.named_parameters())
    values = {**parameters, **dict(module.named_buffers()), **made}
    sizes = {name: {"batch": BATCH, "seq": seq}[name] for name in graph.symbols}
    other = interpret(graph, values, symbols=sizes)[graph.loss]
    assert_trains_the_same(parameters, loss, other)
    return graph


def assert_trains_the_same(
    parameters: Mapping[str, torch.Tensor],
    loss: torch.Tensor,
    found: torch.Tensor,
    *,
    rtol: float = 1e-4,
    of_largest: float = 0.0,
) -> None:
    """The loss of a graph is that of the module, and so are the gradients of these parameters.

    of_largest: a tolerance for gradients, as a share of the largest element of each.
    """
    torch.testing.assert_close(found, loss, rtol=1e-5, atol=1e-6)
    # a parameter that one of the two does not read has a gradient of zeros
    options = {"allow_unused": True, "materialize_grads": True}
    wanted = torch.autograd.grad(loss, list(parameters.values()), **options)
    made = torch.autograd.grad(found, list(parameters.values()), **options)
    for name, one, other in zip(parameters, wanted, made, strict=True):
        near = max(2e-5, of_largest * float(one.abs().max()))
        torch.testing.assert_close(other, one, rtol=rtol, atol=near, msg=lambda m, n=name: n + m)


def check_data_parallel(graph: Graph) -> None:
    """Devices share all work on the batch, and the executed plan equals the unsharded run."""
    request = one_stage_request(
        graph=graph,
        topology=preset(f"h100-1x{DEVICES}"),
        degrees=Degrees(dp=DEVICES),
        pipeline=Pipeline(ranks=1),
    )
    answer = find_planner()(request)
    assert answer.plan is not None, answer.infeasible
    certificate = certificate_of(find_verifier(), answer.plan, request)
    assert certificate.outcome == "verified", certificate.detail
    # products of parameters and the loss are no work on the batch
    assert answer.plan.repeated_work < 0.01, answer.plan.repeated_work
