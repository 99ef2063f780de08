"""The comparison of one step of a module with the plan's graph: loss and gradients, on the CPU.

Parameters and inputs are random, in float64. A difference that these inputs do not show, or below
the tolerance, is not found.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import torch

from meshwright.capture.interpreter import interpret
from meshwright.runtime.ranks import LOADED
from meshwright.runtime.torch.module_check.forward_arguments import forward_arguments
from meshwright.runtime.torch.module_check.meta_copy import check_forwards
from meshwright.schema import Graph, GraphError, ModuleMismatch, Tensor
from meshwright.stages.dropout import drops

T = torch.Tensor

# chosen: a copy in float64 with gradients takes 16 bytes for each, and a step well under a minute
LARGEST_PARAMETERS = 20_000_000
LARGEST_PRODUCT = 20_000_000_000  # parameters times elements of inputs
# chosen: modules may compute in float32 where the graph has float64
TOLERANCE = 1e-5
SPREAD = 0.2  # chosen: the standard deviation of parameters; differences stay visible
SEED, ROWS = 0, 2
_FLOATS = ("float32", "bfloat16", "float16")


class NotComparable(Exception):
    """A step of the module cannot be compared with the graph on one process."""


def compare_loss(module: torch.nn.Module, graph: Graph, symbols: Mapping[str, int]) -> None:
    """Raise ModuleMismatch if loss or gradients differ, and NotComparable without a step.

    The sizes are `symbols`, with a batch of ROWS.
    """
    assert graph.loss is not None
    sizes = {**symbols, **({"batch": ROWS} if "batch" in symbols else {})}
    _check_cost(module, graph, sizes)
    with torch.random.fork_rng([]), torch.device("cpu"):
        torch.manual_seed(SEED)
        alone = _copy(module)
        limits = _limits(graph)

        inputs: dict[str, T] = {}

        def value(tensor: Tensor) -> T:
            return inputs.setdefault(tensor.name, _random(tensor, sizes, limits))

        arguments = forward_arguments(alone, graph, value)
        parameters = dict(alone.named_parameters(remove_duplicate=False))
        try:
            result = alone(*arguments.positional, **arguments.named)
        except Exception as why:  # modules raise errors of any class
            raise NotComparable(f"a step of the module fails on the CPU ({_line(why)})") from why
        loss = _loss(result)
        values = {**dict(alone.named_buffers(remove_duplicate=False)), **parameters, **inputs}
        try:
            planned = interpret(
                graph,
                values,
                symbols=sizes,
                dtypes=dict.fromkeys(_FLOATS, torch.float64),
            )[graph.loss]
        except (NotImplementedError, GraphError, RuntimeError, KeyError) as why:
            raise NotComparable(f"the graph has no step on the CPU ({_line(why)})") from why
        _compare(graph, loss, planned, parameters)


def _check_cost(module: torch.nn.Module, graph: Graph, sizes: Mapping[str, int]) -> None:
    parameters = sum(parameter.numel() for parameter in module.parameters())
    if parameters > LARGEST_PARAMETERS:
        raise NotComparable(
            f"a step of {parameters:,} parameters is too large to be compared (at most "
            f"{LARGEST_PARAMETERS:,})"
        )
    elements = max((math.prod(t.dims(sizes)) for t in graph.tensors if t.role in LOADED), default=0)
    if parameters * elements > LARGEST_PRODUCT:
        raise NotComparable(
            f"a step of {parameters:,} parameters and {elements:,} elements of inputs is too large "
            "to be compared"
        )
    if any(drops(op.kind, op.attrs) for op in graph.ops):
        raise NotComparable("a step with dropout is random, so that it cannot be compared")


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    """A copy of the module in float64 on the CPU, with random parameters."""
    try:
        check_forwards(module)
        alone = copy.deepcopy(module).to("cpu").double()
    except Exception as why:  # attributes of a module raise errors of any class
        raise NotComparable(f"the module cannot be copied ({_line(why)})") from why
    with torch.no_grad():
        for parameter in alone.parameters():
            parameter.normal_(0.0, SPREAD)
    return alone


def _limits(graph: Graph) -> dict[str, int]:
    """The number of values of each integer input: rows of its table, or classes of its loss."""
    limits: dict[str, int] = {}
    for op in graph.ops:
        if op.kind == "embedding":
            table, ids = (
                op.inputs if graph.tensor(op.inputs[0]).role == "parameter" else op.inputs[::-1]
            )
            rows = graph.tensor(table).shape[0]
            limits[ids] = min(limits.get(ids, 2**31), rows if isinstance(rows, int) else 2)
        elif op.kind == "cross_entropy":
            classes = graph.tensor(op.inputs[0]).shape[-1]
            limits[op.inputs[1]] = classes if isinstance(classes, int) else 2
    return limits


def _random(tensor: Tensor, sizes: Mapping[str, int], limits: Mapping[str, int]) -> T:
    shape = tensor.dims(sizes)
    if tensor.dtype in ("float64", *_FLOATS):
        return torch.rand(shape, dtype=torch.float64)
    dtype: torch.dtype = getattr(torch, tensor.dtype)
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    smallest = min(limits.values(), default=2)  # of an input whose table is behind other ops
    return torch.randint(0, limits.get(tensor.name, smallest), shape).to(dtype)


def _loss(result: object) -> T:
    """The loss among the results of a forward: itself, or the first of several."""
    loss = getattr(result, "loss", None)
    if loss is None:
        loss = result[0] if isinstance(result, (tuple, list)) else result
    if not isinstance(loss, T) or loss.numel() != 1:
        raise NotComparable("the forward of the module returns no loss")
    return loss


def _compare(graph: Graph, loss: T, planned: T, parameters: Mapping[str, T]) -> None:
    if not torch.allclose(loss.detach().double(), planned.detach().double(), TOLERANCE, TOLERANCE):
        raise ModuleMismatch(
            f"the module is not that of the plan: for random parameters and inputs its loss is "
            f"{float(loss.detach()):.6g}, and that of the plan's graph {graph.id} "
            f"{float(planned.detach()):.6g}. Train the module that was captured, or capture this "
            "module and plan again"
        )
    trained = {name: p for name, p in parameters.items() if p.requires_grad}
    both = [
        torch.autograd.grad(end, list(trained.values()), allow_unused=True)
        if end.requires_grad
        else (None,) * len(trained)
        for end in (loss, planned)
    ]
    for name, ours, theirs in zip(trained, *both, strict=True):
        first, second = (torch.zeros(()) if g is None else g for g in (ours, theirs))
        if float((first - second).norm()) > 10 * TOLERANCE * max(float(second.norm()), TOLERANCE):
            raise ModuleMismatch(
                f"the module is not that of the plan: for random parameters and inputs the "
                f"gradient of {name!r} has the norm {float(first.norm()):.6g}, and by the plan's "
                f"graph {graph.id} {float(second.norm()):.6g}, with a difference of "
                f"{float((first - second).norm()):.6g}. Train the module that was captured, or "
                "capture this module and plan again"
            )


def _line(why: Exception) -> str:
    return f"{type(why).__name__}: {' '.join(str(why).split())[:200]}"
