"""Gradients of parameters that wait, where a schedule splits backward passes in two.

An op that reads parameters is run in a graph of its own. The pass of inputs asks that graph for the
gradients of activations alone, and leaves there what came for the op's results; the pass of weights
asks it for the parameters' gradients. All other ops let go what they saved in the first of the two.
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
    """One op that was run. names: of the parameters that it reads. came: these, as they came.

    leaves: the same where its graph begins. others: activations there, by the place of the input.
    ends: of the graph; not what was made, which may go before. sent: the gradients of that, when
    they are there.
    """

    names: Sequence[str]
    came: Sequence[T]
    leaves: Sequence[T]
    others: Mapping[int, T]
    ends: Sequence[GradientEdge]
    sent: Sequence[T] = ()


class Weights:
    """Of one microbatch of a stage."""

    def __init__(self) -> None:
        self._waiting: list[_Part] = []
        # lets an op that reads no activation have a backward pass
        self._root = torch.empty(0, requires_grad=True)

    def run(self, op: Op, inputs: Sequence[T], read: Mapping[int, str]) -> Sequence[T]:
        """What an op makes of its inputs. read: which of them are parameters, and their names."""

        def begin() -> tuple[_Part, Sequence[T]]:
            own = [one.detach().requires_grad_(one.requires_grad) for one in inputs]
            with torch.enable_grad():
                made = op(own)
            part = _Part(
                names=list(read.values()),
                came=[inputs[k] for k in read],
                leaves=[own[k] for k in read],
                others={k: one for k, one in enumerate(own) if k not in read and one.requires_grad},
                ends=[get_gradient_edge(one) for one in made if one.requires_grad],
            )
            return part, made

        others = (None if k in read else own for k, own in enumerate(inputs))
        found: Sequence[T] = _Split.apply(begin, self._waiting.append, self._root, *others)  # type: ignore[no-untyped-call]  # torch's apply has no types
        return found

    def give(self) -> None:
        """Hand the gradients to those who take the parameters', each when it is whole."""
        left = Counter(name for part in self._waiting for name in part.names)
        ready: dict[str, list[tuple[T, T]]] = {}
        while self._waiting:
            part = self._waiting.pop(0)
            found = torch.autograd.grad(part.ends, part.leaves, part.sent, materialize_grads=True)
            for name, came, gradient in zip(part.names, part.came, found, strict=True):
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
        ctx.part, made = begin()
        ctx.wait, ctx.inputs = wait, len(others) - 1
        ctx.ends = [k for k, own in enumerate(made) if own.requires_grad]
        results = tuple(own.detach() for own in made)
        ctx.mark_non_differentiable(*(own for k, own in enumerate(results) if k not in ctx.ends))
        return results

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        part: _Part = ctx.part
        part.sent = [sent[k] for k in ctx.ends]
        found: dict[int, T] = {}
        if part.others:
            gradients = torch.autograd.grad(
                part.ends,
                list(part.others.values()),
                part.sent,
                retain_graph=True,
                materialize_grads=True,
            )
            found = dict(zip(part.others, gradients, strict=True))
        part.others = {}
        ctx.wait(part)
        return None, None, None, *(found.get(k) for k in range(ctx.inputs))
