"""Deferred weight gradients, for schedules that split backward passes in two.

An op that reads parameters runs in a separate autograd graph. The pass for inputs computes the
gradients of activations from this graph, and stores the gradients of the op's results. The pass for
weights computes the gradients of parameters. All other ops release their saved tensors in the first
of the two passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

T = torch.Tensor
Op = Callable[[Sequence[T]], Sequence[T]]


@dataclass(eq=False, slots=True)
class _Part:
    """The autograd graph of one op.

    names   the names of the parameters that the op reads
    came    these parameters outside the graph
    leaves  these parameters as leaves of the graph
    others  the activations among the leaves, by position of the input
    ends    the gradient edges of the results, which do not keep the results alive
    sent    the gradients of the results, after the pass for inputs
    """

    names: Sequence[str]
    came: Sequence[T]
    leaves: Sequence[T]
    others: Mapping[int, T]
    ends: Sequence[GradientEdge]
    sent: Sequence[T] = ()


class DeferredWeightGradients:
    """The deferred weight gradients of one microbatch of a stage."""

    def __init__(self) -> None:
        self._waiting: list[_Part] = []
        # an op without activations needs a leaf to have a backward pass
        self._root = torch.empty(0, requires_grad=True)

    def run(self, op: Op, inputs: Sequence[T], read: Mapping[int, str]) -> Sequence[T]:
        """The results of an op. `read` are the names of its parameters, by position."""

        def begin() -> tuple[_Part, Sequence[T]]:
            leaves = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
            with torch.enable_grad():
                results = op(leaves)
            part = _Part(
                names=list(read.values()),
                came=[inputs[k] for k in read],
                leaves=[leaves[k] for k in read],
                others={k: x for k, x in enumerate(leaves) if k not in read and x.requires_grad},
                ends=[get_gradient_edge(result) for result in results if result.requires_grad],
            )
            return part, results

        others = (None if k in read else x for k, x in enumerate(inputs))
        results: Sequence[T] = _Split.apply(begin, self._waiting.append, self._root, *others)  # type: ignore[no-untyped-call]  # torch's apply has no types
        return results

    def give(self) -> None:
        """Run the pass for weights: each parameter gets its gradient when it is complete."""
        left = Counter(name for part in self._waiting for name in part.names)
        ready: dict[str, list[tuple[T, T]]] = {}
        while self._waiting:
            part = self._waiting.pop(0)
            terms = torch.autograd.grad(part.ends, part.leaves, part.sent, materialize_grads=True)
            for name, came, gradient in zip(part.names, part.came, terms, strict=True):
                ready.setdefault(name, []).append((came, gradient))
                left[name] -= 1
                if not left[name]:
                    ends, gradients = zip(*ready.pop(name), strict=True)
                    torch.autograd.backward(ends, gradients)


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        begin: Callable[[], tuple[_Part, Sequence[T]]],
        wait: Callable[[_Part], None],
        *others: T | None,
    ) -> tuple[T, ...]:
        ctx.part, outputs = begin()
        ctx.wait, ctx.inputs = wait, len(others) - 1
        ctx.ends = [k for k, output in enumerate(outputs) if output.requires_grad]
        results = tuple(output.detach() for output in outputs)
        ctx.mark_non_differentiable(*(x for k, x in enumerate(results) if k not in ctx.ends))
        return results

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        part: _Part = ctx.part
        part.sent = [sent[k] for k in ctx.ends]
        by_input: dict[int, T] = {}
        if part.others:
            gradients = torch.autograd.grad(
                part.ends,
                list(part.others.values()),
                part.sent,
                retain_graph=True,
                materialize_grads=True,
            )
            by_input = dict(zip(part.others, gradients, strict=True))
        part.others = {}
        ctx.wait(part)
        return None, None, None, *(by_input.get(k) for k in range(ctx.inputs))
