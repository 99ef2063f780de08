"""Redistributions as autograd functions whose backward pass runs the plan's steps for the gradient.

The gradient of a parameter has its own layout. A callback accumulates it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

T = torch.Tensor
Way = Callable[[T], T]


def redistributed(local: T, forward: Way, backward: Way) -> T:
    """The redistribution of a local shard; the backward pass redistributes the gradient."""
    if not local.requires_grad:
        return forward(local)
    return _Redistributed.apply(local, forward, backward)  # type: ignore[no-any-return, no-untyped-call]  # torch's apply has no types


def parameter_read(local: T, forward: Way, take: Callable[[T], None]) -> T:
    """A parameter in the layout of its readers; `take` receives its gradient."""
    if not local.requires_grad:
        return forward(local)
    return _ParameterRead.apply(local, forward, take)  # type: ignore[no-any-return, no-untyped-call]  # as above


class _Redistributed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: T, forward: Way, backward: Way) -> T:
        ctx.backward_way = backward
        return forward(local)

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        return ctx.backward_way(sent[0]), None, None


class _ParameterRead(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: T, forward: Way, take: Callable[[T], None]) -> T:
        ctx.take = take
        return forward(local)

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        ctx.take(sent[0])
        return None, None, None
