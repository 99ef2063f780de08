"""Random programs of one rank with collectives, and what they compute for all ranks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from meshwright.capture import SpmdRegion

T = torch.Tensor
Step = tuple[str, ...]
COLLECTIVES = torch.ops._c10d_functional
MOST_COLUMNS = 64


@dataclass(frozen=True)
class RegionProgram:
    """Steps on a matrix [rows, columns]; `varies`: whether the input differs among the ranks."""

    size: int
    columns: int
    varies: bool
    steps: tuple[Step, ...]


def random_program(seed: int, size: int, length: int = 6) -> RegionProgram:
    draw = random.Random(seed)
    columns, varies = size * size * draw.choice([2, 4]), draw.random() < 0.5
    steps: list[Step] = []
    width = columns // size if varies else columns
    for _ in range(length):
        kinds = ["tanh", "shared linear", "own linear", "all_reduce"]
        if width * size <= MOST_COLUMNS:
            kinds.append("all_gather")
        if width % size == 0 and width > size:
            kinds += ["reduce_scatter", "all_to_all"]
        kind = draw.choice(kinds)
        if kind in ("all_reduce", "reduce_scatter"):
            steps.append((kind, draw.choice(["sum", "avg"])))
        else:
            steps.append((kind,))
        width = {"all_gather": width * size, "reduce_scatter": width // size}.get(kind, width)
    return RegionProgram(size, columns, varies, tuple(steps))


class RankModule(nn.Module):
    """The program of one rank; collectives divide and join columns."""

    def __init__(self, program: RegionProgram) -> None:
        super().__init__()
        self.program = program
        width = program.columns // program.size if program.varies else program.columns
        for place, (kind, *_) in enumerate(program.steps):
            if kind.endswith("linear"):
                name = f"{'own' if kind == 'own linear' else 'shared'}{place}"
                self.register_parameter(name, nn.Parameter(torch.randn(width, width) / width**0.5))
            elif kind == "all_gather":
                width *= program.size
            elif kind == "reduce_scatter":
                width //= program.size

    def forward(self, x: T) -> T:
        size = self.program.size
        for place, (kind, *reduction) in enumerate(self.program.steps):
            if kind == "tanh":
                x = x.tanh()
            elif kind.endswith("linear"):
                x = x @ getattr(self, f"{'own' if kind == 'own linear' else 'shared'}{place}")
            elif kind == "all_reduce":
                x = COLLECTIVES.wait_tensor(COLLECTIVES.all_reduce(x, *reduction, "g"))
            elif kind == "all_gather":
                gathered = COLLECTIVES.all_gather_into_tensor(x.T.contiguous(), size, "g")
                x = COLLECTIVES.wait_tensor(gathered).T
            elif kind == "reduce_scatter":
                y = COLLECTIVES.reduce_scatter_tensor(x.T.contiguous(), *reduction, size, "g")
                x = COLLECTIVES.wait_tensor(y).T
            else:
                y = COLLECTIVES.all_to_all_single(x.T.contiguous(), [], [], "g")
                x = COLLECTIVES.wait_tensor(y).T
        return COLLECTIVES.all_reduce(x, "sum", "g")


def region_of(program: RegionProgram) -> SpmdRegion:
    own = [place for place, (kind, *_) in enumerate(program.steps) if kind == "own linear"]
    return SpmdRegion(
        lambda: RankModule(program),
        size=program.size,
        group="g",
        inputs=(1 if program.varies else None,),
        parameters={f"own{place}": 0 for place in own},
    )


class RegionModel(nn.Module):
    """A region between two linear layers, and a loss."""

    def __init__(self, program: RegionProgram) -> None:
        super().__init__()
        self.first, self.region = nn.Linear(16, program.columns), region_of(program)

    def forward(self, x: T) -> T:
        return self.region(self.first(x)).square().mean()


def all_ranks(program: RegionProgram, x: T, region: SpmdRegion) -> T:
    """The program on a list of the tensors of all ranks, written out."""
    size = program.size
    xs = list(x.chunk(size, 1)) if program.varies else [x] * size
    parameters = dict(region.named_parameters())
    for place, (kind, *reduction) in enumerate(program.steps):
        if kind == "tanh":
            xs = [own.tanh() for own in xs]
        elif kind == "shared linear":
            xs = [own @ parameters[f"shared{place}"] for own in xs]
        elif kind == "own linear":
            weights = parameters[f"own{place}"].chunk(size, 0)
            xs = [own @ weight for own, weight in zip(xs, weights, strict=True)]
        elif kind == "all_reduce":
            xs = [_sum(xs, reduction[0])] * size
        elif kind == "all_gather":
            xs = [torch.cat(xs, 1)] * size
        elif kind == "reduce_scatter":
            xs = list(_sum(xs, reduction[0]).chunk(size, 1))
        else:
            parts = [own.chunk(size, 1) for own in xs]
            xs = [torch.cat([row[rank] for row in parts], 1) for rank in range(size)]
    return _sum(xs, "sum")


def _sum(xs: Sequence[T], reduction: str) -> T:
    total = torch.stack(list(xs)).sum(0)
    return total / len(xs) if reduction == "avg" else total
