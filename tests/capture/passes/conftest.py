"""Kinds of the ops that a capture leaves, in order."""

from collections.abc import Callable

import pytest
import torch

from meshwright.schema import Graph


@pytest.fixture
def kinds(check_capture: Callable[..., Graph]) -> Callable[..., list[str]]:
    """The kinds left of a function; its value is checked as well."""

    def of(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> list[str]:
        return [op.kind for op in check_capture(_Function(function), *inputs).ops]

    return of


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)
