"""Gradients of scalar parameters. `fully_shard` takes none; every rank keeps them whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate


class ScalarGradients:
    """The reduction of the gradients of scalars over the data-parallel ranks, once a step."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        groups: Sequence[dist.ProcessGroup],
        *,
        is_mean: bool,
    ) -> None:
        self._parameters = [own for own in parameters if not own.ndim and own.requires_grad]
        self._groups = groups
        self._is_mean = is_mean

    @contextmanager
    def reduced(self) -> Iterator[None]:
        """A context for the passes of a step; gradients of earlier steps stay as they are."""
        before = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        yield
        for parameter, earlier in zip(self._parameters, before, strict=True):
            gradient = parameter.grad
            if gradient is None:
                parameter.grad = earlier
                continue
            if isinstance(gradient, DTensor):
                gradient = gradient.redistribute(placements=[Replicate()])
            self._reduce(gradient.to_local() if isinstance(gradient, DTensor) else gradient)
            parameter.grad = gradient if earlier is None else gradient + earlier

    def _reduce(self, gradient: torch.Tensor) -> None:
        for group in self._groups:
            dist.all_reduce(gradient, group=group)
            if self._is_mean:
                gradient /= group.size()
