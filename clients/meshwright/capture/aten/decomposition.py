"""PyTorch's decompositions of operators, traced as fx graphs on the meta device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
import torch._refs  # registers decompositions of element-wise and shape operators
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

# chosen: element-wise formulas have up to 40 ops; a loop over the steps of a sequence has thousands
MOST_OPS = 64


class _TooLong(Exception):
    """A decomposition has more ops than MOST_OPS."""


class _OpLimit(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class has no types
    """Mode that stops a decomposition after MOST_OPS ops."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's class has no types
        self.ops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        self.ops += 1
        if self.ops > MOST_OPS:
            raise _TooLong
        return func(*args, **(kwargs or {}))


Arguments = Callable[[Sequence[Any]], tuple[Sequence[Any], Mapping[str, Any]]]


def decompositions(
    operator: torch._ops.OpOverload, arguments: Arguments, tensors: Sequence[torch.Tensor]
) -> Iterator[torch.fx.Graph]:
    """The graphs of the decompositions of one call, one level deep, the first choice first.

    arguments: the call's positional and keyword arguments, from its tensors. The placeholders of a
    graph are the tensors. Decompositions that cannot be traced or have more than MOST_OPS ops are
    left out.
    """
    registered = decomposition_table.get(operator)
    if registered is not None:
        yield from _traced(registered, arguments, tensors, composites="stay")
    if operator._can_decompose():
        yield from _traced(operator.decompose, arguments, tensors, composites="decompose")


def _traced(
    function: Callable[..., Any],
    arguments: Arguments,
    tensors: Sequence[torch.Tensor],
    *,
    composites: Literal["stay", "decompose"],
) -> Iterator[torch.fx.Graph]:
    """The graph of a function of the arguments; nothing where it cannot be traced."""

    def limited(*values: torch.Tensor) -> Any:
        positional, keywords = arguments(values)
        with _OpLimit():
            return function(*positional, **keywords)

    try:
        with warnings.catch_warnings(), torch.device("meta"), torch.no_grad():
            warnings.simplefilter("ignore")
            graph = make_fx(limited, pre_dispatch=composites == "stay")(*tensors).graph
    except Exception:  # decompositions raise errors of any class
        return
    yield graph
